//! Export: books and trades as CSV (RFC 4180), a listener like any other.
//!
//! Prices are exact decimals, times are nanoseconds since 1970 (`stamp_ns` by the clock that `stamp_source` has). A book's
//! row is written at the end of each event that changed it.

use barewire_feed::{
    BookCause, BookSide, BookView, Instrument, Level, Listener, NULL_I32, PacketInfo, Trade,
};
use barewire_frame::Stamp;
use barewire_sbe::Price9;
use std::io::{self, Write};

/// Levels of a side that a row may have.
pub const EXPORT_DEPTH_MAX: usize = 10;

/// Writes every book and every trade.
pub struct CsvExport<B: Write, T: Write> {
    books: B,
    trades: T,
    depth: usize,
    packet: PacketRef,
    row: Vec<u8>,
    book_rows: u64,
    trade_rows: u64,
    failure: Option<io::Error>,
}

/// Which packet is being processed.
#[derive(Clone, Copy, Default)]
pub(crate) struct PacketRef {
    pub(crate) seq_num: u32,
    pub(crate) sending_time_ns: u64,
    pub(crate) stamp: Stamp,
}

impl PacketRef {
    pub(crate) fn of(packet: &PacketInfo<'_>) -> PacketRef {
        let PacketInfo { seq, sending_time_ns, stamp, .. } = *packet;
        PacketRef { seq_num: seq, sending_time_ns, stamp }
    }
}

/// Why a book is shown, as exports say it.
pub fn cause_word(cause: BookCause) -> &'static str {
    match cause {
        BookCause::Event => "event",
        BookCause::Snapshot => "snapshot",
        BookCause::NaturalRefresh => "natural_refresh",
        BookCause::Query => "query",
        BookCause::Definition => "definition",
    }
}

/// AggressorSide, as exports say it.
pub fn aggressor_word(aggressor: u8) -> Option<&'static str> {
    ["none", "buy", "sell"].get(usize::from(aggressor)).copied()
}

/// MDUpdateAction of a trade, as exports say it.
pub fn action_word(action: u8) -> Option<&'static str> {
    ["new", "change", "delete"].get(usize::from(action)).copied()
}

impl<B: Write, T: Write> CsvExport<B, T> {
    /// Writes the head lines. `depth`: levels of each side in a book's row, 1 to [`EXPORT_DEPTH_MAX`]. Hand in buffered
    /// writers: each row is one write.
    ///
    /// # Errors
    /// What the writers say.
    pub fn new(mut books: B, mut trades: T, depth: usize) -> io::Result<CsvExport<B, T>> {
        let depth = depth.clamp(1, EXPORT_DEPTH_MAX);
        let packet = "seq_num,sending_time_ns,stamp_ns,stamp_source";
        write!(books, "{packet},transact_time_ns,security_id,symbol,state,cause,rpt_seq")?;
        for side in ["bid", "offer"] {
            for level in 1..=depth {
                write!(books, ",{side}{level}_price,{side}{level}_quantity,{side}{level}_orders")?;
            }
        }
        books.write_all(b"\r\n")?;
        write!(
            trades,
            "{packet},transact_time_ns,security_id,symbol,price,quantity,orders,aggressor,action,trade_id\r\n"
        )?;
        Ok(CsvExport {
            books,
            trades,
            depth,
            packet: PacketRef::default(),
            row: Vec::with_capacity(2048),
            book_rows: 0,
            trade_rows: 0,
            failure: None,
        })
    }

    /// Rows of books and of trades so far.
    pub fn rows(&self) -> (u64, u64) {
        (self.book_rows, self.trade_rows)
    }

    /// The writers: of books, of trades.
    pub fn writers(&self) -> (&B, &T) {
        (&self.books, &self.trades)
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// The first thing that went wrong since the beginning.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(e) = self.failure.take() {
            return Err(e);
        }
        self.books.flush()?;
        self.trades.flush()
    }

    /// Begins a row: the packet, then the instrument.
    fn begin(&mut self, transact_time_ns: u64, instrument: &Instrument) -> io::Result<()> {
        let PacketRef { seq_num, sending_time_ns, stamp } = self.packet;
        self.row.clear();
        let id = instrument.security_id;
        let source = stamp.source.as_str();
        write!(self.row, "{seq_num},{sending_time_ns},{},{source},{transact_time_ns},{id},", stamp.ns)?;
        field(&mut self.row, instrument.symbol.as_str());
        Ok(())
    }

    fn book_row(&mut self, book: &BookView<'_>) -> io::Result<()> {
        self.begin(book.transact_time_ns, book.instrument)?;
        let state = book.state.as_str();
        let cause = cause_word(book.cause);
        write!(self.row, ",{state},{cause},{}", book.rpt_seq)?;
        for side in [BookSide::Bid, BookSide::Offer] {
            let levels = book.levels(side);
            for index in 0..self.depth {
                level(&mut self.row, levels.get(index))?;
            }
        }
        self.row.extend_from_slice(b"\r\n");
        self.books.write_all(&self.row)
    }

    fn trade_row(&mut self, instrument: &Instrument, trade: &Trade) -> io::Result<()> {
        self.begin(trade.transact_time_ns, instrument)?;
        let aggressor = aggressor_word(trade.aggressor).unwrap_or_default();
        let action = action_word(trade.action).unwrap_or_default();
        let Trade { price, quantity, orders, .. } = trade;
        write!(self.row, ",{},{quantity},{orders},{aggressor},{action},", Price9(*price))?;
        if let Some(id) = trade.trade_id {
            write!(self.row, "{id}")?;
        }
        self.row.extend_from_slice(b"\r\n");
        self.trades.write_all(&self.row)
    }

    fn keep(&mut self, result: io::Result<()>) -> u64 {
        match result {
            Ok(()) => 1,
            Err(e) => {
                self.failure.get_or_insert(e);
                0
            }
        }
    }
}

fn level(row: &mut Vec<u8>, level: Option<&Level>) -> io::Result<()> {
    match level {
        None => row.extend_from_slice(b",,,"),
        Some(level) => {
            write!(row, ",{},{},", Price9(level.price), level.quantity)?;
            if level.orders != NULL_I32 {
                write!(row, "{}", level.orders)?;
            }
        }
    }
    Ok(())
}

/// A text, quoted when it has to be.
fn field(row: &mut Vec<u8>, text: &str) {
    if !text.contains([',', '"', '\r', '\n']) {
        return row.extend_from_slice(text.as_bytes());
    }
    row.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            row.push(b'"');
        }
        row.push(byte);
    }
    row.push(b'"');
}

impl<B: Write, T: Write> Listener for CsvExport<B, T> {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        self.packet = PacketRef::of(packet);
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        let result = self.book_row(book);
        self.book_rows += self.keep(result);
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        let result = self.trade_row(instrument, trade);
        self.trade_rows += self.keep(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_when_they_must_be() {
        let mut row = Vec::new();
        for text in ["BWA1", "a,b", "say \"x\"", ""] {
            field(&mut row, text);
            row.push(b'|');
        }
        assert_eq!(String::from_utf8(row).unwrap(), "BWA1|\"a,b\"|\"say \"\"x\"\"\"||");
    }
}
