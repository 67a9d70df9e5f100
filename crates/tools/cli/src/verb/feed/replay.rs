//! `barewire feed replay`: captures to books.

use super::Channels;
use super::show::{self, Printer, Show};
use crate::console::Console;
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_feed_handler::{CsvExport, EXPORT_DEPTH_MAX, FeedHandler, Replay};
use barewire_port::Speed;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

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
    let show = Show { each: args.each, json: args.json, quiet: console.is_quiet() };
    let mut csv = match (&args.books, &args.trades) {
        (Some(_), Some(_)) if plan.channels.len() > 1 => {
            let why =
                format!("the configuration has {} channels; books are exported of one", plan.channels.len());
            return Err(Failure::new(Code::Usage, why)
                .hint("make a configuration of the one you want")
                .into());
        }
        (Some(books), Some(trades)) => {
            Some(CsvExport::new(create(books)?, create(trades)?, EXPORT_DEPTH_MAX)?)
        }
        _ => None,
    };
    let mut replay = Replay::open(&args.captures, &plan.channels, true)?;
    let Some(start) = replay.next_at() else {
        return Err(Failure::new(Code::Failed, "the captures hold no packet").into());
    };
    let mut handler =
        FeedHandler::builder(plan.clone()).sources(vec![]).start(start).listen(|_, channel| {
            let mut printer = Printer::new(show, channel.id);
            printer.csv = csv.take();
            printer
        })?;
    let packets = handler.replay(&mut replay, args.speed, None)?;
    if packets == 0 {
        let why = "no packet of the captures is of these channels";
        let hint = "the configuration names groups and UDP ports; `feed check` shows what there is";
        return Err(Failure::new(Code::Failed, why).hint(hint).into());
    }
    for channel in handler.channels_mut() {
        if let Some(csv) = &mut channel.listener_mut().csv {
            csv.finish().context("writing books and trades")?;
            let (books, trades) = csv.rows();
            console.tell(&format!("{books} rows of books, {trades} of trades"));
        }
    }
    let channels: Vec<_> = plan.channels.iter().map(|c| c.id).zip(handler.channels()).collect();
    show::end(&channels, show, console)?;
    match &args.truth {
        Some(path) => show::confirm(path, &channels, console),
        None => Ok(Code::Done),
    }
}

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    File::create(path).map(BufWriter::new).with_context(|| format!("writing {}", path.display()))
}
