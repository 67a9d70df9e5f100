//! All instruments of a channel: their books and what is known of their continuity.
//!
//! Everything is an array indexed by slot. A [`Slot`] is one cache line and holds what every entry needs; books, orders,
//! statistics and definitions lie in arrays of their own.

use crate::arena::Arena;
use crate::book::{Book, BookSide};
use crate::config::{Config, DefinitionLoop, Recovery};
use crate::counters::Counters;
use crate::filter::WhiteList;
use crate::instrument::Instrument;
use crate::listener::{BookCause, BookState, BookView};
use crate::loops::PassedOver;
use crate::orders::OrderBook;
use crate::pending::{Chain, NIL, Pool};
use crate::statistics::Statistics;
use crate::subscribe::Chosen;
use crate::table::IdTable;

/// What is known of an instrument's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// The slot has no instrument.
    Free,
    /// No entry and no snapshot yet.
    Unseen,
    /// Entries are missing before those in its chain.
    Lost,
    /// Its chain is of an event that a gap cut: whole or not, its next entry will tell.
    Doubtful,
    /// Book and chain hold everything up to `last_rpt`.
    Valid,
}

/// What every entry of an instrument needs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) security_id: i32,
    /// RptSeq of the last entry seen, or of the snapshot if that is later.
    pub(crate) last_rpt: u32,
    /// RptSeq of the last entry that is in the book.
    pub(crate) book_rpt: u32,
    /// RptSeq from which on, up to `last_rpt`, every entry was seen; while [`State::Lost`].
    pub(crate) chain_first: u32,
    /// Up to this incremental packet nothing of the instrument is missing, but for what came before `chain_first`.
    pub(crate) confirmed: u32,
    /// LastMsgSeqNumProcessed of the snapshot that was applied last.
    pub(crate) snap_seq: u32,
    /// Book entries of the open event, or since `chain_first` while [`State::Lost`].
    pub(crate) chain: Chain,
    /// First node of the chain that no end of event has looked at yet.
    pub(crate) fresh_from: u32,
    /// Snapshots made before this packet are void: what it and those before it held of the instrument was not taken in.
    pub(crate) unheard: u32,
    /// Packet up to which the book by order is complete, if it is known at all.
    pub(crate) orders_confirmed: u32,
    /// Round of the snapshot loop that had the instrument last.
    pub(crate) loop_mark: u16,
    pub(crate) state: State,
    /// In the list of the open event.
    pub(crate) touched: bool,
    /// The book was changed in this message already.
    pub(crate) book_changed: bool,
    /// Natural refresh made it valid.
    pub(crate) natural: bool,
    /// The book by order was right as of `orders_confirmed`; else nothing is known of it.
    pub(crate) orders_known: bool,
    /// Orders of the instrument have been seen.
    pub(crate) orders_seen: bool,
    /// The snapshot loop, or overlays, will make its book by order good again.
    pub(crate) orders_bound: bool,
    /// The open event has order entries.
    pub(crate) orders_wait: bool,
    /// There was no room for its last snapshot of a book by order.
    pub(crate) orders_full: bool,
    /// A definition has said how deep the book is, or none is to say it.
    pub(crate) depth_known: bool,
}

/// What has been said of an instrument's definition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Learned {
    /// SendingTime of the packet that had it last.
    pub(crate) sent_ns: u64,
    /// SendingTime of the packet that first named it, where that was no definition.
    pub(crate) seen_ns: u64,
    /// LastMsgSeqNumProcessed of the snapshot that told its trading status last.
    pub(crate) status_seq: u32,
    /// Round of the definition loop that named it last.
    pub(crate) mark: u16,
}

impl Slot {
    const fn new(security_id: i32) -> Self {
        Slot {
            security_id,
            last_rpt: 0,
            book_rpt: 0,
            chain_first: 0,
            confirmed: 0,
            snap_seq: 0,
            chain: Chain::EMPTY,
            fresh_from: NIL,
            unheard: 0,
            orders_confirmed: 0,
            loop_mark: 0,
            state: State::Unseen,
            touched: false,
            book_changed: false,
            natural: false,
            orders_known: false,
            orders_seen: false,
            orders_bound: false,
            orders_wait: false,
            orders_full: false,
            depth_known: true,
        }
    }
}

const _: () = assert!(size_of::<Slot>() == 64, "a slot is one cache line");

/// What an instrument counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    /// Its price-level books are complete and current.
    book: bool,
    /// Its book by order is to be complete and current, and is, or cannot be for want of room.
    orders_due: bool,
    orders_good: bool,
}

/// The instruments.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) slots: Vec<Slot>,
    pub(crate) instruments: Vec<Instrument>,
    pub(crate) direct: Vec<Book>,
    pub(crate) implied: Vec<Book>,
    /// Empty when books by order are not kept.
    pub(crate) orders: Vec<OrderBook>,
    /// Where their orders are.
    pub(crate) arena: Arena,
    /// Where their updates wait.
    pub(crate) order_pool: Pool,
    /// The last loss after which what waits in vain was cleared away.
    pub(crate) swept_seq: u32,
    pub(crate) statistics: Vec<Statistics>,
    /// What the definition loop and the incremental feed have said of each, and when.
    pub(crate) learned: Vec<Learned>,
    pub(crate) table: IdTable,
    pub(crate) pool: Pool,
    /// Instruments of the open event.
    pub(crate) touched: Vec<u32>,
    free: Vec<u32>,
    capacity: usize,
    /// Instruments there are, and those of them whose price-level books are good.
    pub(crate) len: usize,
    pub(crate) settled: usize,
    /// Books by order that are to be good, and those of them that are.
    pub(crate) orders_due: usize,
    pub(crate) orders_good: usize,
    /// Books by order that there was no room for.
    pub(crate) orders_full: usize,
    /// Last incremental packet lost.
    pub(crate) lost_seq: u32,
    /// Snapshots made before this packet are void.
    pub(crate) reset_seq: u32,
    /// The last packet that deleted an instrument.
    pub(crate) deleted_seq: u32,
    /// SendingTime of the packet being processed, of whatever feed.
    pub(crate) sent_ns: u64,
    /// The incremental packet being processed, or the last one that was.
    pub(crate) seq: u32,
    /// Highest LastMsgSeqNumProcessed that was applied.
    pub(crate) snap_max: u32,
    /// Everything since an empty state is known, so a new instrument's book is empty unless entries of it were not taken in.
    pub(crate) whole: bool,
    /// Security ids of which entries were not taken in since then, while it is not known which ids are wanted.
    pub(crate) passed_over: PassedOver,
    /// An event has begun and not ended, in this packet.
    pub(crate) open_since: Option<u32>,
    /// TransactTime of that event so far.
    pub(crate) event_time_ns: u64,
    pub(crate) recovery: Recovery,
    pub(crate) keep_orders: bool,
    /// Books by order have a loop of their own.
    pub(crate) order_loop: bool,
    pub(crate) undefined: bool,
    /// The definition loop is heard: it names each instrument, and the depth of its book.
    named_by_loop: bool,
    pub(crate) depth: u8,
    pub(crate) implied_depth: u8,
    pub(crate) white_list: WhiteList,
    /// What was said of single instruments since.
    pub(crate) chosen: Chosen,
    pub(crate) counters: Counters,
}

impl Store {
    pub(crate) fn new(config: &Config) -> Self {
        let n = config.instruments;
        let mut store = Store {
            slots: Vec::with_capacity(n),
            instruments: Vec::with_capacity(n),
            direct: Vec::with_capacity(n),
            implied: Vec::with_capacity(n),
            orders: Vec::with_capacity(if config.orders { n } else { 0 }),
            arena: Arena::new(if config.orders { config.orders_max } else { 0 }),
            order_pool: Pool::new(if config.orders { config.pending_orders } else { 0 }),
            swept_seq: 0,
            statistics: Vec::with_capacity(n),
            learned: Vec::with_capacity(n),
            table: IdTable::new(n),
            pool: Pool::new(config.pending_entries),
            touched: Vec::with_capacity(n),
            free: Vec::with_capacity(n),
            capacity: n,
            len: 0,
            settled: 0,
            orders_due: 0,
            orders_good: 0,
            orders_full: 0,
            lost_seq: 0,
            reset_seq: 0,
            deleted_seq: 0,
            sent_ns: 0,
            seq: 0,
            snap_max: 0,
            whole: false,
            passed_over: PassedOver::new(true),
            open_since: None,
            event_time_ns: 0,
            recovery: config.recovery,
            keep_orders: config.orders,
            order_loop: config.orders && config.order_loop && config.recovery.uses_snapshots(),
            undefined: config.undefined_instruments && config.white_list.is_empty(),
            named_by_loop: config.definitions != DefinitionLoop::Unused,
            depth: config.depth,
            implied_depth: config.implied_depth,
            white_list: config.white_list.clone(),
            chosen: Chosen::default(),
            counters: Counters::default(),
        };
        // The pages of the books are touched now and not by the first packets.
        store.direct.resize(n, Book::new(0));
        store.implied.resize(n, Book::new(0));
        if config.orders {
            store.orders.resize(n, OrderBook::EMPTY);
        }
        store.statistics.resize(n, Statistics::EMPTY);
        store.set_names_known(config.definitions == DefinitionLoop::Unused);
        for &id in config.white_list.ids() {
            store.add(Instrument::undefined(id, config.depth, config.implied_depth));
        }
        store
    }

    /// A slot for a new instrument; `None` when there is no room. It is empty and good where nothing can have been missed.
    pub(crate) fn add(&mut self, instrument: Instrument) -> Option<usize> {
        let id = instrument.security_id;
        let (depth, implied_depth) = (instrument.depth, instrument.implied_depth);
        let mut slot = Slot::new(id);
        slot.depth_known = instrument.defined || !self.named_by_loop;
        let missed = self.has_passed_over(id);
        if self.whole && !missed {
            slot.state = State::Valid;
            slot.confirmed = self.seq.max(self.lost_seq);
            (slot.orders_known, slot.orders_confirmed) = (true, slot.confirmed);
        } else if missed {
            slot.unheard = self.seq;
        }
        let at = if let Some(at) = self.free.pop() {
            let at = at as usize;
            self.slots[at] = slot;
            self.instruments[at] = instrument;
            self.learned[at] = Learned::default();
            at
        } else if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.instruments.push(instrument);
            self.learned.push(Learned::default());
            self.slots.len() - 1
        } else {
            return None;
        };
        self.direct[at] = Book::new(depth);
        self.implied[at] = Book::new(implied_depth);
        if let Some(orders) = self.orders.get_mut(at) {
            orders.held_from = slot.unheard;
        }
        self.statistics[at].clear();
        self.table.insert(id, at);
        self.len += 1;
        self.count_in(at);
        Some(at)
    }

    /// As [`add`](Self::add), of an instrument whose entries were not taken in so far.
    pub(crate) fn add_unheard(&mut self, instrument: Instrument) -> Option<usize> {
        let whole = std::mem::replace(&mut self.whole, false);
        let at = self.add(instrument);
        self.whole = whole;
        let at = at?;
        self.slots[at].unheard = self.seq;
        if let Some(orders) = self.orders.get_mut(at) {
            orders.held_from = self.seq;
        }
        Some(at)
    }

    /// Whether an instrument of this definition is handled.
    pub(crate) fn admits(&self, instrument: &Instrument) -> bool {
        self.chosen.get(instrument.security_id).unwrap_or_else(|| self.white_list.admits(instrument))
    }

    /// The incremental feed has added an instrument: nothing happened to it before this packet. One that was known may be
    /// another by the same id, whose predecessor's end was lost.
    pub(crate) fn begin(&mut self, at: usize, is_new: bool) {
        let slot = &self.slots[at];
        let ahead = slot.state == State::Valid && slot.snap_seq >= self.seq;
        if ahead || self.is_settled(at) {
            return;
        }
        let was = self.standing(at);
        self.drop_chains(at);
        self.direct[at].clear();
        self.implied[at].clear();
        self.statistics[at].clear();
        self.forget_orders(at);
        let seq = self.seq.max(self.lost_seq);
        let slot = &mut self.slots[at];
        slot.state = if is_new { State::Valid } else { State::Unseen };
        (slot.last_rpt, slot.book_rpt, slot.snap_seq) = (0, 0, 0);
        slot.confirmed = if is_new { seq } else { 0 };
        // What waited is dropped, and may have been this instrument's.
        slot.unheard = if is_new { 0 } else { self.seq };
        if let Some(orders) = self.orders.get_mut(at) {
            orders.held_from = slot.unheard;
        }
        (slot.natural, slot.book_changed) = (false, false);
        (slot.orders_known, slot.orders_confirmed) = (is_new, if is_new { seq } else { 0 });
        self.resettle(at, was);
    }

    /// Takes an instrument out.
    pub(crate) fn remove(&mut self, at: usize) {
        self.count_out(at);
        self.len -= 1;
        self.drop_chains(at);
        self.forget_orders(at);
        if self.slots[at].touched {
            self.touched.retain(|&t| t as usize != at);
        }
        let id = self.slots[at].security_id;
        self.slots[at] = Slot { state: State::Free, ..Slot::new(id) };
        self.table.remove(id);
        self.free.push(at as u32);
    }

    /// The slot of an instrument that is wanted, made now if instruments without a definition are.
    #[inline]
    pub(crate) fn find(&mut self, id: i32) -> Option<usize> {
        match self.table.get(id) {
            Some(at) => Some(at),
            None => self.find_new(id),
        }
    }

    #[cold]
    fn find_new(&mut self, id: i32) -> Option<usize> {
        if !self.chosen.get(id).unwrap_or(self.undefined) {
            self.counters.drop(crate::Reason::NotListed);
            self.pass_over(id);
            return None;
        }
        let at = self.add(Instrument::undefined(id, self.depth, self.implied_depth));
        match at {
            Some(at) => self.learned[at].seen_ns = self.sent_ns,
            None => {
                self.counters.drop(crate::Reason::InstrumentTableFull);
                self.pass_over(id);
            }
        }
        at
    }

    /// An entry of an instrument that is not there was not taken in: when it comes to be named, it is not taken for empty.
    fn pass_over(&mut self, id: i32) {
        if self.whole || self.undefined {
            self.passed_over.note(id);
        }
    }

    /// Whether entries of an instrument that is not there may have come, and were not taken in.
    fn has_passed_over(&self, id: i32) -> bool {
        !(self.whole || self.undefined) || self.passed_over.has(id)
    }

    /// Whether it is known which instruments there are: entries of others need no note then. Where any is taken as it is seen only
    /// those are passed over that there is no room for.
    pub(crate) fn set_names_known(&mut self, known: bool) {
        self.passed_over.set_noting(!known || self.undefined);
    }

    pub(crate) fn drop_chains(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        self.pool.clear(&mut slot.chain);
        slot.fresh_from = NIL;
    }

    /// Whether an instrument's price-level books are complete and current.
    #[inline]
    pub(crate) fn is_settled(&self, at: usize) -> bool {
        let slot = &self.slots[at];
        slot.state == State::Valid && slot.confirmed >= self.lost_seq
    }

    /// Whether an instrument's direct book has no level on either side.
    pub(crate) fn has_no_levels(&self, at: usize) -> bool {
        [BookSide::Bid, BookSide::Offer].iter().all(|&side| self.direct[at].levels(side).is_empty())
    }

    /// Whether an instrument's book by order is complete and current.
    #[inline]
    pub(crate) fn orders_current(&self, at: usize) -> bool {
        let slot = &self.slots[at];
        slot.orders_known && slot.orders_confirmed >= self.lost_seq
    }

    /// Whether a book by order is not waited for: there was no room for a snapshot of it since the last loss.
    #[inline]
    pub(crate) fn orders_left_out(&self, at: usize) -> bool {
        let slot = &self.slots[at];
        slot.orders_full && !slot.orders_known && slot.orders_confirmed >= self.lost_seq
    }

    /// What an instrument counts for now.
    #[inline]
    pub(crate) fn standing(&self, at: usize) -> Standing {
        let slot = &self.slots[at];
        // What no snapshot brings cannot be waited for.
        let bound = self.order_loop || (slot.orders_bound && slot.orders_seen);
        let orders_due = self.keep_orders && slot.state != State::Free && bound;
        let orders_good = orders_due && (self.orders_current(at) || self.orders_left_out(at));
        Standing { book: self.is_settled(at), orders_due, orders_good }
    }

    fn count_in(&mut self, at: usize) {
        let is = self.standing(at);
        self.settled += usize::from(is.book);
        self.orders_due += usize::from(is.orders_due);
        self.orders_good += usize::from(is.orders_good);
    }

    fn count_out(&mut self, at: usize) {
        let was = self.standing(at);
        self.settled -= usize::from(was.book);
        self.orders_due -= usize::from(was.orders_due);
        self.orders_good -= usize::from(was.orders_good);
    }

    /// Keeps the counts of good instruments after a change to one.
    #[inline]
    pub(crate) fn resettle(&mut self, at: usize, was: Standing) {
        let is = self.standing(at);
        if is != was {
            self.settled = self.settled + usize::from(is.book) - usize::from(was.book);
            self.orders_due = self.orders_due + usize::from(is.orders_due) - usize::from(was.orders_due);
            self.orders_good = self.orders_good + usize::from(is.orders_good) - usize::from(was.orders_good);
        }
    }

    /// Counts all anew.
    pub(crate) fn recount(&mut self) {
        (self.settled, self.orders_due, self.orders_good) = (0, 0, 0);
        for at in 0..self.slots.len() {
            self.count_in(at);
        }
    }

    /// What the books of an instrument are worth.
    pub(crate) fn state(&self, at: usize) -> BookState {
        let slot = &self.slots[at];
        match slot.state {
            State::Free | State::Unseen => BookState::Undefined,
            State::Lost => BookState::Stale,
            State::Doubtful => BookState::Suspect,
            State::Valid if slot.confirmed < self.lost_seq => BookState::Suspect,
            // Levels that the exchange has dropped below its own depth may be in it.
            State::Valid if !slot.depth_known => BookState::Undefined,
            State::Valid if slot.natural => BookState::NaturallyRefreshed,
            State::Valid => BookState::Latest,
        }
    }

    fn orders_state(&self, at: usize) -> BookState {
        let slot = &self.slots[at];
        if !slot.orders_known || !(slot.orders_seen || self.order_loop) {
            BookState::Undefined
        } else if slot.orders_confirmed >= self.lost_seq {
            BookState::Latest
        } else {
            BookState::Suspect
        }
    }

    /// The books of an instrument.
    #[inline]
    pub(crate) fn view(&self, at: usize, cause: BookCause) -> BookView<'_> {
        let direct = &self.direct[at];
        BookView {
            instrument: &self.instruments[at],
            state: self.state(at),
            orders_state: self.orders_state(at),
            cause,
            rpt_seq: self.slots[at].book_rpt,
            transact_time_ns: direct.transact_time_ns(),
            direct,
            implied: &self.implied[at],
            orders: self.orders.get(at),
            arena: &self.arena,
        }
    }
}
