//! `barewire feed replay`: captures to books.

use super::Channels;
use super::show;
use crate::console::Console;
use crate::failure::{Code, Failure};
use crate::signals;
use anyhow::Context as _;
use barewire_bench::interrupted;
use barewire_feed_handler::print::{self, Export, Printer, Show};
use barewire_feed_handler::{CsvExport, EXPORT_DEPTH_MAX, FeedHandler, ParquetExport, Replay};
use barewire_port::Speed;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Timers run by the captures' stamps, so books and callbacks are the same at every speed. Exit code 1 when --truth is given \
and a book differs from it.")]
pub struct Args {
    /// Captures (pcap or pcapng), merged by their stamps
    #[arg(long = "from", value_name = "FILE", required = true, value_delimiter = ',')]
    captures: Vec<PathBuf>,
    #[command(flatten)]
    channels: Channels,
    /// `flat` (as fast as possible), `1x`, or a multiple of the captured pace
    #[arg(long, default_value = "flat")]
    speed: Speed,
    /// Print every book at the end of each event that changed it, and every trade
    #[arg(long)]
    each: bool,
    /// Write books into a file (with --trades): Parquet where both names end in .parquet, else CSV
    #[arg(long, value_name = "FILE", requires = "trades")]
    books: Option<PathBuf>,
    /// Write trades into a file (with --books)
    #[arg(long, value_name = "FILE", requires = "books")]
    trades: Option<PathBuf>,
    /// The emulator's truth file; the books are compared with it at the end
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
    signals::catch()?;
    let mut files = match (&args.books, &args.trades) {
        (Some(_), Some(_)) if plan.channels.len() > 1 => {
            let why = format!(
                "the configuration has {} channels, and books are exported for one",
                plan.channels.len()
            );
            return Err(Failure::new(Code::Usage, why)
                .hint("write a configuration with that one channel")
                .into());
        }
        (Some(books), Some(trades)) => Some(export(books, trades)?),
        _ => None,
    };
    let mut replay = Replay::open(&args.captures, &plan.channels, true)?;
    let Some(start) = replay.next_at() else {
        return Err(Failure::new(Code::Failed, "the captures have no packets").into());
    };
    let mut handler =
        FeedHandler::builder(plan.clone()).sources(vec![]).start(start).listen(|_, channel| {
            let mut printer = Printer::new(show, channel.id);
            printer.export = files.take();
            printer
        })?;
    let packets = print::replay_while(&mut handler, &mut replay, args.speed, &|| !interrupted())?;
    if packets == 0 {
        let why = "no packet in the captures belongs to these channels";
        let hint = "the configuration names groups and UDP ports; `feed check` shows what there is";
        return Err(Failure::new(Code::Failed, why).hint(hint).into());
    }
    for channel in handler.channels_mut() {
        if let Some(export) = &mut channel.listener_mut().export {
            let (books, trades) = export.finish().context("writing books and trades")?;
            console.tell(&format!("{books} rows of books, {trades} of trades"));
        }
    }
    let channels: Vec<_> = plan.channels.iter().map(|c| c.id).zip(handler.channels()).collect();
    show::end(&channels, show, console)?;
    if interrupted() {
        return Ok(Code::Interrupted);
    }
    show::judge(args.truth.as_deref(), &channels, console)
}

/// Books and trades as the names of the files ask for.
fn export(books: &Path, trades: &Path) -> anyhow::Result<Export> {
    let create = |path: &Path| File::create(path).with_context(|| format!("writing {}", path.display()));
    let columns = |path: &Path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"));
    Ok(match (columns(books), columns(trades)) {
        (true, true) => {
            Export::Parquet(Box::new(ParquetExport::new(create(books)?, create(trades)?, EXPORT_DEPTH_MAX)?))
        }
        (false, false) => {
            let (books, trades) = (BufWriter::new(create(books)?), BufWriter::new(create(trades)?));
            Export::Csv(CsvExport::new(books, trades, EXPORT_DEPTH_MAX)?)
        }
        _ => {
            let why = "books and trades are written in one format: end both names in .parquet, or neither";
            return Err(Failure::new(Code::Usage, why).into());
        }
    })
}
