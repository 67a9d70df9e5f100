//! What runs now, and how long the rest takes: one line that is rewritten on a terminal, lines elsewhere.

use barewire_base::{Duration, Instant};
use barewire_measure::stamp;
use std::io::{IsTerminal, Write};

/// Plans that take longer than this show their progress.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// Parts that ended correct the plan when they are at least so much of it: the first seconds say little.
const TELLING: Duration = Duration::from_secs(5);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Not at all.
    Not,
    /// A line for each round of steps: a file wants no hundred.
    Lines,
    /// One line of a terminal, rewritten.
    Rewritten,
}

impl Shown {
    /// As standard error can show it; nothing when `quiet`.
    pub fn on_stderr(quiet: bool) -> Shown {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Not,
            (false, true) => Shown::Rewritten,
            (false, false) => Shown::Lines,
        }
    }
}

/// Progress of a plan of one or several parts, on stderr, with the time left: as planned at first, later as planned times what the parts
/// that ended took.
pub struct Ticker {
    shown: Shown,
    planned: Duration,
    /// Planned time of the parts that ended, and what they took.
    done: (Duration, Duration),
    part: Option<Part>,
    /// The round that was told last, where each is told once.
    round: String,
}

struct Part {
    name: String,
    planned: Duration,
    started: Instant,
}

impl Ticker {
    /// Of a plan that is expected to take `planned` in all.
    pub fn new(shown: Shown, planned: Duration) -> Ticker {
        let shown = if planned > SHOWN_AFTER { shown } else { Shown::Not };
        Ticker { shown, planned, done: (Duration::ZERO, Duration::ZERO), part: None, round: String::new() }
    }

    /// A part begins, which is expected to take `planned`; the one before has ended. An empty name is not shown.
    pub fn part(&mut self, name: &str, planned: Duration) {
        self.end_part(stamp());
        self.part = Some(Part { name: name.to_owned(), planned, started: stamp() });
    }

    fn end_part(&mut self, now: Instant) {
        if let Some(part) = self.part.take() {
            self.done.0 = self.done.0 + part.planned;
            self.done.1 = self.done.1 + now.since(part.started);
        }
    }

    /// Says what runs now: `run 2 of 5: SYSTEM`, or anything else whose first part, up to a colon, is that of its neighbours.
    pub fn step(&mut self, what: &str) {
        let Some(line) = self.told(stamp(), what) else { return };
        // A terminal that went away must not end a measurement.
        let _ = match self.shown {
            Shown::Rewritten => write!(std::io::stderr(), "\r\x1b[K{line}"),
            _ => writeln!(std::io::stderr(), "{line}"),
        };
    }

    fn told(&mut self, now: Instant, what: &str) -> Option<String> {
        match self.shown {
            Shown::Not => None,
            Shown::Rewritten => Some(self.line(now, what)),
            Shown::Lines => {
                let round = what.split(": ").next().unwrap_or(what);
                let named = format!("{}: {round}", self.part.as_ref().map_or("", |part| &part.name));
                let is_new = named != std::mem::replace(&mut self.round, named.clone());
                is_new.then(|| self.line(now, round))
            }
        }
    }

    /// Takes the line away, so that other text may follow. The next step brings it back.
    pub fn clear(&self) {
        if self.shown == Shown::Rewritten {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn line(&self, now: Instant, what: &str) -> String {
        let part = self
            .part
            .as_ref()
            .filter(|p| !p.name.is_empty())
            .map_or_else(String::new, |p| format!("{}: ", p.name));
        format!("{part}{what}, {} left", time_text(self.left(now)))
    }

    /// What is left of the part, and the parts after it at the pace of those before.
    fn left(&self, now: Instant) -> Duration {
        let (planned, took) = self.done;
        let (of_part, passed) = self
            .part
            .as_ref()
            .map_or((Duration::ZERO, Duration::ZERO), |p| (p.planned, now.since(p.started)));
        let later = self.planned - (planned + of_part);
        let pace = |span: Duration| {
            if planned < TELLING {
                return span;
            }
            Duration::from_nanos((span.as_nanos() as f64 * took.as_secs_f64() / planned.as_secs_f64()) as u64)
        };
        (pace(of_part) - passed) + pace(later)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A span for people: `1:05`, `26:40`.
pub fn time_text(span: Duration) -> String {
    let seconds = (span.as_secs_f64() + 0.5) as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_time_left_is_that_of_the_plan_and_later_that_of_its_pace() {
        let start = stamp();
        let mut ticker = Ticker::new(Shown::Not, seconds(100));
        assert_eq!(ticker.left(start), seconds(100));
        ticker.part = Some(Part { name: "switch".to_owned(), planned: seconds(40), started: start });
        assert_eq!(ticker.left(start + seconds(10)), seconds(90));
        assert_eq!(ticker.line(start + seconds(10), "run 1 of 2"), "switch: run 1 of 2, 1:30 left");
        // Later than planned: nothing is left of this part, and what comes after is not known better.
        assert_eq!(ticker.left(start + seconds(60)), seconds(60));
        ticker.end_part(start + seconds(60));
        // Half as long again as planned: so the rest is, too.
        assert_eq!(ticker.left(start + seconds(60)), seconds(90));
        ticker.part = Some(Part { name: String::new(), planned: seconds(60), started: start + seconds(60) });
        assert_eq!(ticker.line(start + seconds(90), "x"), "x, 1:00 left");
        assert_eq!(time_text(seconds(1_600)), "26:40");
    }

    #[test]
    fn a_file_has_a_line_for_each_round_and_a_terminal_each_step() {
        let told = |shown| {
            let mut ticker = Ticker::new(shown, seconds(100));
            let mut lines = Vec::new();
            for part in ["messages", "switch"] {
                ticker.part(part, seconds(50));
                for what in ["run 1 of 2: A", "run 1 of 2: B", "run 2 of 2: B", "run 2 of 2: A", "counting"] {
                    lines.extend(ticker.told(stamp(), what));
                }
            }
            lines
        };
        let lines = told(Shown::Lines);
        assert_eq!(lines.len(), 6, "{lines:?}");
        assert!(lines[0].starts_with("messages: run 1 of 2, ") && lines[0].ends_with(" left"), "{lines:?}");
        assert!(
            lines[2].starts_with("messages: counting, ") && lines[3].starts_with("switch: run 1"),
            "{lines:?}"
        );
        assert!(told(Shown::Rewritten)[1].starts_with("messages: run 1 of 2: B, "));
        assert!(told(Shown::Rewritten).len() == 10 && told(Shown::Not).is_empty());
    }

    #[test]
    fn a_plan_of_a_moment_shows_nothing() {
        assert_eq!(Ticker::new(Shown::Lines, seconds(2)).shown, Shown::Not);
        assert_eq!(Ticker::new(Shown::Lines, seconds(3)).shown, Shown::Lines);
    }
}
