//! `barewire feed run` and `record`: live feed channels.

use super::show::{self, Printer, Show};
use super::{Channels, seconds};
use crate::console::Console;
use crate::failure::Code;
use crate::signals;
use barewire_base::Duration;
use barewire_engine::{IdleStrategy, now};
use barewire_feed_handler::{FeedChannel, FeedHandler, Plan, RecordPlan};
use std::path::PathBuf;

/// What `run` sleeps when nothing came and the plan says `park`.
const NAP: std::time::Duration = std::time::Duration::from_micros(50);

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
    let show = Show { each: args.each, json: args.json, quiet: console.is_quiet() };
    let handler = live(plan.clone(), args.seconds, show, console)?;
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
    let handler = live(plan, args.seconds, Show { quiet: true, ..Show::default() }, console)?;
    if let Some(recorder) = handler.recorder() {
        let counts = recorder.counts();
        console.tell(&format!("{}: {counts:?}", args.out.display()));
    }
    Ok(Code::Done)
}

/// Receives until the time is over or a signal comes.
fn live(
    plan: Plan,
    time: Option<Duration>,
    show: Show,
    console: &Console,
) -> anyhow::Result<FeedHandler<FeedChannel<Printer>>> {
    signals::catch()?;
    let idle = plan.idle;
    for channel in &plan.channels {
        let lines: Vec<String> =
            channel.received().map(|c| format!("{}{} {}", c.feed.letters(), c.side, c.to)).collect();
        console.note(&format!("feed channel {}: {}", channel.id, lines.join(", ")));
    }
    let mut handler = FeedHandler::builder(plan).listen(|_, channel| Printer::new(show, channel.id))?;
    let end = time.map(|time| now() + time);
    while !barewire_bench::interrupted() && end.is_none_or(|end| now() < end) {
        if handler.process(now())? > 0 {
            continue;
        }
        if handler.is_finished() {
            break;
        }
        match idle {
            IdleStrategy::Spin => std::hint::spin_loop(),
            IdleStrategy::Yield => std::thread::yield_now(),
            IdleStrategy::Park { .. } => std::thread::sleep(NAP),
        }
    }
    if let Some(recorder) = handler.recorder_mut() {
        recorder.flush()?;
    }
    Ok(handler)
}
