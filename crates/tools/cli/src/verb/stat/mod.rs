//! `barewire stat`: the counters pages of running engines, printed once, again and again, or live on a terminal.

mod live;

use super::measured;
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use crate::{screen, signals};
use anyhow::Context as _;
use barewire_base::{Duration, Instant};
use barewire_engine::{CounterKind, CountersReader, PageError, counters_pages};
use barewire_measure::stamp;
use barewire_metrics::Which;
use barewire_port::suggest;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
On a terminal it is live: q leaves, s sorts by name, value or rate, d shows drops only, z zeros too, / filters, space pauses, arrows move.
Elsewhere, or with --once, --watch or --json, it prints.")]
pub struct Args {
    /// The engine's name; on a terminal several, side by side [default: the only one there is; on a terminal all that run]
    #[arg(long)]
    name: Vec<String>,
    /// Show counters that are zero, too
    #[arg(long)]
    all: bool,
    /// Show only counters whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Again every so many seconds, with rates, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = measured::seconds)]
    watch: Option<Duration>,
    /// Draw on the terminal until q: rates, drops, engines side by side [default on a terminal]
    #[arg(long, conflicts_with_all = ["watch", "json", "once"])]
    live: bool,
    /// Print once, also on a terminal
    #[arg(long, conflicts_with_all = ["watch", "live"])]
    once: bool,
    /// Print one JSON object (with --watch: one on each line)
    #[arg(long)]
    json: bool,
}

/// One look at a page.
struct Look {
    at: Instant,
    counters: BTreeMap<String, (CounterKind, u64)>,
}

impl Look {
    fn take(reader: &mut CountersReader) -> Result<Look, PageError> {
        let counters = reader.read()?.map(|(name, kind, value)| (name.to_owned(), (kind, value))).collect();
        Ok(Look { at: stamp(), counters })
    }

    /// How fast a counter has grown since `before`, per second. A gauge has no rate, nor has a counter that began anew.
    fn rate(&self, name: &str, before: Option<&Look>) -> Option<f64> {
        let before = before?;
        let (&(kind, now), &(_, then)) = (self.counters.get(name)?, before.counters.get(name)?);
        let seconds = self.at.since(before.at).as_secs_f64();
        let grown = now.checked_sub(then)?;
        (kind == CounterKind::Counter && seconds > 0.0).then(|| grown as f64 / seconds)
    }

    fn shown<'a>(&'a self, args: &'a Args) -> impl Iterator<Item = (&'a str, CounterKind, u64)> {
        let counters = self.counters.iter().map(|(name, &(kind, value))| (name.as_str(), kind, value));
        counters.filter(|(name, _, value)| (args.all || *value != 0) && name.contains(&args.filter))
    }
}

fn kind_word(kind: CounterKind) -> &'static str {
    match kind {
        CounterKind::Gauge => "gauge",
        _ => "counter",
    }
}

fn text(look: &Look, before: Option<&Look>, args: &Args) -> String {
    let width = look.shown(args).map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, _, value) in look.shown(args) {
        let _ = write!(out, "{name:<width$}  {value:>14}");
        if let Some(rate) = look.rate(name, before) {
            let _ = write!(out, "  {rate:>12.1}/s");
        }
        out.push('\n');
    }
    out
}

fn object(reader: &CountersReader, look: &Look, before: Option<&Look>, args: &Args) -> String {
    let counters: serde_json::Map<String, serde_json::Value> = look
        .shown(args)
        .map(|(name, kind, value)| {
            let rate = look.rate(name, before);
            (name.to_owned(), json!({ "kind": kind_word(kind), "value": value, "rate_per_s": rate }))
        })
        .collect();
    json!({
        "schema": 1,
        "name": reader.name(),
        "pid": reader.pid(),
        "alive": reader.owner_alive(),
        "age_s": look.at.since(reader.created()).as_secs_f64(),
        "counters": counters,
    })
    .to_string()
}

const START_ONE: &str = "an engine publishes counters while it runs: start one with `barewire up`";

/// The page that is meant.
fn find(args: &Args) -> anyhow::Result<CountersReader> {
    let there = counters_pages();
    let known: Vec<&str> = there.iter().map(String::as_str).collect();
    let name = match (&args.name[..], &known[..]) {
        ([name], _) => name.as_str(),
        ([_, _, ..], _) => {
            let text = "several engines stand side by side on a terminal only";
            return Err(Failure::new(Code::Usage, text).hint("--live, or one --name").into());
        }
        ([], [only]) => only,
        ([], []) => {
            return Err(Failure::new(Code::Failed, "no counters page on this machine")
                .hint(START_ONE)
                .into());
        }
        ([], several) => {
            let text = format!("{} counters pages on this machine", several.len());
            let hint = format!("name one with --name: {}", several.join(", "));
            return Err(Failure::new(Code::Usage, text).hint(hint).into());
        }
    };
    match CountersReader::find(name) {
        Err(PageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let hint = if known.is_empty() { START_ONE.to_owned() } else { suggest(name, &known) };
            Err(Failure::new(Code::Failed, format!("no counters page `{name}`")).hint(hint).into())
        }
        found => Ok(found?),
    }
}

/// Runs it.
///
/// # Errors
/// When there is no such page, or it cannot be read.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let printed = args.json || args.once || args.watch.is_some() || console.is_quiet();
    if args.live || !printed && io::stdout().is_terminal() {
        return draw(args);
    }
    let mut reader = find(args)?;
    let mut before: Option<Look> = None;
    loop {
        let look = Look::take(&mut reader)?;
        if args.json {
            print(&object(&reader, &look, before.as_ref(), args))?;
        } else {
            let age = look.at.since(reader.created()).as_secs_f64();
            console.tell(&format!("{}: process {}, up {age:.0} s", reader.name(), reader.pid()));
            let text = text(&look, before.as_ref(), args);
            if text.is_empty() {
                console.note("no counter to show; --all shows those that are zero");
            } else {
                print(&text)?;
            }
        }
        if !reader.owner_alive() {
            console.note(&format!(
                "process {} is dead: these are its last values ({})",
                reader.pid(),
                reader.path().display()
            ));
            return Ok(Code::Done);
        }
        let Some(pause) = args.watch else { return Ok(Code::Done) };
        std::thread::sleep(pause.into());
        before = Some(look);
    }
}

/// Between two looks at the pages.
const LIVE_EVERY: Duration = Duration::from_millis(1000);

fn draw(args: &Args) -> anyhow::Result<Code> {
    screen::check("without --live the counters are printed; --watch prints them again and again")?;
    signals::catch()?;
    let which = if args.name.is_empty() {
        Which::All
    } else {
        for name in &args.name {
            // A slip is told before the screen is taken.
            find(&Args { name: vec![name.clone()], filter: String::new(), ..*args })?;
        }
        Which::Named(args.name.clone())
    };
    live::run(&which, LIVE_EVERY, live::View::new(&args.filter, args.all)).context("drawing")?;
    Ok(Code::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_s: u64, values: &[(&str, CounterKind, u64)]) -> Look {
        let counters = values.iter().map(|&(name, kind, value)| (name.to_owned(), (kind, value))).collect();
        Look { at: Instant::from_nanos(at_s * 1_000_000_000), counters }
    }

    fn args(all: bool, filter: &str) -> Args {
        Args {
            name: vec![],
            all,
            filter: filter.to_owned(),
            watch: None,
            live: false,
            once: false,
            json: false,
        }
    }

    #[test]
    fn counters_have_rates_and_gauges_have_none() {
        use CounterKind::{Counter, Gauge};
        let then = look(10, &[("rx", Counter, 100), ("flows", Gauge, 2), ("reset", Counter, 9)]);
        let now = look(
            12,
            &[("rx", Counter, 400), ("flows", Gauge, 3), ("reset", Counter, 1), ("new", Counter, 5)],
        );
        assert_eq!(now.rate("rx", Some(&then)), Some(150.0));
        for name in ["flows", "reset", "new", "absent"] {
            assert_eq!(now.rate(name, Some(&then)), None, "{name}");
        }
        assert_eq!(now.rate("rx", None), None);
    }

    #[test]
    fn zeros_are_shown_on_request_and_names_are_filtered() {
        use CounterKind::Counter;
        let now = look(1, &[("port.rx", Counter, 7), ("port.tx", Counter, 0), ("msg.rx", Counter, 1)]);
        let names = |args: &Args| now.shown(args).map(|c| c.0.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&args(false, "")), ["msg.rx", "port.rx"]);
        assert_eq!(names(&args(true, "port")), ["port.rx", "port.tx"]);
        assert_eq!(text(&now, None, &args(false, "port")), "port.rx               7\n");
    }
}
