//! One feed channel: packets of all its lines in, callbacks and books out.

use crate::book::BookSide;
use crate::config::{Config, ConfigError, DefinitionLoop, LinePolicy, MAX_LINES};
use crate::counters::{Counters, Reason};
use crate::definition::Definitions;
use crate::instrument::Instrument;
use crate::line::{Feed, Line, LineSide, LineState, LineStats, LineTrack, Recent};
use crate::listener::{BookCause, BookView, Listener, PacketInfo, RecoveryInfo};
use crate::loops::Round;
use crate::orders::OrderBook;
use crate::read;
use crate::sequence::Candidate;
use crate::snapshot::{Ahead, Chunks};
use crate::statistics::Statistics;
use crate::store::{State, Store};
use crate::window::Window;
use barewire_base::Instant;
use barewire_frame::Stamp;
use barewire_sbe::{Message, Packet};

/// Instruments that are not on a white-list and can be counted in the snapshot loop.
const MAX_UNLISTED: usize = 1 << 16;

/// The handler of one feed channel, as a value: packets and time go in, callbacks come out. It takes all its memory when it is
/// made and none afterwards.
///
/// The driver gives every packet of every line to [`on_packet`](Self::on_packet), calls [`on_timeout`](Self::on_timeout) when
/// [`next_deadline`](Self::next_deadline) has come, and may leave a feed that [`wants`](Self::wants) says is not needed.
#[derive(Debug)]
pub struct Channel {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) lines: [[LineTrack; MAX_LINES]; Feed::COUNT],
    pub(crate) recent: Recent,
    pub(crate) window: Window,
    /// Number of the next incremental packet, once the first has come.
    pub(crate) expected: u32,
    pub(crate) synced: bool,
    /// Number and SendingTime of the last incremental packet processed.
    pub(crate) last_seq: u32,
    pub(crate) last_time_ns: u64,
    /// When what is missing before the packets held is declared lost.
    pub(crate) hold_deadline: Instant,
    pub(crate) candidate: Option<Candidate>,
    /// Packets of the numbering in use were sent then or later; zero before the first restart.
    pub(crate) numbered_ns: u64,
    /// Packets in a row that were taken for older ones than that.
    pub(crate) strays: u32,
    /// LastMsgSeqNumProcessed and SendingTime of the snapshot before the first packet that knew of most.
    pub(crate) before_join: (u32, u64),
    /// Packets that a snapshot knows of and that have not come.
    pub(crate) ahead: Option<Ahead>,
    /// Snapshots sent before this are void.
    pub(crate) reset_time_ns: u64,
    /// The snapshot loop, and that of books by order.
    pub(crate) books: Round,
    pub(crate) order_books: Round,
    pub(crate) chunks: Option<Chunks>,
    pub(crate) staged: OrderBook,
    pub(crate) definitions: Definitions,
    recovering: bool,
    /// Price levels are missing, and books by order.
    missing: [bool; 2],
    active: LineSide,
    channel_state: LineState,
}

impl Channel {
    /// A channel that has heard nothing yet; `now` begins the time-outs of its lines.
    pub fn new(config: Config, now: Instant) -> Result<Channel, ConfigError> {
        config.validate()?;
        let mut lines = [[LineTrack::default(); MAX_LINES]; Feed::COUNT];
        lines.iter_mut().flatten().for_each(|line| line.last_rx = now);
        let active = match config.line_policy {
            LinePolicy::Arbitrate => LineSide::A,
            LinePolicy::Only(side) => side,
            LinePolicy::Failover { primary, .. } => primary,
        };
        let unlisted = if config.white_list.is_empty() { config.instruments } else { MAX_UNLISTED };
        Ok(Channel {
            store: Store::new(&config),
            lines,
            recent: Recent::new(),
            window: Window::new((config.gap_packets * 4).max(64), config.max_packet_len),
            expected: 0,
            synced: false,
            last_seq: 0,
            last_time_ns: 0,
            hold_deadline: Instant::FAR_FUTURE,
            candidate: None,
            numbered_ns: 0,
            strays: 0,
            before_join: (0, 0),
            ahead: None,
            reset_time_ns: 0,
            books: Round::new(unlisted, if config.order_loop { 0 } else { unlisted }),
            order_books: Round::new(if config.orders && config.order_loop { unlisted } else { 0 }, 0),
            chunks: None,
            staged: OrderBook::EMPTY,
            definitions: Definitions::new(unlisted),
            recovering: false,
            missing: [false; 2],
            active,
            channel_state: LineState::Silent,
            config,
        })
    }

    /// Takes in a packet: the UDP payload `bytes` that came by `line`, received at `stamp`. What is wrong with it is counted.
    #[inline]
    pub fn on_packet<L: Listener>(
        &mut self,
        now: Instant,
        line: Line,
        stamp: Stamp,
        bytes: &[u8],
        listener: &mut L,
    ) {
        if line.side as usize >= self.config.lines {
            self.drop(line, Reason::UnknownLine, listener);
            return;
        }
        let track = &mut self.lines[line.feed as usize][line.side as usize];
        track.stats.packets += 1;
        track.stats.bytes += bytes.len() as u64;
        track.last_rx = now;
        if track.stats.state != LineState::Up {
            self.line_up(line, listener);
        }
        let Ok(packet) = Packet::parse(bytes) else {
            self.drop(line, Reason::ShortPacket, listener);
            return;
        };
        if !self.uses(line.side) {
            self.drop(line, Reason::Standby, listener);
            return;
        }
        if let Err(reason) = read::check(&packet) {
            self.drop(line, reason, listener);
            return;
        }
        let info = PacketInfo {
            line,
            seq: packet.seq_num(),
            sending_time_ns: packet.sending_time_ns(),
            stamp,
            held: false,
            bytes,
        };
        match line.feed {
            Feed::Incremental => self.incremental_packet(now, &info, listener),
            Feed::Snapshot | Feed::OrderSnapshot => {
                self.lines[line.feed as usize][line.side as usize].stats.first += 1;
                self.snapshot_packet(now, &info, listener);
            }
            Feed::Instrument => {
                self.lines[line.feed as usize][line.side as usize].stats.first += 1;
                self.definition_packet(now, &info, listener);
            }
        }
    }

    /// Takes in that time has passed. To be called at [`next_deadline`](Self::next_deadline) or soon after.
    pub fn on_timeout<L: Listener>(&mut self, now: Instant, listener: &mut L) {
        self.gap_timeout(now, listener);
        for side in &LineSide::ALL[..self.config.lines] {
            let line = Line::new(Feed::Incremental, *side);
            let track = &mut self.lines[Feed::Incremental as usize][*side as usize];
            if track.stats.state != LineState::Down && now >= track.last_rx + self.config.heartbeat_timeout {
                track.stats.state = LineState::Down;
                listener.on_line_state(line, LineState::Down);
                self.line_down(listener);
            }
        }
        self.report_recovery(listener);
    }

    /// When [`on_timeout`](Self::on_timeout) has something to do; `None` when nothing is awaited.
    pub fn next_deadline(&self) -> Option<Instant> {
        let mut next = self.hold_deadline;
        if let Some(ahead) = self.ahead {
            next = next.min(ahead.at);
        }
        for track in &self.lines[Feed::Incremental as usize][..self.config.lines] {
            if track.stats.state != LineState::Down {
                next = next.min(track.last_rx + self.config.heartbeat_timeout);
            }
        }
        (next != Instant::FAR_FUTURE).then_some(next)
    }

    /// Processes an incremental packet in its turn.
    #[inline]
    pub(crate) fn process<L: Listener>(&mut self, packet: &PacketInfo<'_>, listener: &mut L) {
        self.expected = packet.seq.wrapping_add(1);
        self.last_seq = packet.seq;
        self.last_time_ns = packet.sending_time_ns;
        self.strays = 0;
        self.store.seq = packet.seq;
        self.store.sent_ns = packet.sending_time_ns;
        self.store.counters.packets += 1;
        listener.on_packet(packet);
        for message in self.messages(packet) {
            self.store.counters.messages += 1;
            listener.on_message(packet, &message);
            self.incremental_message(packet, &message, listener);
        }
        listener.on_end_of_packet(packet);
    }

    /// The messages of a packet that has been checked.
    #[inline]
    pub(crate) fn messages<'a>(
        &self,
        packet: &PacketInfo<'a>,
    ) -> impl Iterator<Item = Message<'a>> + use<'a> {
        Packet::parse(packet.bytes).into_iter().flat_map(|p| p.messages()).map_while(Result::ok)
    }

    /// Counts something that was not used.
    #[cold]
    pub(crate) fn drop<L: Listener>(&mut self, line: Line, reason: Reason, listener: &mut L) {
        self.store.counters.drop(reason);
        listener.on_drop(line, reason);
    }

    /// Counts a packet of a loop that had been heard.
    pub(crate) fn duplicate<L: Listener>(&mut self, packet: &PacketInfo<'_>, listener: &mut L) {
        let stats = &mut self.lines[packet.line.feed as usize][packet.line.side as usize].stats;
        stats.first -= 1;
        stats.duplicates += 1;
        self.drop(packet.line, Reason::Duplicate, listener);
    }

    /// Whether a line is in use at present.
    #[inline]
    fn uses(&self, side: LineSide) -> bool {
        self.config.line_policy == LinePolicy::Arbitrate || side == self.active
    }

    #[cold]
    fn line_up<L: Listener>(&mut self, line: Line, listener: &mut L) {
        self.lines[line.feed as usize][line.side as usize].stats.state = LineState::Up;
        listener.on_line_state(line, LineState::Up);
        if line.feed == Feed::Incremental {
            self.fail_over(listener);
            if self.channel_state != LineState::Up {
                self.channel_state = LineState::Up;
                listener.on_channel_state(LineState::Up);
            }
        }
    }

    /// The driver cannot receive by a line at present, whatever the reason: the line is down until a packet comes by it.
    #[cold]
    pub fn on_line_failed<L: Listener>(&mut self, line: Line, listener: &mut L) {
        if line.side as usize >= self.config.lines {
            return;
        }
        let stats = &mut self.lines[line.feed as usize][line.side as usize].stats;
        if stats.state == LineState::Down {
            return;
        }
        stats.state = LineState::Down;
        listener.on_line_state(line, LineState::Down);
        if line.feed == Feed::Incremental {
            self.line_down(listener);
        }
    }

    fn line_down<L: Listener>(&mut self, listener: &mut L) {
        self.fail_over(listener);
        let lines = &self.lines[Feed::Incremental as usize][..self.config.lines];
        if lines.iter().all(|l| l.stats.state == LineState::Down) && self.channel_state != LineState::Down {
            self.channel_state = LineState::Down;
            listener.on_channel_state(LineState::Down);
        }
    }

    /// Goes to the other line where the one in use is down and the other is up.
    fn fail_over<L: Listener>(&mut self, listener: &mut L) {
        let LinePolicy::Failover { primary, backup } = self.config.line_policy else { return };
        let other = if self.active == primary { backup } else { primary };
        let state = |side: LineSide| self.lines[Feed::Incremental as usize][side as usize].stats.state;
        if state(self.active) == LineState::Down && state(other) == LineState::Up {
            self.active = other;
            listener.on_failover(self.config.line_policy, Line::new(Feed::Incremental, other));
        }
    }

    /// Tells when recovery begins and ends.
    #[inline]
    pub(crate) fn report_recovery<L: Listener>(&mut self, listener: &mut L) {
        let missing = [self.books_missing(), self.orders_missing()];
        if missing != self.missing {
            self.missing_changed(missing, listener);
        }
    }

    #[cold]
    fn missing_changed<L: Listener>(&mut self, missing: [bool; 2], listener: &mut L) {
        // A loop that is wanted from now on may have been left until now.
        let begun = [0, 1].map(|which| missing[which] && !self.missing[which]);
        if begun[0] || begun[1] && !self.store.order_loop {
            self.books.tracker.rejoin();
        }
        if begun[1] {
            self.order_books.tracker.rejoin();
        }
        self.missing = missing;
        if (missing[0] || missing[1]) != self.recovering {
            self.recovering = !self.recovering;
            let info = self.recovery_info();
            if self.recovering {
                listener.on_recovery_begin(&info);
            } else {
                listener.on_recovery_end(&info);
            }
        }
    }

    /// Whether some price-level books are not good, or it is not known which there are.
    #[inline]
    fn books_missing(&self) -> bool {
        self.store.settled < self.store.len || self.books.wanted
    }

    /// The same of books by order.
    #[inline]
    fn orders_missing(&self) -> bool {
        self.store.orders_good < self.store.orders_due || self.order_books.wanted
    }

    /// How far recovery is.
    pub fn recovery_info(&self) -> RecoveryInfo {
        let store = &self.store;
        RecoveryInfo {
            last_lost: store.lost_seq,
            instruments: store.len,
            unsettled: store.len - store.settled,
            unsettled_orders: store.orders_due - store.orders_good,
        }
    }

    /// Whether some instrument is not good, or it is not known yet which there are.
    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Books by order that there is no room for ([`Listener::on_orders_incomplete`]).
    pub fn incomplete_orders(&self) -> usize {
        self.store.orders_full
    }

    /// Whether a feed is needed now. The incremental feed always is.
    pub fn wants(&self, feed: Feed) -> bool {
        match feed {
            Feed::Incremental => true,
            Feed::Snapshot => {
                let orders = !self.store.order_loop && self.orders_missing();
                self.config.recovery.uses_snapshots() && (self.books_missing() || orders || !self.synced)
            }
            Feed::OrderSnapshot => self.store.order_loop && (self.orders_missing() || !self.synced),
            Feed::Instrument => {
                self.config.definitions != DefinitionLoop::Unused && !self.definitions.complete
            }
        }
    }

    /// Whether the definition loop has been heard in full, and nothing was lost since that could have changed it.
    pub fn definitions_complete(&self) -> bool {
        self.definitions.complete
    }

    /// The books of an instrument as of the last event end.
    pub fn book(&self, security_id: i32) -> Option<BookView<'_>> {
        self.store.table.get(security_id).map(|at| self.store.view(at, BookCause::Query))
    }

    /// The books of all instruments.
    pub fn books(&self) -> impl Iterator<Item = BookView<'_>> {
        self.active().map(|at| self.store.view(at, BookCause::Query))
    }

    /// An instrument's definition.
    pub fn instrument(&self, security_id: i32) -> Option<&Instrument> {
        self.store.table.get(security_id).map(|at| &self.store.instruments[at])
    }

    /// All instruments.
    pub fn instruments(&self) -> impl Iterator<Item = &Instrument> {
        self.active().map(|at| &self.store.instruments[at])
    }

    /// An instrument's statistics.
    pub fn statistics(&self, security_id: i32) -> Option<&Statistics> {
        self.store.table.get(security_id).map(|at| &self.store.statistics[at])
    }

    fn active(&self) -> impl Iterator<Item = usize> {
        (0..self.store.slots.len()).filter(|&at| self.store.slots[at].state != State::Free)
    }

    /// The channel's counters.
    pub fn counters(&self) -> &Counters {
        &self.store.counters
    }

    /// A line's figures.
    pub fn line_stats(&self, line: Line) -> &LineStats {
        &self.lines[line.feed as usize][line.side as usize].stats
    }

    /// Whether packets come by any line of the incremental feed.
    pub fn state(&self) -> LineState {
        self.channel_state
    }

    /// Number of the next incremental packet; `None` before the first.
    pub fn expected_seq(&self) -> Option<u32> {
        self.synced.then_some(self.expected)
    }

    /// Packets that wait for their turn, and entries that wait for theirs.
    pub fn waiting(&self) -> (usize, usize) {
        (self.window.count(), self.store.pool.used() + self.store.order_pool.used())
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Best direct bid and offer of an instrument, where it has them.
    pub fn best(&self, security_id: i32) -> Option<[Option<crate::Level>; 2]> {
        let book = self.book(security_id)?;
        Some([BookSide::Bid, BookSide::Offer].map(|side| book.levels(side).first().copied()))
    }
}
