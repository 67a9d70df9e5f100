//! `barewire feed run` and `record`: live feed channels.

use super::live::{self, State, Watched};
use super::show::{self, Printer, Show};
use super::{Channels, seconds};
use crate::console::Console;
use crate::failure::Code;
use crate::signals;
use anyhow::Context as _;
use barewire_base::Duration;
use barewire_bench::interrupted;
use barewire_engine::{EngineLinks, StopFlag, now};
use barewire_feed_handler::{FeedChannel, FeedCounters, FeedHandler, Plan, RecordPlan};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Between two looks at the clock and the flag that somebody interrupted.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// Arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --each the books are printed at the end. Exit code 1 when --truth is given and a book differs from it.")]
pub struct Args {
    #[command(flatten)]
    channels: Channels,
    /// Stop after so many seconds instead of at Ctrl-C
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
    /// Print every book at the end of each event that changed it, and every trade
    #[arg(long)]
    each: bool,
    /// The emulator's truth, to hold the books against at the end
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Write the packets into a capture, too
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Draw books, gaps and latencies on the terminal while it runs
    #[arg(long, conflicts_with_all = ["each", "json"])]
    live: bool,
    /// Name of the counters page that `barewire stat` reads; `none`: no page
    #[arg(long, value_name = "NAME", default_value = "feed")]
    counters: String,
    /// A JSON object for each book
    #[arg(long)]
    json: bool,
}

/// Arguments of `record`.
#[derive(clap::Args)]
pub struct RecordArgs {
    #[command(flatten)]
    channels: Channels,
    /// The capture (pcap with nanoseconds)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Begin a new file when one has so many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    rotate_bytes: u64,
    /// Stop after so many seconds instead of at Ctrl-C
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
}

/// Runs feed channels.
///
/// # Errors
/// What cannot be opened, or failed later.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let mut plan = args.channels.plan()?;
    if let Some(path) = &args.record {
        plan.record = Some(RecordPlan { path: path.clone(), rotate_bytes: 0 });
    }
    if args.live {
        live::check()?;
    }
    let show = Show { each: args.each, json: args.json, quiet: console.is_quiet() || args.live };
    let picture = args.live.then(Arc::<Mutex<State>>::default);
    let counters = if args.counters == "none" { None } else { Some(args.counters.as_str()) };
    let handler = receive(plan.clone(), args.seconds, show, picture, counters, console)?;
    let channels: Vec<_> = plan.channels.iter().map(|c| c.id).zip(handler.channels()).collect();
    show::end(&channels, show, console)?;
    match &args.truth {
        Some(path) => show::confirm(path, &channels, console),
        None => Ok(Code::Done),
    }
}

/// Records feed channels.
///
/// # Errors
/// What cannot be opened, or failed later.
pub fn record(args: &RecordArgs, console: &Console) -> anyhow::Result<Code> {
    let mut plan = args.channels.plan()?;
    plan.record = Some(RecordPlan { path: args.out.clone(), rotate_bytes: args.rotate_bytes });
    let quiet = Show { quiet: true, ..Show::default() };
    let handler = receive(plan, args.seconds, quiet, None, None, console)?;
    if let Some(recorder) = handler.recorder() {
        let counts = recorder.counts();
        console.tell(&format!("{}: {counts:?}", args.out.display()));
    }
    Ok(Code::Done)
}

/// Receives until the time is over or a signal comes.
fn receive(
    plan: Plan,
    time: Option<Duration>,
    show: Show,
    picture: Option<Arc<Mutex<State>>>,
    counters: Option<&str>,
    console: &Console,
) -> anyhow::Result<FeedHandler<FeedChannel<Printer>>> {
    signals::catch()?;
    for channel in &plan.channels {
        let lines: Vec<String> =
            channel.received().map(|c| format!("{}{} {}", c.feed.letters(), c.side, c.to)).collect();
        console.note(&format!("feed channel {}: {}", channel.id, lines.join(", ")));
    }
    let config = plan.engine_config();
    let stop = StopFlag::new()?;
    let mut builder = FeedHandler::builder(plan).stop_at_end(stop.clone());
    match counters.map(FeedCounters::create) {
        Some(Ok(counters)) => builder = builder.publish_to(counters),
        // The books are what was asked for; somebody else's page is no reason to go without.
        Some(Err(why)) => console.note(&format!("no counters page: {why} (another name: `--counters NAME`)")),
        None => {}
    }
    let handler = builder.listen(|_, channel| {
        let mut printer = Printer::new(show, channel.id);
        printer.live = picture.as_ref().map(|state| Watched::new(state, channel.id));
        printer
    })?;
    let end = time.map(|time| now() + time);
    let done = AtomicBool::new(false);
    let (handler, drawn) = std::thread::scope(|scope| {
        let drawing = picture.as_ref().map(|state| scope.spawn(|| live::draw_until(&done, state)));
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if interrupted() || end.is_some_and(|end| now() >= end) {
                    stop.stop();
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        let handler = handler.run(config, EngineLinks::default(), &stop);
        done.store(true, Ordering::Relaxed);
        (handler, drawing.and_then(|drawing| drawing.join().ok()))
    });
    drawn.unwrap_or(Ok(())).context("drawing")?;
    let handler = handler?;
    match handler.failure() {
        Some(failure) => Err(anyhow::anyhow!("{failure}")),
        None => Ok(handler),
    }
}
