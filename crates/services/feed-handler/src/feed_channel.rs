//! One feed channel: the sans-IO core with its books, and the user's listener.

use crate::plan::{ChannelPlan, LineLayout, Recovery};
use crate::source::{Consumer, Packet};
use crate::{FeedType, LineId, Side, SourceError};
use barewire_base::{Duration, Instant};
use barewire_engine::CounterKind;
use barewire_feed::{
    BookView, Channel, Config, ConfigError, DefinitionLoop, Feed, Gate, Line, LinePolicy, LineSide,
    LineState, Listener, Reason, Warmer, WhiteList, order_room,
};

/// A line as the core names it.
#[inline]
fn line_of(line: LineId) -> Option<Line> {
    let side = match line.side {
        Side::A => LineSide::A,
        Side::B => LineSide::B,
    };
    let feed = match line.feed {
        FeedType::Incremental => Feed::Incremental,
        FeedType::Snapshot => Feed::Snapshot,
        FeedType::Instrument => Feed::Instrument,
        FeedType::SnapshotMbo => Feed::OrderSnapshot,
        // Not received: see ChannelPlan::received.
        FeedType::Historical => return None,
    };
    Some(Line::new(feed, side))
}

/// A feed channel and who listens to it.
///
/// Callbacks run inside [`on_packet`](Consumer::on_packet). Books may be asked for at any time between two packets.
#[derive(Debug)]
pub struct FeedChannel<L> {
    id: u32,
    core: Channel,
    gate: Gate<L>,
    /// Rehearses while nothing arrives, and when next.
    warmer: Option<(Warmer, Instant)>,
}

/// Time between two rehearsals: they take a few percent of an idle core's time, so that a packet rarely meets one.
const REHEARSE_EVERY: Duration = Duration::from_micros(5);

impl<L: Listener> FeedChannel<L> {
    /// A channel of this plan. All memory that it will need is taken here. `now` begins the time-outs of its lines;
    /// packets have at most `packet_bytes_max` bytes.
    ///
    /// # Errors
    /// [`ConfigError`] for a value that the core does not take.
    pub fn new(
        plan: &ChannelPlan,
        packet_bytes_max: usize,
        now: Instant,
        listener: L,
    ) -> Result<FeedChannel<L>, ConfigError> {
        let warmer = if plan.keep_warm { Some((Warmer::new()?, now)) } else { None };
        let core = Channel::new(plan.core_config(packet_bytes_max), now)?;
        Ok(FeedChannel { id: plan.id, core, gate: Gate::new(listener), warmer })
    }

    /// The core: books, instruments, statistics, counters, what each line brought.
    pub fn core(&self) -> &Channel {
        &self.core
    }

    /// An instrument's books as of the last end of an event.
    pub fn book(&self, security_id: i32) -> Option<BookView<'_>> {
        self.core.book(security_id)
    }

    /// Wants an instrument from now on, whatever the selection says ([`Channel::subscribe`]). True when it is handled now.
    pub fn subscribe(&mut self, security_id: i32) -> bool {
        self.core.subscribe(security_id)
    }

    /// Wants an instrument no longer ([`Channel::unsubscribe`]). True when it was handled.
    pub fn unsubscribe(&mut self, security_id: i32) -> bool {
        self.core.unsubscribe(security_id)
    }

    /// The listener.
    pub fn listener(&self) -> &L {
        &self.gate.listener
    }

    /// The listener, to change.
    pub fn listener_mut(&mut self) -> &mut L {
        &mut self.gate.listener
    }

    /// Takes the channel apart.
    pub fn into_parts(self) -> (Channel, L) {
        (self.core, self.gate.listener)
    }
}

impl<L: Listener> Consumer for FeedChannel<L> {
    #[inline]
    fn on_packet(&mut self, now: Instant, packet: &Packet<'_>) {
        let Some(line) = line_of(packet.line) else { return };
        self.core.deliver(now, line, packet.stamp, packet.payload, &mut self.gate);
    }

    #[cold]
    fn on_line_fault(&mut self, _: Instant, line: LineId, _: &SourceError) {
        if let Some(line) = line_of(line) {
            self.core.on_line_failed(line, &mut self.gate);
        }
    }

    #[inline]
    fn on_timeout(&mut self, now: Instant) {
        self.core.on_timeout(now, &mut self.gate);
    }

    #[inline]
    fn keep_warm(&mut self, now: Instant) {
        if let Some((warmer, due)) = &mut self.warmer
            && now >= *due
        {
            *due = now + REHEARSE_EVERY;
            warmer.rehearse(&self.core, &mut self.gate);
        }
    }

    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        self.core.next_deadline()
    }

    fn feed_channel(&self) -> Option<u32> {
        Some(self.id)
    }

    fn counts(&self, tell: &mut dyn FnMut(&'static str, &'static str, CounterKind, u64)) {
        let core = &self.core;
        let c = core.counters();
        for (name, value) in [
            ("packets", c.packets),
            ("messages", c.messages),
            ("book_entries", c.book_entries),
            ("events", c.events),
            ("abandoned_events", c.abandoned_events),
            ("gaps", c.gaps),
            ("lost_packets", c.lost_packets),
            ("held_packets", c.held_packets),
            ("snapshots_applied", c.snapshots_applied),
            ("order_snapshots_applied", c.order_snapshots_applied),
            ("natural_refreshes", c.natural_refreshes),
            ("loops_completed", c.loops_completed),
            ("resets", c.resets),
        ] {
            tell("", name, CounterKind::Counter, value);
        }
        let info = core.recovery_info();
        let up = |state: LineState| u64::from(state == LineState::Up);
        tell("", "instruments", CounterKind::Gauge, info.instruments as u64);
        tell("", "unsettled_instruments", CounterKind::Gauge, info.unsettled as u64);
        tell("", "unsettled_orders", CounterKind::Gauge, info.unsettled_orders as u64);
        tell("", "up", CounterKind::Gauge, up(core.state()));
        for (group, side) in [("line_a.", LineSide::A), ("line_b.", LineSide::B)] {
            let line = core.line_stats(Line::new(Feed::Incremental, side));
            for (name, value) in [
                ("packets", line.packets),
                ("bytes", line.bytes),
                ("first", line.first),
                ("duplicates", line.duplicates),
                ("lost", line.lost),
                ("reordered", line.reordered),
            ] {
                tell(group, name, CounterKind::Counter, value);
            }
            tell(group, "up", CounterKind::Gauge, up(line.state));
        }
        for &reason in Reason::ALL {
            tell("drop.", reason.as_str(), CounterKind::Counter, c.get(reason));
        }
    }

    #[inline]
    fn wants(&self, feed: FeedType) -> bool {
        match feed {
            FeedType::Incremental => true,
            FeedType::Snapshot => self.core.wants(Feed::Snapshot),
            FeedType::Instrument => self.core.wants(Feed::Instrument),
            FeedType::SnapshotMbo => self.core.wants(Feed::OrderSnapshot),
            FeedType::Historical => false,
        }
    }
}

impl ChannelPlan {
    /// The core's settings that follow from this plan.
    pub fn core_config(&self, packet_bytes_max: usize) -> Config {
        let mut white_list = WhiteList::new();
        for id in &self.selection.security_ids {
            white_list = white_list.id(*id);
        }
        for symbol in &self.selection.symbols {
            white_list = white_list.symbol(symbol);
        }
        for group in &self.selection.groups {
            white_list = white_list.group(group);
        }
        for asset in &self.selection.assets {
            white_list = white_list.asset(asset);
        }
        let has = |feed| self.connections.iter().any(|connection| connection.feed == feed);
        Config {
            channel_id: i16::try_from(self.id).ok(),
            lines: 2,
            line_policy: match self.lines {
                LineLayout::Both => LinePolicy::Arbitrate,
                LineLayout::A => LinePolicy::Only(LineSide::A),
                LineLayout::B => LinePolicy::Only(LineSide::B),
                LineLayout::AThenB => LinePolicy::Failover { primary: LineSide::A, backup: LineSide::B },
                LineLayout::BThenA => LinePolicy::Failover { primary: LineSide::B, backup: LineSide::A },
            },
            heartbeat_timeout: self.heartbeat_timeout,
            gap_wait: self.lost_packet_wait,
            gap_packets: self.out_of_order_packets_max as usize,
            max_packet_len: packet_bytes_max,
            instruments: self.instruments_max as usize,
            orders: self.orders,
            order_loop: has(FeedType::SnapshotMbo),
            orders_max: self.orders_max.map_or_else(
                || order_room(self.instruments_max as usize, has(FeedType::SnapshotMbo)),
                |orders| orders as usize,
            ),
            recovery: match self.recovery {
                Recovery::Natural => barewire_feed::Recovery::Natural,
                // Without a snapshot feed there is but one way.
                _ if !has(FeedType::Snapshot) => barewire_feed::Recovery::Natural,
                Recovery::Snapshot => barewire_feed::Recovery::Snapshot,
                Recovery::Either => barewire_feed::Recovery::SnapshotOrNatural,
            },
            definitions: if self.definitions && has(FeedType::Instrument) {
                DefinitionLoop::Fast
            } else {
                DefinitionLoop::Unused
            },
            // A list of groups or symbols cannot be applied to what has no definition.
            undefined_instruments: self.selection.is_all() || !self.selection.security_ids.is_empty(),
            white_list,
            ..Config::default()
        }
    }
}
