//! CME-like conflated feed channels out of a seed, so that everything that receives market data can run with no exchange.
//!
//! ```text
//! market (orders, trades) -> every conflation interval: what changed, as events -> packets -> lines A and B, each with
//! its own loss, doubles, delay and order -> next_packets(now)
//! definition loop, snapshot loop, heartbeats, resets beside it; the truth at the end
//! ```
//! [`Emulator`] is sans-IO: time goes in, packets of lines come out. [`Sender`] puts them on sockets, [`CaptureWriter`]
//! into a capture. The same configuration gives the same packets, whenever and however often it is asked. [`Truth`] is what
//! every book must be in the end; it is written beside a capture, and [compared](Truth::compare) with the books of a handler.
//!
//! This crate stands on the feed handler (its lines, connections and errors), and no service stands on this one: the handler's
//! tests, `bench`, `barewire feed emulate` and the fuzz targets are its users.
//!
//! What it does not do: repos, collateral (template 62).
//!
//! ```
//! use barewire_base::{Duration, Instant};
//! use barewire_feed_emulator::{Emulator, EmulatorConfig, LineFaults};
//! use barewire_feed_handler::{FeedType, Side};
//!
//! // A second of 20 instruments. Line A loses a tenth of its packets, line B none.
//! let config = EmulatorConfig {
//!     seed: 7,
//!     active: Duration::from_secs(1),
//!     faults_a: LineFaults { loss: 0.1, ..LineFaults::default() },
//!     ..EmulatorConfig::default()
//! };
//! let mut emulator = Emulator::new(config, Instant::ZERO)?;
//! let mut of_line_b = 0;
//! emulator.next_packets(emulator.active_until(), &mut |packet| {
//!     of_line_b += u64::from((packet.feed, packet.side) == (FeedType::Incremental, Side::B));
//! });
//! assert_eq!(of_line_b, emulator.counts().incremental_packets);
//! let [a, b] = emulator.line_counts();
//! assert!(a.lost > 0 && b.lost == 0);
//!
//! // What every book must be now, one for each instrument.
//! assert_eq!(emulator.truth().books.len(), 20);
//! # Ok::<(), barewire_feed_emulator::EmulatorError>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod book;
mod compare;
mod config;
mod definition;
mod encode;
mod encode_loops;
mod lifecycle;
mod lines;
mod market;
mod publish;
mod sender;
mod truth;

pub use book::{Level, book_hash};
pub use compare::{Difference, levels};
pub use config::{EMULATED_INSTRUMENTS_MAX, EmulatorConfig, EmulatorError, LineFaults, TotalReports};
pub use definition::{TruthDefinition, TruthLeg, TruthUnderlying};
pub use lines::LineCounts;
pub use sender::{CaptureWriter, Sender, connections, order_connections};
pub use truth::{TopOrder, Truth, TruthBook, TruthHeader};

use barewire_base::{Duration, Instant, Prng};
use barewire_feed_handler::{FeedType, Side};
use barewire_sbe::PacketEncoder;
use barewire_sbe::mdp3::admin_heartbeat12::AdminHeartbeat12Encoder;
use barewire_sbe::mdp3::{SecurityTradingStatus, SecurityUpdateAction};
use encode::Planned;
use lines::Lines;
use market::{BID, Instrument, Numbers, OFFER};
use std::collections::{HashMap, HashSet, VecDeque};

/// MsgSeqNum before the first packet, when the emulation begins in the middle of a week.
const MIDWEEK_SEQ_NUM: u32 = 10_000;

/// A packet as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Emitted<'a> {
    /// When.
    pub at: Instant,
    /// By which feed.
    pub feed: FeedType,
    /// By which line.
    pub side: Side,
    /// The UDP payload.
    pub payload: &'a [u8],
}

/// A loop of packets that repeats what it knows.
#[derive(Default)]
struct Loop {
    next_at: Instant,
    /// Instruments of this round, and how far it has come.
    round: Vec<u32>,
    /// Into how many chunks the book by order of each is cut; none where it is not told.
    chunks: Vec<u32>,
    /// What the round says that there is.
    reports: u32,
    done: usize,
    seq_num: u32,
    /// Messages that did not fit into the last packet.
    pending: VecDeque<Vec<u8>>,
}

/// What an emulator has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulatorCounts {
    /// Incremental packets (on each line).
    pub incremental_packets: u64,
    /// Definition packets.
    pub definition_packets: u64,
    /// Snapshot packets.
    pub snapshot_packets: u64,
    /// Events.
    pub events: u64,
    /// Messages of incremental packets.
    pub messages: u64,
    /// Channel resets.
    pub resets: u64,
    /// Heartbeats.
    pub heartbeats: u64,
    /// Weeks that began, after the first.
    pub weeks: u64,
    /// Instruments added on the incremental feed.
    pub listed: u64,
    /// Instruments deleted.
    pub delisted: u64,
}

/// An emulated feed channel.
pub struct Emulator {
    config: EmulatorConfig,
    start: Instant,
    prng: Prng,
    /// What is drawn of definitions, so that the market goes on as without changes of them.
    changes: Prng,
    numbers: Numbers,
    instruments: Vec<Instrument>,
    /// Instruments with something to publish, in the order in which they were touched.
    dirty: Vec<u32>,
    lines: Lines,
    /// MsgSeqNum of the last incremental packet.
    seq_num: u32,
    last_sent: Instant,
    next_event: Instant,
    next_publication: Instant,
    resets: VecDeque<Instant>,
    /// Ends of weeks, and when the next week begins while it is weekend.
    weeks: VecDeque<Instant>,
    week_begins: Option<Instant>,
    next_change: Instant,
    definitions: Loop,
    snapshots: Loop,
    orders: Loop,
    /// The messages of the packet being put together.
    body: Vec<u8>,
    scratch: Vec<u8>,
    counts: EmulatorCounts,
    history: HashMap<i32, HashSet<u64>>,
}

/// What is next in the emulator's own time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Reset,
    Event,
    Publication,
    Definition,
    Snapshot,
    Orders,
    Heartbeat,
    WeekEnd,
    WeekBegin,
    Change,
}

impl Emulator {
    /// A channel that begins at `start`.
    ///
    /// # Errors
    /// [`EmulatorError`] for a value out of its bounds.
    pub fn new(config: EmulatorConfig, start: Instant) -> Result<Emulator, EmulatorError> {
        config.check()?;
        let mut prng = Prng::new(config.seed);
        let mut make = prng.fork();
        let mut numbers = Numbers::default();
        let mut instruments: Vec<Instrument> = Vec::with_capacity(config.instruments as usize);
        for index in 0..config.instruments {
            // Legs and underlyings are looked for among few, or many instruments would take long.
            let near = &instruments[instruments.len().saturating_sub(64)..];
            let instrument = Instrument::new(&config, index, 0, near, &mut make);
            instruments.push(instrument);
        }
        let lines = Lines::new([config.faults_a, config.faults_b], &mut prng);
        let mut resets: Vec<Instant> = config.resets.iter().map(|after| start + *after).collect();
        resets.sort_unstable();
        let ends = config.weekly_resets.iter().filter(|after| **after + config.weekend <= config.active);
        let mut weeks: Vec<Instant> = ends.map(|after| start + *after).collect();
        weeks.sort_unstable();
        if config.prefill {
            for instrument in &mut instruments {
                instrument.fill(&mut make, &mut numbers);
                publish::adopt(instrument, config.depth.into());
                instrument.last_update_ns = config.epoch_ns;
            }
        }
        let mut emulator = Emulator {
            start,
            changes: make,
            prng,
            numbers,
            dirty: Vec::new(),
            lines,
            seq_num: if config.prefill { MIDWEEK_SEQ_NUM } else { 0 },
            last_sent: start,
            next_event: start,
            next_publication: if config.conflation > Duration::ZERO {
                start + config.conflation.min(config.active)
            } else {
                Instant::FAR_FUTURE
            },
            resets: resets.into(),
            weeks: weeks.into(),
            week_begins: None,
            next_change: start,
            definitions: Loop { next_at: start, ..Loop::default() },
            snapshots: Loop { next_at: start, ..Loop::default() },
            orders: Loop {
                next_at: if config.every_order { start } else { Instant::FAR_FUTURE },
                ..Loop::default()
            },
            body: Vec::new(),
            scratch: vec![0xa5; encode::MESSAGE_MAX],
            counts: EmulatorCounts::default(),
            history: HashMap::new(),
            instruments,
            config,
        };
        emulator.next_event = start + emulator.event_gap();
        emulator.next_change = start + emulator.change_gap();
        for index in 0..emulator.instruments.len() {
            emulator.remember(index);
        }
        Ok(emulator)
    }

    /// The configuration.
    pub fn config(&self) -> &EmulatorConfig {
        &self.config
    }

    /// Hands over every packet that arrives until `now`, in the order of arrival, and says how many.
    pub fn next_packets(&mut self, now: Instant, take: &mut dyn FnMut(&Emitted<'_>)) -> usize {
        let mut count = 0;
        loop {
            let (at, next) = self.next();
            let arrival = self.lines.next_at().filter(|due| *due <= at && *due <= now);
            if arrival.is_some() {
                if let Some((at, feed, side, payload)) = self.lines.pop() {
                    take(&Emitted { at, feed, side, payload: &payload });
                    count += 1;
                }
            } else if at <= now {
                self.step(at, next);
            } else {
                return count;
            }
        }
    }

    /// When there is next something to do.
    pub fn next_deadline(&self) -> Instant {
        let (at, _) = self.next();
        self.lines.next_at().map_or(at, |arrival| arrival.min(at))
    }

    /// When the market ends; only loops and heartbeats come afterwards.
    pub fn active_until(&self) -> Instant {
        self.start + self.config.active
    }

    /// What every book must be, by what has been published so far. After [`active_until`](Self::active_until) it changes no
    /// more.
    pub fn truth(&self) -> Truth {
        Truth {
            header: TruthHeader {
                channel_id: self.config.channel_id,
                seed: self.config.seed,
                last_seq_num: self.seq_num,
                packets: self.counts.incremental_packets,
                resets: self.counts.resets,
                weeks: self.counts.weeks,
            },
            books: self.instruments.iter().map(TruthBook::of).collect(),
        }
    }

    /// Whether the direct book of an instrument ever was like this at the end of an event. Needs
    /// [`history`](EmulatorConfig::history).
    pub fn ever_was(&self, security_id: i32, bids: &[Level], offers: &[Level]) -> bool {
        self.history.get(&security_id).is_some_and(|states| states.contains(&book_hash(bids, offers)))
    }

    /// What has been sent.
    pub fn counts(&self) -> EmulatorCounts {
        self.counts
    }

    /// What became of it on the way, on the A and on the B lines.
    pub fn line_counts(&self) -> [LineCounts; 2] {
        self.lines.counts
    }

    fn next(&self) -> (Instant, Next) {
        let alive = |at: Instant| if at <= self.active_until() { at } else { Instant::FAR_FUTURE };
        let mut best = (self.resets.front().map_or(Instant::FAR_FUTURE, |at| alive(*at)), Next::Reset);
        let week_ends = self.weeks.front().filter(|_| self.week_begins.is_none());
        for (at, next) in [
            (week_ends.map_or(Instant::FAR_FUTURE, |at| *at), Next::WeekEnd),
            (self.week_begins.unwrap_or(Instant::FAR_FUTURE), Next::WeekBegin),
            (alive(self.next_change), Next::Change),
            (alive(self.next_event), Next::Event),
            (self.next_publication, Next::Publication),
            (self.definitions.next_at, Next::Definition),
            (self.snapshots.next_at, Next::Snapshot),
            (self.orders.next_at, Next::Orders),
            (self.last_sent + self.config.heartbeat, Next::Heartbeat),
        ] {
            if at < best.0 {
                best = (at, next);
            }
        }
        best
    }

    fn step(&mut self, at: Instant, next: Next) {
        match next {
            Next::Reset => {
                self.resets.pop_front();
                self.reset(at);
            }
            Next::Event => {
                self.next_event = at + self.event_gap();
                self.event(at);
            }
            Next::Publication => {
                self.publish(at);
                let (next, end) = (at + self.config.conflation, self.active_until());
                // What is pending when the market ends is published then, however short the interval is.
                self.next_publication = if at < end { next.min(end) } else { Instant::FAR_FUTURE };
            }
            Next::Definition => {
                self.definitions.next_at = at + self.config.definition_gap;
                self.definition_packet(at);
            }
            Next::Snapshot => {
                self.snapshots.next_at = at + self.config.snapshot_gap;
                self.snapshot_packet(at);
            }
            Next::Orders => {
                self.orders.next_at = at + self.config.snapshot_gap;
                self.order_packet(at);
            }
            Next::Heartbeat => {
                self.heartbeat(at);
            }
            Next::WeekEnd => {
                self.weeks.pop_front();
                self.end_week(at);
            }
            Next::WeekBegin => self.begin_week(at),
            Next::Change => {
                self.next_change = at + self.change_gap();
                self.change_definition(at);
            }
        }
    }

    fn event_gap(&mut self) -> Duration {
        match u64::from(self.config.events_per_s) {
            0 => Duration::MAX,
            rate => Duration::from_nanos(1 + self.prng.below(2_000_000_000 / rate)),
        }
    }

    fn time_ns(&self, at: Instant) -> u64 {
        self.config.epoch_ns + at.since(self.start).as_nanos()
    }

    /// Few instruments get most of what happens.
    fn draw_instrument(&mut self) -> usize {
        let count = self.instruments.len() as u64;
        let from = self.prng.below(self.prng.clone().below(count) + 1).min(count - 1) as usize;
        self.listed_from(from)
    }

    /// The first listed instrument from this one on. There is always one.
    fn listed_from(&self, from: usize) -> usize {
        let count = self.instruments.len();
        (from..from + count).map(|at| at % count).find(|&at| self.instruments[at].listed).unwrap_or(from)
    }

    fn listed_count(&self) -> u32 {
        self.instruments.iter().filter(|instrument| instrument.listed).count() as u32
    }

    fn event(&mut self, at: Instant) {
        let index = self.draw_instrument();
        match self.prng.below(1000) {
            0..980 => {
                self.instruments[index].act(&mut self.prng, &mut self.numbers);
                self.touch(index);
                if self.config.conflation == Duration::ZERO {
                    self.publish(at);
                }
            }
            980..985 => self.status(at, index),
            985..990 => self.limits(at, index),
            990..993 => self.settle(at, index),
            993..996 => {
                let instrument = &self.instruments[index];
                let price_e9 = instrument.session.last_e9;
                let workup =
                    Planned::Workup { security_id: instrument.id, price_e9, link: self.numbers.trade };
                self.send_event(at, vec![workup]);
            }
            _ => {
                let instrument = &self.instruments[index];
                let request = Planned::QuoteRequest {
                    security_id: instrument.id,
                    symbol: instrument.symbol.clone(),
                    number: self.seq_num,
                };
                self.send_event(at, vec![request]);
            }
        }
    }

    fn touch(&mut self, index: usize) {
        let instrument = &mut self.instruments[index];
        if !instrument.dirty {
            instrument.dirty = true;
            self.dirty.push(index as u32);
        }
    }

    /// The trading status of one instrument, or of its whole group. Not conflated: it flushes what is queued.
    fn status(&mut self, at: Instant, index: usize) {
        self.publish(at);
        let statuses = [
            SecurityTradingStatus::READY_TO_TRADE,
            SecurityTradingStatus::TRADING_HALT,
            SecurityTradingStatus::PRE_OPEN,
            SecurityTradingStatus::READY_TO_TRADE,
        ];
        let status = statuses[self.prng.below(4) as usize];
        let whole_group = self.prng.chance(0.3);
        let (group, asset) = (self.instruments[index].group.clone(), self.instruments[index].asset.clone());
        let security_id = (!whole_group).then_some(self.instruments[index].id);
        for (other, instrument) in self.instruments.iter_mut().enumerate() {
            if instrument.listed && (other == index || whole_group && instrument.group == group) {
                instrument.status = status;
            }
        }
        self.send_event(at, vec![Planned::Status { security_id, group, asset, status }]);
    }

    fn limits(&mut self, at: Instant, index: usize) {
        self.publish(at);
        let by = self.prng.below(7) as i64 - 3;
        let time_ns = self.time_ns(at);
        let instrument = &mut self.instruments[index];
        instrument.limits.high_e9 += by * instrument.tick_e9;
        instrument.limits.low_e9 += by * instrument.tick_e9;
        instrument.rpt_seq += 1;
        instrument.last_update_ns = time_ns;
        let planned = Planned::Limits {
            security_id: instrument.id,
            rpt_seq: instrument.rpt_seq,
            high_e9: instrument.limits.high_e9,
            low_e9: instrument.limits.low_e9,
            variation_e9: instrument.limits.variation_e9,
        };
        self.send_event(at, vec![planned]);
    }

    fn settle(&mut self, at: Instant, index: usize) {
        let time_ns = self.time_ns(at);
        let instrument = &mut self.instruments[index];
        let level = instrument.book[BID].first().or(instrument.book[OFFER].first());
        let Some(price_e9) = instrument.session.last_e9.or(level.map(|level| level.price_e9)) else { return };
        instrument.settlement_e9 = Some(price_e9);
        instrument.rpt_seq += 1;
        instrument.last_update_ns = time_ns;
        let (security_id, rpt_seq) = (instrument.id, instrument.rpt_seq);
        self.send_event(at, vec![Planned::Settlement { security_id, rpt_seq, price_e9 }]);
    }

    /// Template 4: books and statistics of the channel are void, RptSeq begins again; then everything is built anew, at once.
    fn reset(&mut self, at: Instant) {
        self.publish(at);
        self.counts.resets += 1;
        self.send_event(at, vec![Planned::Reset { channel_id: self.config.channel_id }]);
        for index in 0..self.instruments.len() {
            if self.instruments[index].listed {
                self.instruments[index].reset();
                self.remember(index);
                self.touch(index);
            }
        }
        self.restart_snapshots();
        self.publish(at);
    }

    /// Whatever the snapshot loop was saying is void.
    fn restart_snapshots(&mut self) {
        self.snapshots.round.clear();
        self.snapshots.done = 0;
        self.snapshots.pending.clear();
        self.orders = Loop { next_at: self.orders.next_at, ..Loop::default() };
    }

    fn heartbeat(&mut self, at: Instant) {
        self.counts.heartbeats += 1;
        let mut buf = [0xa5; 64];
        let len = AdminHeartbeat12Encoder::new(&mut buf).and_then(AdminHeartbeat12Encoder::finish);
        self.body.extend_from_slice(&buf[..len.unwrap_or(0)]);
        self.flush_packet(at);
    }

    fn remember(&mut self, index: usize) {
        if self.config.history {
            let instrument = &self.instruments[index];
            let hash = book_hash(&instrument.book[BID], &instrument.book[OFFER]);
            self.history.entry(instrument.id).or_default().insert(hash);
        }
    }

    /// Sends the incremental packet that has been put together.
    fn flush_packet(&mut self, at: Instant) {
        if self.body.is_empty() {
            return;
        }
        self.seq_num = self.seq_num.wrapping_add(1);
        let packet = packet(self.seq_num, self.time_ns(at), &self.body);
        self.body.clear();
        self.counts.incremental_packets += 1;
        self.last_sent = at;
        self.lines.send(at, FeedType::Incremental, &packet);
    }

    fn definition_packet(&mut self, at: Instant) {
        let this = &mut self.definitions;
        if this.done >= this.round.len() {
            *this = Loop {
                next_at: this.next_at,
                round: (0..self.instruments.len() as u32)
                    .filter(|&index| self.instruments[index as usize].listed)
                    .collect(),
                ..Loop::default()
            };
        }
        let reports = this.round.len() as u32;
        let mut body = Vec::with_capacity(self.config.packet_bytes_max);
        while let Some(index) = this.round.get(this.done) {
            let instrument = &self.instruments[*index as usize];
            // The round tells of those that were there when it began.
            let action =
                if instrument.listed { SecurityUpdateAction::ADD } else { SecurityUpdateAction::DELETE };
            let Ok(message) = definition::encode(instrument, action, &self.config, reports) else {
                return;
            };
            if body.len() + message.len() + barewire_sbe::PACKET_HEADER_LEN > self.config.packet_bytes_max {
                break;
            }
            body.extend_from_slice(&message);
            this.done += 1;
        }
        this.seq_num += 1;
        let seq_num = this.seq_num;
        self.counts.definition_packets += 1;
        self.lines.send(at, FeedType::Instrument, &packet(seq_num, self.time_ns(at), &body));
    }

    fn snapshot_packet(&mut self, at: Instant) {
        let this = &mut self.snapshots;
        if this.done >= this.round.len() && this.pending.is_empty() {
            // Only instruments that something has happened to.
            let spoken_of = self.instruments.iter().enumerate().filter(|(_, i)| i.rpt_seq > 0);
            let chunks_of = |i: &Instrument| if i.top_orders { self.config.chunks_of(i) } else { 0 };
            let (round, chunks) = spoken_of.map(|(n, i)| (n as u32, chunks_of(i))).unzip();
            *this = Loop { next_at: this.next_at, round, chunks, ..Loop::default() };
            // The price levels of each instrument are a message, too.
            this.reports = self.config.reports(&this.chunks, this.round.len() as u32);
        }
        let reports = this.reports;
        let mut body = Vec::with_capacity(self.config.packet_bytes_max);
        loop {
            if let Some(message) = this.pending.front() {
                if body.len() + message.len() + barewire_sbe::PACKET_HEADER_LEN > self.config.packet_bytes_max
                {
                    break;
                }
                body.extend_from_slice(message);
                this.pending.pop_front();
                continue;
            }
            let Some(index) = this.round.get(this.done) else { break };
            let chunks = this.chunks[this.done];
            this.done += 1;
            let instrument = &self.instruments[*index as usize];
            if instrument.rpt_seq == 0 {
                // Deleted since the round began.
                continue;
            }
            let mut messages = Vec::new();
            let mut written = encode_loops::snapshot(instrument, self.seq_num, reports, &mut messages);
            if chunks > 0 {
                written = written.and_then(|()| {
                    encode_loops::orders(instrument, self.seq_num, reports, chunks, &mut messages)
                });
            }
            debug_assert!(written.is_ok());
            this.pending.extend(messages);
        }
        if body.is_empty() {
            return;
        }
        this.seq_num += 1;
        let seq_num = this.seq_num;
        self.counts.snapshot_packets += 1;
        self.lines.send(at, FeedType::Snapshot, &packet(seq_num, self.time_ns(at), &body));
    }
}

impl Emulator {
    /// The next packet of the loop of books by order.
    fn order_packet(&mut self, at: Instant) {
        let this = &mut self.orders;
        if this.done >= this.round.len() && this.pending.is_empty() {
            let spoken_of = self.instruments.iter().enumerate().filter(|(_, i)| i.has_orders());
            let (round, chunks) = spoken_of.map(|(n, i)| (n as u32, self.config.chunks_of(i))).unzip();
            *this = Loop { next_at: this.next_at, round, chunks, ..Loop::default() };
            this.reports = self.config.reports(&this.chunks, 0);
        }
        let reports = this.reports;
        let mut body = Vec::with_capacity(self.config.packet_bytes_max);
        loop {
            if let Some(message) = this.pending.front() {
                if body.len() + message.len() + barewire_sbe::PACKET_HEADER_LEN > self.config.packet_bytes_max
                {
                    break;
                }
                body.extend_from_slice(message);
                this.pending.pop_front();
                continue;
            }
            let Some(index) = this.round.get(this.done) else { break };
            let chunks = this.chunks[this.done];
            this.done += 1;
            let instrument = &self.instruments[*index as usize];
            if !instrument.listed {
                continue;
            }
            let mut messages = Vec::new();
            let written = encode_loops::orders(instrument, self.seq_num, reports, chunks, &mut messages);
            debug_assert!(written.is_ok());
            this.pending.extend(messages);
        }
        if body.is_empty() {
            return;
        }
        this.seq_num += 1;
        let seq_num = this.seq_num;
        self.counts.snapshot_packets += 1;
        self.lines.send(at, FeedType::SnapshotMbo, &packet(seq_num, self.time_ns(at), &body));
    }
}

/// A packet: header and messages.
fn packet(seq_num: u32, time_ns: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; barewire_sbe::PACKET_HEADER_LEN + body.len()];
    // The room is exactly what is needed.
    let written =
        PacketEncoder::new(&mut packet, seq_num, time_ns).and_then(|mut encoder| encoder.push(body));
    debug_assert!(written.is_ok());
    packet
}

#[cfg(test)]
mod tests;
