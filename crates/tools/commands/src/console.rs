//! Where text goes: results to stdout, notes and errors to stderr.

use crate::args::Color;
use barewire_base::{Duration, Instant};
use barewire_bench::{Shown, Ticker, time_text};
use barewire_measure::stamp;
use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// How to talk to whoever started us.
#[derive(Clone)]
pub struct Console {
    color: bool,
    quiet: bool,
}

impl Console {
    /// As the command line says.
    pub fn new(color: Color, quiet: bool) -> Console {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => io::stderr().is_terminal() && !set("NO_COLOR") && !dumb,
        };
        Console { color, quiet }
    }

    /// Whether only results and errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether messages have colors.
    pub fn has_color(&self) -> bool {
        self.color
    }

    /// A line that a user wants to know and a program does not.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say("36", "note", text);
        }
    }

    /// A plain line of explanation.
    pub fn tell(&self, text: &str) {
        if !self.quiet {
            // A terminal that went away must not end a measurement.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// The `error:` line and its causes.
    pub fn error(&self, text: &str) {
        self.say("1;31", "error", text);
    }

    /// The `hint:` line.
    pub fn hint(&self, text: &str) {
        self.say("33", "hint", text);
    }

    fn say(&self, style: &str, label: &str, text: &str) {
        let _ = if self.color {
            writeln!(io::stderr(), "\x1b[{style}m{label}:\x1b[0m {text}")
        } else {
            writeln!(io::stderr(), "{label}: {text}")
        };
    }

    /// How a plan of this length shows that it goes on, and how long it still takes.
    pub fn ticker(&self, planned: Duration) -> Ticker {
        Ticker::new(Shown::on_stderr(self.quiet), planned)
    }

    /// How something of which nobody knows the pace shows that it goes on.
    pub fn steps(&self) -> Steps {
        Steps::new(Shown::on_stderr(self.quiet), stamp())
    }
}

/// What takes longer than this shows how far it has come.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// Progress in steps on stderr, with the time left at the pace so far; nothing of what takes a moment.
pub struct Steps {
    shown: Shown,
    began: Instant,
    next: Instant,
}

impl Steps {
    fn new(shown: Shown, began: Instant) -> Steps {
        Steps { shown, began, next: began + SHOWN_AFTER }
    }

    /// Says what is done now, when it is time to.
    pub fn tell(&mut self, done: u64, total: u64, what: &str) {
        let Some(line) = self.line(stamp(), done, total, what) else { return };
        // A terminal that went away must not end anything.
        let _ = match self.shown {
            Shown::Rewritten => write!(io::stderr(), "\r\x1b[K{line}"),
            _ => writeln!(io::stderr(), "{line}"),
        };
    }

    fn line(&mut self, now: Instant, done: u64, total: u64, what: &str) -> Option<String> {
        let every = match self.shown {
            Shown::Not => return None,
            Shown::Lines => Duration::from_secs(2),
            Shown::Rewritten => Duration::from_millis(200),
        };
        if now < self.next {
            return None;
        }
        self.next = now + every;
        let took = now.since(self.began).as_secs_f64();
        let left = took * total.saturating_sub(done) as f64 / done as f64;
        let left = if done > 0 {
            format!(", {} left", time_text(Duration::from_nanos((left * 1e9) as u64)))
        } else {
            String::new()
        };
        Some(format!("[{done}/{total}] {what}{left}"))
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.shown == Shown::Rewritten && self.next > self.began + SHOWN_AFTER {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Stdout could not be written to. Inside an [`io::Error`] this tells it from every other file, pipe and socket.
#[derive(Debug)]
pub struct StdoutGone(io::Error);

impl fmt::Display for StdoutGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writing results: {}", self.0)
    }
}

impl Error for StdoutGone {}

/// Stdout, with its errors marked as its own.
pub struct Out<W>(W);

/// Stdout, for results that somebody else writes.
pub fn out() -> Out<io::StdoutLock<'static>> {
    Out(io::stdout().lock())
}

#[cfg(test)]
impl<W> Out<W> {
    /// Something that is taken for stdout.
    pub fn of(writer: W) -> Out<W> {
        Out(writer)
    }
}

fn marked(error: io::Error) -> io::Error {
    // Whoever writes tries again by itself.
    if error.kind() == io::ErrorKind::Interrupted {
        return error;
    }
    io::Error::new(error.kind(), StdoutGone(error))
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(marked)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(marked)
    }
}

/// Results.
///
/// # Errors
/// When nobody reads them any more, or a disk is full.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = out();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Text of others that cannot do anything to a terminal.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_after_a_moment_and_at_their_pace() {
        let began = stamp();
        let seconds = |n: u64| began + Duration::from_secs(n);
        let mut steps = Steps::new(Shown::Lines, began);
        assert_eq!(steps.line(seconds(1), 1, 40, "link a"), None);
        assert_eq!(steps.line(seconds(2), 0, 40, "link a").unwrap(), "[0/40] link a");
        assert_eq!(steps.line(seconds(3), 10, 40, "link b"), None, "not at every step");
        assert_eq!(steps.line(seconds(10), 10, 40, "link c").unwrap(), "[10/40] link c, 0:30 left");
        assert_eq!(steps.line(seconds(20), 40, 40, "link d").unwrap(), "[40/40] link d, 0:00 left");
        assert_eq!(Steps::new(Shown::Not, began).line(seconds(9), 1, 2, "x"), None);
    }
}
