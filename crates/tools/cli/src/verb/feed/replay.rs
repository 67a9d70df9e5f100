//! `barewire feed replay`: captures to books.

use super::show::{self, Printer, Show};
use super::{Channels, truth};
use crate::console::Console;
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_feed_handler::{CsvExport, EXPORT_DEPTH_MAX, FeedHandler, Replay};
use barewire_port::Speed;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Timers run by the captures' stamps, so books and callbacks are the same at every speed. Exit code 1 when --truth is given
and a book differs from it.")]
pub struct Args {
    /// Captures (pcap or pcapng), merged by their stamps
    #[arg(long = "from", value_name = "FILE", required = true, value_delimiter = ',')]
    captures: Vec<PathBuf>,
    #[command(flatten)]
    channels: Channels,
    /// `flat`, `1x`, or how many times as fast as it was captured
    #[arg(long, default_value = "flat")]
    speed: Speed,
    /// Print every book at the end of each event that changed it, and every trade
    #[arg(long)]
    each: bool,
    /// Write books into a CSV file (with --trades)
    #[arg(long, value_name = "FILE", requires = "trades")]
    books: Option<PathBuf>,
    /// Write trades into a CSV file (with --books)
    #[arg(long, value_name = "FILE", requires = "books")]
    trades: Option<PathBuf>,
    /// The emulator's truth, to hold the books against at the end
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// A JSON object for each book
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When a capture is damaged, or something cannot be written.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let plan = args.channels.plan()?;
    let show = Show { each: args.each, json: args.json, quiet: false };
    if let (Some(books), Some(trades)) = (&args.books, &args.trades) {
        export(args, books, trades, console)?;
    }
    let mut replay = Replay::open(&args.captures, &plan.channels, true)?;
    let Some(start) = replay.next_at() else {
        return Err(Failure::new(Code::Failed, "the captures hold no packet").into());
    };
    let mut handler = FeedHandler::builder(plan.clone())
        .sources(vec![])
        .start(start)
        .listen(|_, channel| Printer::new(show, channel.id))?;
    let packets = handler.replay(&mut replay, args.speed, None)?;
    if packets == 0 {
        let why = "no packet of the captures is of these channels";
        let failure = Failure::new(Code::Failed, why);
        return Err(failure
            .hint("the configuration names groups and UDP ports; `feed check` shows what there is")
            .into());
    }
    let channels: Vec<_> = plan.channels.iter().map(|c| c.id).zip(handler.channels()).collect();
    show::end(&channels, show, console)?;
    let Some(path) = &args.truth else { return Ok(Code::Done) };
    let truth = truth(path)?;
    let id = u32::from(truth.header.channel_id);
    let Some((_, channel)) = channels.iter().find(|(channel, _)| *channel == id) else {
        let why = format!("{} is about channel {id}, which is not among those replayed", path.display());
        return Err(Failure::new(Code::Usage, why).into());
    };
    let differ = show::compare(&truth, channel.core(), console);
    Ok(if differ == 0 { Code::Done } else { Code::Failed })
}

/// Writes books and trades of the first channel that has any.
fn export(args: &Args, books: &PathBuf, trades: &PathBuf, console: &Console) -> anyhow::Result<()> {
    let plan = args.channels.plan()?;
    if plan.channels.len() > 1 {
        let why =
            format!("the configuration has {} channels; books are exported of one", plan.channels.len());
        return Err(Failure::new(Code::Usage, why).hint("make a configuration of the one you want").into());
    }
    let create = |path: &PathBuf| {
        File::create(path).map(BufWriter::new).with_context(|| format!("writing {}", path.display()))
    };
    let mut replay = Replay::open(&args.captures, &plan.channels, true)?;
    let start = replay.next_at().unwrap_or_default();
    let mut out = Some(CsvExport::new(create(books)?, create(trades)?, EXPORT_DEPTH_MAX)?);
    let mut handler = FeedHandler::builder(plan)
        .sources(vec![])
        .start(start)
        .listen(|_, _| out.take().expect("there is one channel"))?;
    handler.replay(&mut replay, Speed::Flat, None)?;
    for channel in handler.channels_mut() {
        let csv = channel.listener_mut();
        csv.finish().with_context(|| format!("writing {} and {}", books.display(), trades.display()))?;
        let (book_rows, trade_rows) = csv.rows();
        console.tell(&format!("{book_rows} rows of books, {trade_rows} of trades"));
    }
    Ok(())
}
