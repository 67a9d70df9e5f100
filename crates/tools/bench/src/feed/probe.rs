//! What stands between an engine and a feed channel while it is measured: it reads the clock at t4, the listener at t5.

use barewire_base::Instant;
use barewire_feed::{BookView, Listener, PacketInfo};
use barewire_feed_handler::{Consumer, FeedChannel, Packet};
use barewire_frame::{ClockDomain, StampSource};
use barewire_measure::{Histogram, realtime_ns, stamp};
use barewire_sbe::Message;

/// Which callback is t5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The last message of a packet, as it is handed to the listener, before it is processed.
    Message,
    /// The last book that a packet changed, as it is shown at the end of its event.
    Book,
}

/// Reads the clock in the callback.
#[derive(Debug)]
pub struct Clocked {
    what: What,
    at: Option<Instant>,
    packets: u64,
    callbacks: u64,
}

impl Listener for Clocked {
    #[inline]
    fn on_packet(&mut self, _: &PacketInfo<'_>) {
        self.packets += 1;
    }

    #[inline]
    fn on_message(&mut self, _: &PacketInfo<'_>, message: &Message<'_>) {
        if self.what == What::Message {
            std::hint::black_box(message);
            self.at = Some(stamp());
            self.callbacks += 1;
        }
    }

    #[inline]
    fn on_book(&mut self, book: &BookView<'_>) {
        if self.what == What::Book {
            std::hint::black_box((book.bids().first(), book.offers().first()));
            self.at = Some(stamp());
            self.callbacks += 1;
        }
    }
}

/// Spans of one run.
#[derive(Debug, Default)]
pub struct Spans {
    /// t4 to t5, in ns.
    pub app: Histogram,
    /// t3 to t5, in ns.
    pub stamp: Histogram,
    /// Who took t3. The worst of all packets.
    pub source: Option<StampSource>,
    /// Packets of both lines that came in.
    pub copies: u64,
    /// Packets that were handed to the listener, in order and once.
    pub packets: u64,
    /// Callbacks that were clocked.
    pub callbacks: u64,
    /// Packets whose t3 and t5 cannot both be true ([`span`]): another clock was set meanwhile.
    pub backwards: u64,
    /// Books and messages that the core did not use.
    pub dropped: u64,
}

/// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, in ns, and how far off that may be.
///
/// Both clocks run at one rate, so that the difference changes only when somebody sets the time of day.
pub fn realtime_offset() -> (i128, u64) {
    let reading = || {
        let before = stamp();
        let realtime = realtime_ns();
        let width = stamp().since(before).as_nanos();
        (i128::from(realtime) - i128::from(before.as_nanos() + width / 2), width.div_ceil(2))
    };
    // The narrowest of some: nobody came between its readings.
    (0..16).map(|_| reading()).min_by_key(|(_, error)| *error).unwrap_or_default()
}

/// No packet that is measured arrived so much earlier than its measurement began, in ns.
const EARLIER_NS_MAX: i128 = 1_000_000_000;

/// From t3 to t5, in ns, in a measurement that began at `began`. None where t3 lies behind t5, or long before the begin: the time of
/// day was set to an earlier or a later one, and it may be the old one again when the measurement ends.
pub fn span(t3: i128, t5: Instant, began: Instant) -> Option<u64> {
    let began = i128::from(began.as_nanos());
    u64::try_from(i128::from(t5.as_nanos()) - t3).ok().filter(|_| t3 >= began - EARLIER_NS_MAX)
}

/// A feed channel that is measured.
pub struct Probe {
    channel: FeedChannel<Clocked>,
    first_measured: u32,
    began: Instant,
    offset: i128,
    spans: Spans,
}

impl Probe {
    /// Measures the packets of `channel` from MsgSeqNum `first_measured` on.
    pub fn new(
        what: What,
        channel: impl FnOnce(Clocked) -> Result<FeedChannel<Clocked>, barewire_feed::ConfigError>,
        first_measured: u32,
    ) -> Result<Probe, barewire_feed::ConfigError> {
        let listener = Clocked { what, at: None, packets: 0, callbacks: 0 };
        let (offset, _) = realtime_offset();
        let (channel, began) = (channel(listener)?, stamp());
        Ok(Probe { channel, first_measured, began, offset, spans: Spans::default() })
    }

    /// What was measured.
    pub fn finish(mut self) -> Spans {
        let listener = self.channel.listener();
        self.spans.packets = listener.packets;
        self.spans.callbacks = listener.callbacks;
        self.spans.dropped = self.channel.core().counters().drops().map(|(_, count)| count).sum();
        self.spans
    }
}

impl Consumer for Probe {
    #[inline]
    fn on_packet(&mut self, now: Instant, packet: &Packet<'_>) {
        // What a time-out has shown meanwhile is not this packet's.
        self.channel.listener_mut().at = None;
        let t4 = stamp();
        self.spans.copies += 1;
        self.channel.on_packet(now, packet);
        let Some(t5) = self.channel.listener_mut().at.take() else {
            return;
        };
        let seq = packet.payload.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if seq < self.first_measured {
            return;
        }
        self.spans.app.record(t5.since(t4).as_nanos());
        let t3 = match packet.stamp.clock {
            ClockDomain::Realtime => i128::from(packet.stamp.ns) - self.offset,
            ClockDomain::Monotonic => i128::from(packet.stamp.ns),
            // A card's clock is not read here: nothing relates it to t5.
            ClockDomain::Nic | ClockDomain::Capture => return,
        };
        let worst = self.spans.source.map_or(packet.stamp.source, |source| source.min(packet.stamp.source));
        self.spans.source = Some(worst);
        match span(t3, t5, self.began) {
            Some(ns) => self.spans.stamp.record(ns),
            None => self.spans.backwards += 1,
        }
    }

    #[inline]
    fn on_timeout(&mut self, now: Instant) {
        self.channel.on_timeout(now);
    }

    #[inline]
    fn keep_warm(&mut self, now: Instant) {
        self.channel.keep_warm(now);
    }

    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        self.channel.next_deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_is_told_where_the_time_of_day_was_set() {
        const HOUR: i128 = 3_600_000_000_000;
        let (began, t5) = (Instant::from_nanos(9_000_000_000_000), Instant::from_nanos(9_010_000_000_000));
        let t3 = i128::from(t5.as_nanos()) - 700;
        assert_eq!(span(t3, t5, began), Some(700));
        for set in [5 * HOUR, HOUR, 1_000, -20_000_000_000, -HOUR, -5 * HOUR] {
            assert_eq!(span(t3 + set, t5, began), None, "set by {set} ns");
        }
        // It may have waited at a socket that was open before.
        let early = i128::from(began.as_nanos()) - 1_000_000;
        assert_eq!(span(early, t5, began), Some(10_001_000_000));
        // A machine that has not run for an hour.
        assert_eq!(span(-HOUR, Instant::from_nanos(5_000), Instant::from_nanos(1_000)), None);
    }

    #[test]
    fn the_offset_is_that_of_the_wall_clock_and_stands_still() {
        let (offset, error) = realtime_offset();
        assert!(offset > 0 && error < 1_000_000, "{offset} {error}");
        let (again, _) = realtime_offset();
        assert!((again - offset).abs() < 1_000_000);
        let now = i128::from(stamp().as_nanos()) + offset;
        assert!((now - i128::from(realtime_ns())).abs() < 1_000_000_000);
    }
}
