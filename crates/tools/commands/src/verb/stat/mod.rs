//! `barewire stat`: the counters pages of running engines, printed once, again and again, or live on a terminal.

mod live;

use super::measured;
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use crate::{screen, signals};
use anyhow::Context as _;
use barewire_base::Duration;
use barewire_engine::{CounterKind, CountersReader, PageError, counters_pages};
use barewire_metrics::{Before, Page, Which, is_trusted};
use barewire_text::suggest;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Live on a terminal: q quits, s sorts by name, value or rate, d shows drops only, z shows zeros too, / filters, space pauses, arrows scroll. \
Elsewhere, or with --once, --watch or --json, it prints.")]
pub struct Args {
    /// The engine's name; on a terminal several, side by side [default: the only one there is; on a terminal all that run]
    #[arg(long)]
    name: Vec<String>,
    /// Also show counters that are zero
    #[arg(long)]
    all: bool,
    /// Show only counters whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Repeat every so many seconds, with rates, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = pause)]
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
    /// List the engines that run, and the files of those that died, which may be deleted
    #[arg(long, conflicts_with_all = ["name", "all", "filter", "watch", "live", "once", "json"])]
    list: bool,
}

/// Seconds between two looks: without a pause there would be nothing else.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = measured::seconds(text)?;
    if pause == Duration::ZERO { Err("must be more than 0".to_owned()) } else { Ok(pause) }
}

/// One look at the page, by names.
fn look(name: &str, reader: &mut CountersReader) -> Result<Page, PageError> {
    let mut page = Page::take(name, reader)?;
    page.counters.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(page)
}

/// What is to be shown of a look.
fn shown<'a>(page: &'a Page, args: &'a Args) -> impl Iterator<Item = (&'a str, CounterKind, u64)> {
    let counters = page.counters.iter().map(|(name, kind, value)| (name.as_str(), *kind, *value));
    counters.filter(|(name, _, value)| (args.all || *value != 0) && name.contains(&args.filter))
}

fn kind_word(kind: CounterKind) -> &'static str {
    match kind {
        CounterKind::Gauge => "gauge",
        _ => "counter",
    }
}

fn text(page: &Page, before: Option<&Before>, args: &Args) -> String {
    let width = shown(page, args).map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, kind, value) in shown(page, args) {
        let _ = write!(out, "{name:<width$}  {value:>14}");
        if let Some(rate) = before.and_then(|before| before.rate(page.at, name, kind, value)) {
            let _ = write!(out, "  {rate:>12.1}/s");
        }
        out.push('\n');
    }
    out
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn object(name: &str, page: &Page, before: Option<&Before>, args: &Args) -> String {
    let counters: serde_json::Map<String, serde_json::Value> = shown(page, args)
        .map(|(name, kind, value)| {
            let rate = before.and_then(|before| before.rate(page.at, name, kind, value));
            (name.to_owned(), json!({ "kind": kind_word(kind), "value": value, "rate_per_s": rate }))
        })
        .collect();
    json!({
        "schema": 1,
        "name": name,
        "pid": page.pid,
        "alive": page.alive,
        "age_s": seconds(page.age_ns),
        "counters": counters,
    })
    .to_string()
}

const START_ONE: &str = "an engine publishes counters while it runs: start one with `barewire up`";

/// Pages that may be shown.
fn pages() -> Vec<String> {
    let mut there = counters_pages();
    // What cannot be opened is told when it is the one that is meant.
    there.retain(|name| CountersReader::find(name).map_or(true, |reader| is_trusted(&reader)));
    there
}

/// A line for each page; the living first.
fn list() -> String {
    let mut lines: Vec<(bool, String)> = Vec::new();
    for name in pages() {
        let line = match CountersReader::find(&name) {
            Ok(reader) if reader.owner_alive() => (false, format!("{name}  process {}\n", reader.pid())),
            Ok(reader) => {
                let path = reader.path().display();
                (true, format!("{name}  process {} died: {path}\n", reader.pid()))
            }
            Err(error) => (true, format!("{name}  {error}\n")),
        };
        lines.push(line);
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The page that is meant: the one that was named, else the only one whose engine lives, else the only one there is.
fn find(args: &Args) -> anyhow::Result<CountersReader> {
    let there = if args.name.is_empty() { pages() } else { counters_pages() };
    let known: Vec<&str> = there.iter().map(String::as_str).collect();
    let name = match &args.name[..] {
        [name] => name.as_str(),
        [_, _, ..] => {
            let text = "several engines stand side by side on a terminal only";
            return Err(Failure::new(Code::Usage, text).hint("--live, or one --name").into());
        }
        [] => {
            let lives = |name: &&str| CountersReader::find(name).is_ok_and(|reader| reader.owner_alive());
            let living: Vec<&str> = known.iter().copied().filter(lives).collect();
            only(&living, &known)?
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

/// Most names that a hint has.
const NAMES_SHOWN: usize = 5;

/// The only one of the living engines, else of all pages. Several are no slip: which there are, nobody knows beforehand.
fn only<'a>(living: &[&'a str], all: &[&'a str]) -> anyhow::Result<&'a str> {
    let name_one = |of: &[&str]| {
        let first = of[..of.len().min(NAMES_SHOWN)].join(", ");
        let more = if of.len() > NAMES_SHOWN { ", ...; --list shows all" } else { "" };
        format!("name one with --name: {first}{more}")
    };
    let failed = |text: &str, hint: String| Err(Failure::new(Code::Failed, text).hint(hint).into());
    match (living, all) {
        ([only], _) | ([], [only]) => Ok(*only),
        ([], []) => failed("no counters page on this machine", START_ONE.to_owned()),
        ([], dead) => {
            failed(&format!("no engine runs here; {} left their counters", dead.len()), name_one(dead))
        }
        (several, _) => failed(&format!("{} engines run here", several.len()), name_one(several)),
    }
}

/// Runs it.
///
/// # Errors
/// When there is no such page, or it cannot be read.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if args.list {
        let list = list();
        if list.is_empty() {
            console.note("no counters page on this machine");
        } else {
            print(&list)?;
        }
        return Ok(Code::Done);
    }
    let printed = args.json || args.once || args.watch.is_some() || console.is_quiet();
    if args.live || !printed && io::stdout().is_terminal() {
        return draw(args);
    }
    let mut reader = find(args)?;
    let name = reader.name().to_owned();
    let mut before: Option<Before> = None;
    loop {
        let page = look(&name, &mut reader)?;
        if args.json {
            print(&object(&name, &page, before.as_ref(), args))?;
        } else {
            console.tell(&format!("{name}: process {}, up {:.0} s", page.pid, seconds(page.age_ns)));
            let text = text(&page, before.as_ref(), args);
            if text.is_empty() {
                console.note("no counter to show; --all shows those that are zero");
            } else {
                print(&text)?;
            }
        }
        if page.left_out > 0 {
            console.note(&format!("{} further counters are not shown", page.left_out));
        }
        if !page.alive {
            console.note(&format!(
                "process {} is dead: these are its last values ({})",
                page.pid,
                reader.path().display()
            ));
            return Ok(Code::Done);
        }
        let Some(pause) = args.watch else { return Ok(Code::Done) };
        std::thread::sleep(pause.into());
        before = Some(Before::of(page));
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

    fn page(values: &[(&str, CounterKind, u64)]) -> Page {
        Page {
            name: "a".to_owned(),
            pid: 1,
            alive: true,
            age_ns: 0,
            at: barewire_base::Instant::from_nanos(1_000_000_000),
            counters: values.iter().map(|&(name, kind, value)| (name.to_owned(), kind, value)).collect(),
            left_out: 0,
        }
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
            list: false,
        }
    }

    #[test]
    fn the_living_come_first() {
        let chosen = |living: &[&str], all: &[&str]| only(living, all).map(str::to_owned);
        assert_eq!(chosen(&["b"], &["a", "b", "c"]).unwrap(), "b");
        assert_eq!(chosen(&[], &["a"]).unwrap(), "a");
        for (living, all, text) in [
            (&["a", "b"][..], &["a", "b", "c"][..], "2 engines run here"),
            (&[], &["a", "b"], "no engine runs here; 2 left their counters"),
            (&[], &[], "no counters page on this machine"),
        ] {
            let error = chosen(living, all).unwrap_err();
            assert_eq!((error.to_string().as_str(), crate::failure::meaning(&error).0), (text, Code::Failed));
        }
        let hint = crate::failure::meaning(&chosen(&["a", "b"], &["a", "b", "c"]).unwrap_err()).1;
        assert_eq!(hint.as_deref(), Some("name one with --name: a, b"));
        let many = ["a", "b", "c", "d", "e", "f"];
        let hint = crate::failure::meaning(&chosen(&[], &many).unwrap_err()).1;
        assert_eq!(hint.as_deref(), Some("name one with --name: a, b, c, d, e, ...; --list shows all"));
        assert_eq!(pause("0.5"), Ok(Duration::from_millis(500)));
        assert!(pause("0").is_err());
    }

    #[test]
    fn zeros_are_shown_on_request_and_names_are_filtered() {
        use CounterKind::Counter;
        let now = page(&[("msg.rx", Counter, 1), ("port.rx", Counter, 7), ("port.tx", Counter, 0)]);
        let names = |args: &Args| shown(&now, args).map(|c| c.0.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&args(false, "")), ["msg.rx", "port.rx"]);
        assert_eq!(names(&args(true, "port")), ["port.rx", "port.tx"]);
        assert_eq!(text(&now, None, &args(false, "port")), "port.rx               7\n");
    }
}
