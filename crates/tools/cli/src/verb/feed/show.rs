//! Books, gaps and trades as lines of text, and what is said at the end.

use super::live::Watched;
use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_feed::{
    BookView, Channel, Gap, Instrument, Level, Line, LineState, Listener, PacketInfo, RecoveryInfo, Reset,
    Trade,
};
use barewire_feed_handler::{CsvExport, FeedChannel, ParquetExport};
use barewire_sbe::Price9;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// What to show while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Show {
    /// Every book at the end of each event that changed it, and every trade.
    pub each: bool,
    /// As JSON objects.
    pub json: bool,
    /// Say nothing about gaps and recovery.
    pub quiet: bool,
}

/// Books and trades into files.
pub enum Export {
    /// As text.
    Csv(CsvExport<BufWriter<File>, BufWriter<File>>),
    /// In columns.
    Parquet(Box<ParquetExport<File, File>>),
}

impl Export {
    /// Ends the files, and says how many rows of books and of trades they have.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(&mut self) -> std::io::Result<(u64, u64)> {
        match self {
            Export::Csv(export) => export.finish().map(|()| export.rows()),
            Export::Parquet(export) => export.finish().map(|()| export.rows()),
        }
    }
}

impl Listener for Export {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        match self {
            Export::Csv(export) => export.on_packet(packet),
            Export::Parquet(export) => export.on_packet(packet),
        }
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        match self {
            Export::Csv(export) => export.on_book(book),
            Export::Parquet(export) => export.on_book(book),
        }
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        match self {
            Export::Csv(export) => export.on_trade(instrument, trade),
            Export::Parquet(export) => export.on_trade(instrument, trade),
        }
    }
}

/// Prints as it listens.
#[derive(Default)]
pub struct Printer {
    show: Show,
    channel: u32,
    books: u64,
    trades: u64,
    /// Is told what it needs, too.
    pub export: Option<Export>,
    /// Is told everything, too, to draw it.
    pub live: Option<Watched>,
}

impl Printer {
    /// A printer for the feed channel of this number.
    pub fn new(show: Show, channel: u32) -> Printer {
        Printer { show, channel, ..Printer::default() }
    }

    fn line(&self, text: std::fmt::Arguments<'_>) {
        // A closed pipe ends the printing, not the handler.
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    fn note(&self, text: std::fmt::Arguments<'_>) {
        if !self.show.quiet {
            let _ = writeln!(std::io::stderr(), "channel {}: {text}", self.channel);
        }
    }
}

impl Listener for Printer {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        if let Some(export) = &mut self.export {
            export.on_packet(packet);
        }
        if let Some(live) = &mut self.live {
            live.on_packet(packet);
        }
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        self.books += 1;
        if let Some(export) = &mut self.export {
            export.on_book(book);
        }
        if let Some(live) = &mut self.live {
            live.on_book(book);
        }
        if self.show.each {
            if self.show.json {
                self.line(format_args!("{}", book_json(self.channel, book)));
            } else {
                self.line(format_args!("{}", best(book)));
            }
        }
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        self.trades += 1;
        if let Some(export) = &mut self.export {
            export.on_trade(instrument, trade);
        }
        if let Some(live) = &mut self.live {
            live.on_trade(instrument, trade);
        }
        if self.show.each && !self.show.json {
            let (price, name) = (Price9(trade.price), instrument.symbol.as_str());
            self.line(format_args!(
                "{:>8} {name:<10} trade {} x {price}",
                instrument.security_id, trade.quantity
            ));
        }
    }

    fn on_gap(&mut self, gap: &Gap) {
        if let Some(live) = &mut self.live {
            live.on_gap(gap);
        }
        self.note(format_args!("packets {} to {} are lost", gap.first, gap.last));
    }

    fn on_recovery_begin(&mut self, info: &RecoveryInfo) {
        if let Some(live) = &mut self.live {
            live.on_recovery_begin(info);
        }
    }

    fn on_line_state(&mut self, line: Line, state: LineState) {
        if let Some(live) = &mut self.live {
            live.on_line_state(line, state);
        }
    }

    fn on_recovery_end(&mut self, info: &RecoveryInfo) {
        if let Some(live) = &mut self.live {
            live.on_recovery_end(info);
        }
        self.note(format_args!("all {} instruments are good", info.instruments));
    }

    fn on_reset(&mut self, reset: Reset) {
        if let Some(live) = &mut self.live {
            live.on_reset(reset);
        }
        self.note(format_args!("reset: every book is empty"));
    }
}

/// A level: quantity and price.
pub fn book_line(level: Option<&Level>) -> String {
    level.map_or("-".to_owned(), |l| format!("{} x {}", l.quantity, Price9(l.price)))
}

/// The best of a book in a line.
fn best(book: &BookView<'_>) -> String {
    format!(
        "{:>8} {:<10} {:>24} | {:<24} {}",
        book.instrument.security_id,
        book.instrument.symbol.as_str(),
        book_line(book.bids().first()),
        book_line(book.offers().first()),
        book.state.as_str()
    )
}

fn book_json(channel: u32, book: &BookView<'_>) -> Value {
    let side = |levels: &[Level]| -> Vec<Value> {
        levels
            .iter()
            .map(|l| json!({"price_e9": l.price, "quantity": l.quantity, "orders": l.orders}))
            .collect()
    };
    json!({
        "channel": channel,
        "security_id": book.instrument.security_id,
        "symbol": book.instrument.symbol.as_str(),
        "state": book.state.as_str(),
        "rpt_seq": book.rpt_seq,
        "transact_time_ns": book.transact_time_ns,
        "bids": side(book.bids()),
        "offers": side(book.offers()),
    })
}

/// All books, and what has been counted.
///
/// # Errors
/// When nobody reads it.
pub fn end(channels: &[(u32, &FeedChannel<Printer>)], show: Show, console: &Console) -> anyhow::Result<()> {
    let mut text = String::new();
    for (id, channel) in channels {
        let core = channel.core();
        if !show.each {
            for book in core.books() {
                let line = if show.json { book_json(*id, &book).to_string() } else { best(&book) };
                text.push_str(&line);
                text.push('\n');
            }
        }
        let counters = core.counters();
        console.tell(&format!(
            "channel {id}: {} packets, {} messages, {} events; {} books shown, {} trades; {} gaps ({} packets), \
             {} instruments from snapshots; {} packets or messages dropped",
            counters.packets,
            counters.messages,
            counters.events,
            channel.listener().books,
            channel.listener().trades,
            counters.gaps,
            counters.lost_packets,
            counters.snapshots_applied,
            drops(core),
        ));
    }
    if !text.is_empty() {
        crate::console::print(&text)?;
    }
    Ok(())
}

fn drops(core: &Channel) -> String {
    let list: Vec<String> =
        core.counters().drops().map(|(reason, count)| format!("{count} {reason}")).collect();
    if list.is_empty() { "no".to_owned() } else { list.join(", ") }
}

/// The exit code: whether the books are those of the truth file, where one is given.
///
/// # Errors
/// As [`confirm`].
pub fn judge(
    truth: Option<&Path>,
    channels: &[(u32, &FeedChannel<Printer>)],
    console: &Console,
) -> anyhow::Result<Code> {
    let Some(path) = truth else { return Ok(Code::Done) };
    let cores: Vec<_> = channels.iter().map(|(id, channel)| (*id, channel.core())).collect();
    confirm(path, &cores, console)
}

/// Holds a channel's books against the truth in a file.
///
/// # Errors
/// When the file cannot be read, or is about none of these channels.
pub fn confirm(path: &Path, channels: &[(u32, &Channel)], console: &Console) -> anyhow::Result<Code> {
    const SHOWN: usize = 8;
    const LONG: usize = 240;
    let truth = super::truth(path)?;
    let id = u32::from(truth.header.channel_id);
    let Some((_, channel)) = channels.iter().find(|(channel, _)| *channel == id) else {
        let why = format!("{}: channel {id} is not in the configuration", path.display());
        return Err(Failure::new(Code::Usage, why).into());
    };
    let differences = truth.compare(channel, true);
    for difference in differences.iter().take(SHOWN) {
        console.error(&difference.to_string().chars().take(LONG).collect::<String>());
    }
    if differences.len() > SHOWN {
        console.error(&format!("and {} more", differences.len() - SHOWN));
    }
    if !differences.is_empty() {
        return Ok(Code::Failed);
    }
    console.tell(&format!("all {} books are the truth", truth.books.len()));
    Ok(Code::Done)
}
