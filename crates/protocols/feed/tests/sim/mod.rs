//! A small exchange: true books, the packets that tell of them, and lines that lose, delay, reorder and repeat packets.

#![allow(dead_code, unused_imports)]

mod check;

use barewire_base::Prng;
use barewire_feed::{BookSide, BookState, BookView, Feed, Line, LineSide, Listener};
use barewire_sbe::mdp3::*;
use barewire_sbe::{PacketEncoder, Price9};
pub use check::Check;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Books as a flat list of numbers, so that two can be compared.
pub type Content = Vec<i64>;

/// Every state that each instrument's book ever had at the end of an event.
#[derive(Default)]
pub struct History {
    states: HashMap<i32, HashMap<Content, Vec<usize>>>,
    count: usize,
}

impl History {
    pub fn record(&mut self, id: i32, content: Content) {
        self.count += 1;
        let states = self.states.entry(id).or_default();
        states.entry(direct_of(&content)).or_default().push(self.count);
        states.entry(content).or_default().push(self.count);
    }

    /// When the state existed, not before `from`.
    pub fn find(&self, id: i32, content: &Content, from: usize) -> Option<usize> {
        self.states.get(&id)?.get(content)?.iter().copied().find(|&when| when >= from)
    }
}

/// The direct part of a content.
pub fn direct_of(content: &Content) -> Content {
    let mut ends = 0;
    content.iter().copied().take_while(|&n| (ends < 2, ends += usize::from(n == -1)).0).collect()
}

/// What a view of our books shows, in the same form.
pub fn content_of(book: &BookView<'_>) -> Content {
    let mut out = Vec::new();
    for levels in [book.bids(), book.offers(), book.implied(BookSide::Bid), book.implied(BookSide::Offer)] {
        for l in levels {
            out.extend([l.price, l.quantity, i64::from(l.orders)]);
        }
        out.push(-1);
    }
    out
}

pub fn orders_of(book: &BookView<'_>) -> Content {
    let mut out = Vec::new();
    for side in [BookSide::Bid, BookSide::Offer] {
        out.extend(book.orders(side).iter().flat_map(|o| [o.id as i64, o.price, o.quantity]));
        out.push(-1);
    }
    out
}

/// An order: id, priority, price, quantity.
type One = (u64, u64, i64, i32);

#[derive(Clone, Copy, Debug)]
struct L {
    price: i64,
    quantity: i64,
    orders: i32,
}

/// One instrument as the exchange has it.
#[derive(Clone, Debug)]
pub struct Inst {
    pub id: i32,
    pub long: bool,
    depth: usize,
    /// Bid, offer, implied bid, implied offer.
    ladders: [Vec<L>; 4],
    orders: [Vec<One>; 2],
    pub rpt: u32,
    active: bool,
    has_orders: bool,
}

const TYPES: [MdEntryTypeBook; 4] = [
    MdEntryTypeBook::BID,
    MdEntryTypeBook::OFFER,
    MdEntryTypeBook::IMPLIED_BID,
    MdEntryTypeBook::IMPLIED_OFFER,
];

impl Inst {
    fn content(&self) -> Content {
        let mut out = Vec::new();
        for ladder in &self.ladders {
            out.extend(ladder.iter().flat_map(|l| [l.price, l.quantity, i64::from(l.orders)]));
            out.push(-1);
        }
        out
    }

    fn orders_content(&self) -> Content {
        let mut out = Vec::new();
        for side in &self.orders {
            out.extend(side.iter().flat_map(|o| [o.0 as i64, o.2, i64::from(o.3)]));
            out.push(-1);
        }
        out
    }

    fn clear(&mut self) {
        self.ladders.iter_mut().for_each(Vec::clear);
        self.orders.iter_mut().for_each(Vec::clear);
    }

    fn depth_of(&self, ladder: usize) -> usize {
        if ladder < 2 { self.depth } else { 2 }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    id: i32,
    level: u8,
    action: u8,
    kind: MdEntryTypeBook,
    content: L,
    rpt: u32,
}

/// What a message of an event holds.
enum Part {
    Book {
        long: bool,
        entries: Vec<Entry>,
    },
    Trade {
        id: i32,
        rpt: u32,
    },
    Volume {
        id: i32,
        rpt: u32,
    },
    Statistic {
        id: i32,
        rpt: u32,
        price: i64,
    },
    Orders {
        id: i32,
        sides: [Vec<One>; 2],
    },
    /// Single orders: action, side, order.
    Updates {
        id: i32,
        updates: Vec<(u8, usize, One)>,
    },
}

pub struct Exchange {
    pub prng: Prng,
    pub insts: Vec<Inst>,
    pub seq: u32,
    pub history: Rc<RefCell<History>>,
    /// TotNumReports of the snapshot loops is their messages, as the exchange's own words have it; else their instruments.
    pub counts_messages: bool,
    /// Instruments that the rest of the round is of, and whether their orders are, too.
    snap_queue: Vec<(usize, bool)>,
    snap_seq: u32,
    snap_total: u32,
    next_order: u64,
    /// Books by order are published.
    pub orders: bool,
    /// Every order is published by itself, and whole books by order have a loop of their own.
    pub every_order: bool,
    /// Chance of an event that moves two hundred orders at once.
    pub sweeps: f64,
    /// Instruments that the rest of the round is of, and into how many chunks their books are cut.
    order_queue: Vec<(usize, usize)>,
    order_seq: u32,
    order_total: u32,
    /// Chunks of the book that the loop of orders is in the middle of.
    order_chunks: Vec<Vec<u8>>,
    /// Rounds of the two loops that have begun.
    pub rounds: (u32, u32),
    def_queue: Vec<usize>,
    def_seq: u32,
}

/// A packet to be sent: what it is for and its bytes.
pub type Sent = (Feed, Vec<u8>);

impl Exchange {
    pub fn new(seed: u64, instruments: usize) -> Self {
        let mut prng = Prng::new(seed);
        let history = Rc::new(RefCell::new(History::default()));
        let insts: Vec<Inst> = (0..instruments)
            .map(|i| Inst {
                id: 1_000 + i as i32 * 7,
                long: prng.chance(0.3),
                depth: 10,
                ladders: Default::default(),
                orders: Default::default(),
                rpt: 0,
                active: false,
                has_orders: false,
            })
            .collect();
        for inst in &insts {
            history.borrow_mut().record(inst.id, inst.content());
        }
        Exchange {
            prng,
            insts,
            seq: 0,
            history,
            counts_messages: true,
            snap_queue: vec![],
            snap_seq: 0,
            snap_total: 0,
            next_order: 1,
            orders: true,
            every_order: false,
            sweeps: 0.03,
            order_queue: vec![],
            order_seq: 0,
            order_total: 0,
            order_chunks: vec![],
            rounds: (0, 0),
            def_queue: vec![],
            def_seq: 0,
        }
    }

    /// One random change to an instrument, as the entry that tells of it.
    fn change(&mut self, at: usize) -> Entry {
        let p = &mut self.prng;
        let inst = &mut self.insts[at];
        inst.rpt += 1;
        inst.active = true;
        let which = if p.chance(0.8) { p.below(2) as usize } else { 2 + p.below(2) as usize };
        let depth = inst.depth_of(which);
        let content = L {
            price: p.below(1_000_000) as i64 * 1_000_000_000,
            quantity: 1 + p.below(2_000_000_000) as i64,
            orders: 1 + p.below(90) as i32,
        };
        let ladder = &mut inst.ladders[which];
        let len = ladder.len();
        let any = |p: &mut Prng, n: usize| p.below(n as u64) as usize;
        let (action, i) = match p.below(100) {
            0..=39 => {
                let i = any(p, (len + 1).min(depth));
                ladder.insert(i, content);
                ladder.truncate(depth);
                (0, i)
            }
            40..=69 if len > 0 => {
                let i = any(p, len);
                ladder[i] = content;
                (1, i)
            }
            70..=89 if len > 0 => {
                let i = any(p, len);
                ladder.remove(i);
                (2, i)
            }
            90 => {
                ladder.clear();
                (3, 0)
            }
            91..=92 if len > 0 => {
                let i = any(p, len);
                ladder.drain(..=i);
                (4, i)
            }
            93..=98 if len > 0 => {
                let i = any(p, len);
                ladder[i] = content;
                (5, i)
            }
            99 if p.chance(0.3) => {
                inst.ladders.iter_mut().for_each(Vec::clear);
                let kind = MdEntryTypeBook::BOOK_RESET;
                return Entry { id: inst.id, level: 0, action: 0, kind, content, rpt: inst.rpt };
            }
            _ => {
                ladder.insert(0, content);
                ladder.truncate(depth);
                (0, 0)
            }
        };
        Entry { id: inst.id, level: i as u8 + 1, action, kind: TYPES[which], content, rpt: inst.rpt }
    }

    fn top_orders(&mut self, at: usize) -> Part {
        let mut sides: [Vec<One>; 2] = Default::default();
        for (side, list) in sides.iter_mut().enumerate() {
            for _ in 0..self.prng.below(11) {
                let id = self.next_order;
                self.next_order += 1;
                let price = self.prng.below(5) as i64 * 1_000_000_000;
                list.push((id, id, price, 1 + self.prng.below(100) as i32));
            }
            list.sort_by_key(|o| (if side == 0 { -o.2 } else { o.2 }, o.1));
        }
        let inst = &mut self.insts[at];
        inst.orders = sides.clone();
        inst.has_orders = true;
        inst.active = true;
        Part::Orders { id: inst.id, sides }
    }

    /// Some orders are added, changed and deleted.
    fn order_updates(&mut self, at: usize) -> Part {
        let (inst, p) = (&mut self.insts[at], &mut self.prng);
        (inst.has_orders, inst.active) = (true, true);
        let mut updates = Vec::new();
        // Books grow to some forty orders a side, and are swept now and then.
        let sweep = p.chance(self.sweeps);
        for _ in 0..if sweep { 200 } else { 1 + p.below(6) } {
            let side = p.below(2) as usize;
            let list = &mut inst.orders[side];
            let adds = if list.len() < 40 { 0.5 } else { 0.3 };
            let (action, order) = if !sweep && (list.is_empty() || p.chance(adds)) {
                let id = self.next_order;
                self.next_order += 1;
                (0, (id, id, p.below(8) as i64 * 1_000_000_000, 1 + p.below(100) as i32))
            } else if list.is_empty() {
                continue;
            } else if !sweep && p.chance(0.4) {
                let mut order = list.remove(p.below(list.len() as u64) as usize);
                order.3 = 1 + p.below(100) as i32;
                if p.chance(0.4) {
                    order.2 = p.below(8) as i64 * 1_000_000_000;
                    order.1 = 1_000_000 + self.next_order;
                    self.next_order += 1;
                }
                (1, order)
            } else {
                let best = if p.chance(0.5) { 1 } else { list.len() as u64 };
                (2, list.remove(p.below(best) as usize))
            };
            if action != 2 {
                list.push(order);
                list.sort_by_key(|o| (if side == 0 { -o.2 } else { o.2 }, o.1));
            }
            updates.push((action, side, order));
        }
        Part::Updates { id: inst.id, updates }
    }

    /// One event on up to three instruments: its packets, in order.
    pub fn event(&mut self, time_ns: u64) -> Vec<Sent> {
        let mut parts = Vec::new();
        let mut changed = Vec::new();
        for _ in 0..1 + self.prng.below(3) {
            let at = self.prng.below(self.insts.len() as u64) as usize;
            changed.push(at);
            if self.orders && self.prng.chance(0.2) {
                parts.push(self.top_orders(at));
            }
            if self.every_order && self.prng.chance(0.5) {
                parts.push(self.order_updates(at));
            }
            if self.prng.chance(0.2) {
                self.insts[at].rpt += 1;
                self.insts[at].active = true;
                let (id, rpt) = (self.insts[at].id, self.insts[at].rpt);
                parts.push(match self.prng.below(3) {
                    0 => Part::Trade { id, rpt },
                    1 => Part::Volume { id, rpt },
                    _ => Part::Statistic { id, rpt, price: i64::from(rpt) },
                });
            }
            let entries = (0..1 + self.prng.below(5)).map(|_| self.change(at)).collect();
            parts.push(Part::Book { long: self.insts[at].long, entries });
        }
        for at in changed {
            let inst = &self.insts[at];
            self.history.borrow_mut().record(inst.id, inst.content());
        }
        self.packets(parts, time_ns)
    }

    /// Encodes an event's messages into one or several packets; the last message ends the event.
    fn packets(&mut self, parts: Vec<Part>, time_ns: u64) -> Vec<Sent> {
        let mut out = Vec::new();
        let mut messages: Vec<Vec<u8>> = Vec::new();
        let n = parts.len();
        for (i, part) in parts.iter().enumerate() {
            messages.push(encode(part, time_ns, i + 1 == n));
            if i + 1 == n || self.prng.chance(0.3) {
                self.seq += 1;
                // Packets of one event follow one another.
                out.push((Feed::Incremental, packet(self.seq, time_ns + out.len() as u64, &messages)));
                messages.clear();
            }
        }
        out
    }

    /// An empty packet that keeps the line alive.
    pub fn heartbeat(&mut self, time_ns: u64) -> Sent {
        self.seq += 1;
        let mut buf = [0; 64];
        let len = AdminHeartbeat12Encoder::new(&mut buf).unwrap().finish().unwrap();
        (Feed::Incremental, packet(self.seq, time_ns, &[buf[..len].to_vec()]))
    }

    fn wipe(&mut self) {
        for inst in &mut self.insts {
            inst.clear();
            inst.rpt = 0;
            inst.active = false;
            inst.has_orders = false;
            self.history.borrow_mut().record(inst.id, inst.content());
        }
        self.snap_queue.clear();
        self.snap_seq = 0;
        self.order_queue.clear();
        self.order_chunks.clear();
        self.order_seq = 0;
    }

    /// The exchange empties the channel.
    pub fn channel_reset(&mut self, time_ns: u64) -> Vec<Sent> {
        self.wipe();
        let mut buf = [0; 64];
        let mut reset = ChannelReset4Encoder::new(&mut buf).unwrap();
        reset.transact_time(time_ns);
        reset.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
        reset.md_entries().unwrap().push().unwrap().appl_id(310);
        let len = reset.finish().unwrap();
        self.seq += 1;
        vec![(Feed::Incremental, packet(self.seq, time_ns, &[buf[..len].to_vec()]))]
    }

    /// Everything starts over, packet numbers too, without a word.
    pub fn week_end(&mut self) {
        self.wipe();
        self.seq = 0;
    }

    /// The next packet of the snapshot loop; `None` when there is nothing to tell.
    pub fn snapshot(&mut self, time_ns: u64) -> Option<Sent> {
        if self.snap_queue.is_empty() {
            let active = (0..self.insts.len()).filter(|&i| self.insts[i].active);
            self.snap_queue = active.map(|i| (i, self.insts[i].has_orders && !self.every_order)).collect();
            let of_orders = self.snap_queue.iter().filter(|(_, orders)| *orders && self.counts_messages);
            self.snap_total = (self.snap_queue.len() + of_orders.count()) as u32;
            self.snap_seq = 0;
            self.rounds.0 += u32::from(self.snap_total > 0);
            if self.snap_queue.is_empty() {
                return None;
            }
        }
        let mut messages = Vec::new();
        for _ in 0..1 + self.prng.below(3) {
            let Some((at, orders)) = self.snap_queue.pop() else { break };
            messages.push(self.encode_snapshot(at, time_ns));
            if orders {
                messages.extend(self.encode_orders(at, time_ns, self.snap_total, 1));
            }
        }
        self.snap_seq += 1;
        Some((Feed::Snapshot, packet(self.snap_seq, time_ns, &messages)))
    }

    /// The next packet of the loop of books by order; `None` when there is nothing to tell. A book goes over several packets.
    pub fn order_snapshot(&mut self, time_ns: u64) -> Option<Sent> {
        if self.order_chunks.is_empty() {
            if self.order_queue.is_empty() {
                let named: Vec<_> = (0..self.insts.len())
                    .filter(|&i| {
                        let inst = &self.insts[i];
                        // Whoever has levels has orders; here the two are drawn apart, so one may have none.
                        let levels = inst.ladders[..2].iter().any(|ladder| !ladder.is_empty());
                        levels || inst.orders.iter().any(|side| !side.is_empty())
                    })
                    .collect();
                let prng = &mut self.prng;
                self.order_queue = named.into_iter().map(|i| (i, 1 + prng.below(4) as usize)).collect();
                let messages: usize = self.order_queue.iter().map(|(_, chunks)| chunks).sum();
                let total = if self.counts_messages { messages } else { self.order_queue.len() };
                self.order_total = total as u32;
                self.order_seq = 0;
                // A loop with nothing to tell is no round: from silence nothing is concluded.
                self.rounds.1 += u32::from(self.order_total > 0);
            }
            let (at, chunks) = self.order_queue.pop()?;
            self.order_chunks = self.encode_orders(at, time_ns, self.order_total, chunks);
        }
        let most = self.order_chunks.len();
        let count = (1 + self.prng.below(3) as usize).min(most);
        let messages: Vec<Vec<u8>> = self.order_chunks.drain(..count).collect();
        self.order_seq += 1;
        Some((Feed::OrderSnapshot, packet(self.order_seq, time_ns, &messages)))
    }

    /// The next packet of the definition loop.
    pub fn definition(&mut self, time_ns: u64) -> Sent {
        if self.def_queue.is_empty() {
            self.def_queue = (0..self.insts.len()).collect();
            self.def_seq = 0;
        }
        let mut messages = Vec::new();
        for _ in 0..1 + self.prng.below(2) {
            let Some(at) = self.def_queue.pop() else { break };
            let mut buf = [0; 1024];
            let mut m = MdInstrumentDefinitionFuture54Encoder::new(&mut buf).unwrap();
            // Every third is of a group that nobody wants.
            let group = if at % 3 == 2 { "NO" } else { "GE" };
            m.security_id(self.insts[at].id).symbol("X").security_group(group).asset("GE");
            m.tot_num_reports(self.insts.len() as u32).security_update_action(SecurityUpdateAction::ADD);
            m.match_event_indicator(MatchEventIndicator::END_OF_EVENT);
            let mut feeds = m.md_feed_types().unwrap();
            feeds.push().unwrap().md_feed_type("GBX").market_depth(self.insts[at].depth as i8);
            feeds.push().unwrap().md_feed_type("GBI").market_depth(2);
            let len = m.finish().unwrap();
            messages.push(buf[..len].to_vec());
        }
        self.def_seq += 1;
        (Feed::Instrument, packet(self.def_seq, time_ns, &messages))
    }

    fn encode_snapshot(&self, at: usize, time_ns: u64) -> Vec<u8> {
        let inst = &self.insts[at];
        let mut buf = [0; 4096];
        macro_rules! body {
            ($encoder:ident, $size:ty, $level:ty) => {{
                let mut m = $encoder::new(&mut buf).unwrap();
                m.last_msg_seq_num_processed(self.seq).tot_num_reports(self.snap_total);
                m.security_id(inst.id).rpt_seq(inst.rpt).transact_time(time_ns);
                m.md_security_trading_status(SecurityTradingStatus::READY_TO_TRADE);
                let mut group = m.md_entries().unwrap();
                for (ladder, kind) in inst.ladders.iter().zip(TYPES) {
                    for (i, l) in ladder.iter().enumerate() {
                        group
                            .push()
                            .unwrap()
                            .md_entry_px(Price9(l.price))
                            .md_entry_size(l.quantity as $size)
                            .number_of_orders(l.orders)
                            .md_price_level(i as $level + 1)
                            .md_entry_type(MdEntryType(kind.0));
                    }
                }
                m.finish().unwrap()
            }};
        }
        let len = if inst.long {
            body!(SnapshotFullRefreshLongQty69Encoder, u64, u8)
        } else {
            body!(SnapshotFullRefresh52Encoder, i32, i8)
        };
        buf[..len].to_vec()
    }

    /// Template 53, in so many chunks.
    fn encode_orders(&self, at: usize, time_ns: u64, total: u32, count: usize) -> Vec<Vec<u8>> {
        let inst = &self.insts[at];
        let sides = inst.orders.iter().zip(TYPES);
        let all: Vec<_> =
            sides.flat_map(|(side, kind)| side.iter().map(move |order| (kind, *order))).collect();
        let place = |n: usize| all.len() * n / count;
        let chunks: Vec<_> = (0..count).map(|n| &all[place(n)..place(n + 1)]).collect();
        let encode = |(n, chunk): (usize, &&[(MdEntryTypeBook, One)])| {
            let mut buf = [0; 8192];
            let mut m = SnapshotFullRefreshOrderBook53Encoder::new(&mut buf).unwrap();
            m.last_msg_seq_num_processed(self.seq).tot_num_reports(total).security_id(inst.id);
            m.no_chunks(chunks.len() as u32).current_chunk(n as u32 + 1).transact_time(time_ns);
            let mut group = m.md_entries().unwrap();
            for &(kind, (id, priority, price, quantity)) in chunk.iter() {
                let e = &mut group.push().unwrap();
                e.order_id(id).md_order_priority(priority).md_entry_px(Price9(price));
                e.md_display_qty(quantity).md_entry_type(kind);
            }
            let len = m.finish().unwrap();
            buf[..len].to_vec()
        };
        chunks.iter().enumerate().map(encode).collect()
    }

    /// What is called good is the truth now: for use when everything that was sent has been processed. Instruments that the channel
    /// does not handle are left out.
    pub fn judge(&self, channel: &barewire_feed::Channel) -> Result<(), String> {
        for inst in &self.insts {
            let Some(book) = channel.book(inst.id) else { continue };
            let (ours, truth) = (content_of(&book), inst.content());
            if book.state == BookState::Latest && ours != truth {
                return Err(format!("instrument {} is called good: {ours:?} is not {truth:?}", inst.id));
            }
            if book.orders_state == BookState::Latest && orders_of(&book) != inst.orders_content() {
                let (ours, truth) = (orders_of(&book), inst.orders_content());
                return Err(format!("orders of {} are called good: {ours:?} is not {truth:?}", inst.id));
            }
        }
        Ok(())
    }

    /// As [`compare`](Self::compare), of the instruments that a channel which listens to the group GE has to have.
    pub fn compare_listed(&self, channel: &barewire_feed::Channel, by_group: bool) -> Result<(), String> {
        self.compare_some(channel, |at| !by_group || at % 3 != 2)
    }

    /// Differences between the truth and our books.
    pub fn compare(&self, channel: &barewire_feed::Channel) -> Result<(), String> {
        self.compare_some(channel, |_| true)
    }

    fn compare_some(
        &self,
        channel: &barewire_feed::Channel,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        for (_, inst) in self.insts.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            let Some(book) = channel.book(inst.id) else {
                if inst.active {
                    return Err(format!("instrument {} is not there", inst.id));
                }
                continue;
            };
            if !book.state.is_good() {
                return Err(format!("instrument {}: {:?}", inst.id, book.state));
            }
            let (ours, truth) = (content_of(&book), inst.content());
            if ours != truth {
                return Err(format!("instrument {}: {ours:?} is not {truth:?}", inst.id));
            }
            if inst.has_orders && (!book.orders_state.is_good() || orders_of(&book) != inst.orders_content())
            {
                return Err(format!("instrument {}: orders ({:?})", inst.id, book.orders_state));
            }
        }
        Ok(())
    }
}

fn encode(part: &Part, time_ns: u64, ends: bool) -> Vec<u8> {
    let mut buf = [0; 10_000];
    let indicator = if ends { MatchEventIndicator::END_OF_EVENT } else { MatchEventIndicator(0) };
    macro_rules! book {
        ($encoder:ident, $entries:expr, $size:ty) => {{
            let mut m = $encoder::new(&mut buf).unwrap();
            m.transact_time(time_ns).match_event_indicator(indicator);
            let mut group = m.md_entries().unwrap();
            for e in $entries {
                group
                    .push()
                    .unwrap()
                    .md_entry_px(Price9(e.content.price))
                    .md_entry_size(e.content.quantity as $size)
                    .number_of_orders(e.content.orders)
                    .security_id(e.id)
                    .rpt_seq(e.rpt)
                    .md_price_level(e.level)
                    .md_update_action(MdUpdateAction(e.action))
                    .md_entry_type(e.kind);
            }
            m.finish().unwrap()
        }};
    }
    let len = match part {
        Part::Book { long: false, entries } => book!(MdIncrementalRefreshBook46Encoder, entries, i32),
        Part::Book { long: true, entries } => book!(MdIncrementalRefreshBookLongQty64Encoder, entries, u64),
        Part::Trade { id, rpt } => {
            let mut m = MdIncrementalRefreshTradeSummary48Encoder::new(&mut buf).unwrap();
            m.transact_time(time_ns).match_event_indicator(indicator);
            m.md_entries().unwrap().push().unwrap().security_id(*id).rpt_seq(*rpt).md_entry_size(1);
            m.finish().unwrap()
        }
        Part::Volume { id, rpt } => {
            let mut m = MdIncrementalRefreshVolume37Encoder::new(&mut buf).unwrap();
            m.transact_time(time_ns).match_event_indicator(indicator);
            m.md_entries().unwrap().push().unwrap().security_id(*id).rpt_seq(*rpt).md_entry_size(9);
            m.finish().unwrap()
        }
        Part::Statistic { id, rpt, price } => {
            let mut m = MdIncrementalRefreshSessionStatistics51Encoder::new(&mut buf).unwrap();
            m.transact_time(time_ns).match_event_indicator(indicator);
            let mut group = m.md_entries().unwrap();
            group
                .push()
                .unwrap()
                .security_id(*id)
                .rpt_seq(*rpt)
                .md_entry_px(Price9(*price))
                .md_entry_type(MdEntryTypeStatistics::HIGH_TRADE);
            m.finish().unwrap()
        }
        Part::Updates { id, updates } => {
            let mut m = MdIncrementalRefreshOrderBook47Encoder::new(&mut buf).unwrap();
            m.transact_time(time_ns).match_event_indicator(indicator);
            let mut group = m.md_entries().unwrap();
            for &(action, side, (order, priority, price, quantity)) in updates {
                let e = &mut group.push().unwrap();
                e.security_id(*id).order_id(order).md_order_priority(priority).md_entry_px(Price9(price));
                e.md_display_qty(quantity)
                    .md_update_action(MdUpdateAction(action))
                    .md_entry_type(TYPES[side]);
            }
            m.finish().unwrap()
        }
        Part::Orders { id, sides } => {
            let mut m = SnapshotRefreshTopOrders59Encoder::new(&mut buf).unwrap();
            m.transact_time(time_ns).match_event_indicator(indicator).security_id(*id);
            let mut group = m.md_entries().unwrap();
            for i in 0..10 {
                for (side, kind) in sides.iter().zip(TYPES) {
                    let Some(&(id, priority, price, quantity)) = side.get(i) else { continue };
                    group
                        .push()
                        .unwrap()
                        .order_id(id)
                        .md_order_priority(priority)
                        .md_entry_px(Price9(price))
                        .md_display_qty(quantity)
                        .md_entry_type(kind);
                }
            }
            m.finish().unwrap()
        }
    };
    buf[..len].to_vec()
}

/// A packet of encoded messages.
pub fn packet(seq: u32, time_ns: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut buf = vec![0; 65_000];
    let mut p = PacketEncoder::new(&mut buf, seq, time_ns).unwrap();
    for m in messages {
        p.push(m).unwrap();
    }
    p.finish().to_vec()
}

/// Two lines that lose, delay, reorder and repeat.
pub struct Net {
    pub prng: Prng,
    pub loss: f64,
    pub sides: usize,
    /// Chance of a packet that is late by far.
    pub late: f64,
    /// How far packets overtake one another, in nanoseconds.
    pub jitter: u64,
    queue: BTreeMap<(u64, u64), (Line, Vec<u8>)>,
    order: u64,
}

impl Net {
    pub fn new(seed: u64, loss: f64) -> Self {
        Net {
            prng: Prng::new(seed),
            loss,
            sides: 2,
            late: 0.05,
            jitter: 8_000,
            queue: BTreeMap::new(),
            order: 0,
        }
    }

    pub fn send(&mut self, now_ns: u64, (feed, bytes): Sent) {
        for side in &LineSide::ALL[..self.sides] {
            let copies = if self.prng.chance(0.01) { 2 } else { 1 };
            for _ in 0..copies {
                if self.prng.chance(self.loss) {
                    continue;
                }
                let late = if self.prng.chance(self.late) { self.prng.below(400_000) } else { 0 };
                let at = now_ns + 10_000 + self.prng.below(self.jitter) + late;
                self.order += 1;
                self.queue.insert((at, self.order), (Line::new(feed, *side), bytes.clone()));
            }
        }
    }

    /// The next packet that arrives not after `until_ns`.
    pub fn receive(&mut self, until_ns: u64) -> Option<(u64, Line, Vec<u8>)> {
        let (&(at, order), _) = self.queue.iter().next()?;
        if at > until_ns {
            return None;
        }
        let (line, bytes) = self.queue.remove(&(at, order))?;
        Some((at, line, bytes))
    }
}
