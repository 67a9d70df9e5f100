//! Books, gaps and trades as lines of text or JSON: a listener for terminals and pipes.
//!
//! [`run`] and [`replay_while`] are those of [`FeedHandler`], compiled here. A generic function is built as the crate that uses it is, and
//! a program's command line is built for size: its packets are not to pay for that.

#[cfg(feature = "parquet")]
use crate::ParquetExport;
use crate::{CsvExport, FeedChannel, FeedHandler, Replay, SourceError};
use barewire_engine::{EngineConfig, EngineError, EngineLinks, StopFlag};
use barewire_feed::{
    BookView, Gap, Instrument, Level, Line, LineState, Listener, PacketInfo, RecoveryInfo, Reset, Trade,
};
use barewire_port::Speed;
use barewire_sbe::Price9;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write as _};

/// A handler whose channels print.
pub type Printing = FeedHandler<FeedChannel<Printer>>;

/// [`FeedHandler::run`] in an engine without links.
///
/// # Errors
/// As there.
#[inline(never)]
pub fn run(handler: Printing, config: EngineConfig, stop: &StopFlag) -> Result<Printing, EngineError> {
    handler.run(config, EngineLinks::default(), stop)
}

/// [`FeedHandler::replay_while`].
///
/// # Errors
/// As there.
#[inline(never)]
pub fn replay_while(
    handler: &mut Printing,
    replay: &mut Replay,
    speed: Speed,
    go_on: &dyn Fn() -> bool,
) -> Result<u64, SourceError> {
    handler.replay_while(replay, speed, go_on)
}

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
    #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
            Export::Parquet(export) => export.finish().map(|()| export.rows()),
        }
    }
}

impl Listener for Export {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        match self {
            Export::Csv(export) => export.on_packet(packet),
            #[cfg(feature = "parquet")]
            Export::Parquet(export) => export.on_packet(packet),
        }
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        match self {
            Export::Csv(export) => export.on_book(book),
            #[cfg(feature = "parquet")]
            Export::Parquet(export) => export.on_book(book),
        }
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        match self {
            Export::Csv(export) => export.on_trade(instrument, trade),
            #[cfg(feature = "parquet")]
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
    /// Is told everything, too.
    pub live: Option<Box<dyn Listener>>,
}

impl Printer {
    /// A printer for the feed channel of this number.
    pub fn new(show: Show, channel: u32) -> Printer {
        Printer { show, channel, ..Printer::default() }
    }

    /// Books and trades so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.books, self.trades)
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
pub fn best(book: &BookView<'_>) -> String {
    format!(
        "{:>8} {:<10} {:>24} | {:<24} {}",
        book.instrument.security_id,
        book.instrument.symbol.as_str(),
        book_line(book.bids().first()),
        book_line(book.offers().first()),
        book.state.as_str()
    )
}

/// A book as a JSON object.
pub fn book_json(channel: u32, book: &BookView<'_>) -> Value {
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
