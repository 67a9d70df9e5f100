//! Round-trip time: estimate, floor, and the time-outs that follow from them.

use crate::sender::{before, stamp_of, units};
use barewire_base::{Duration, Instant};
use barewire_wire::msg::STAMP_UNIT_NS;

/// How long a floor is remembered: a route may change for the worse.
const FLOOR_WINDOW: Duration = Duration::from_secs(10);
/// Moments in a row whose samples lower the floor.
const MOMENTS_ENOUGH: u8 = 4;
/// Long segments alone in flight whose least tells a slow link from a queue that others' first windows left.
const ALONE_ENOUGH: u8 = 8;
/// Packets to measure from that a peer cannot all have missed.
const TOLD_ENOUGH: u8 = 2;

/// Estimates after RFC 6298 section 2 from echoed stamps, one sample for each acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: Duration,
    variation: Duration,
    floor: Duration,
    floor_next: Duration,
    floor_until: Instant,
    /// The longest of the samples below the floor that came in a row, the last one's moment, and the moments.
    doubted: Duration,
    doubted_at: Instant,
    doubted_seen: u8,
    /// The floor of long segments that were in flight alone: what a slow link takes its time to send is no queue.
    alone: Duration,
    alone_next: Duration,
    /// How many of these there were, up to [`ALONE_ENOUGH`].
    alone_seen: u8,
    /// The longest time-out lately: what the peer, which may have heard nothing since, still waits for.
    slowest: Duration,
    slowest_next: Duration,
    /// How long a peer waits that has not measured yet; zero once this one has shown that it did.
    unmeasured: Duration,
    /// Stamp of a packet of ours from which the peer measures, until it shows what became of that.
    told: Option<u32>,
    /// Such packets that are older than what the peer has heard.
    passed: u8,
    has_sample: bool,
    /// What left here then the peer has heard, or its flow began then: see [`may_echo`](Self::may_echo).
    heard: Instant,
}

impl Rtt {
    pub(crate) fn new(initial: Duration) -> Rtt {
        Rtt {
            smoothed: initial,
            variation: initial.div(2),
            floor: Duration::MAX,
            floor_next: Duration::MAX,
            floor_until: Instant::ZERO,
            doubted: Duration::ZERO,
            doubted_at: Instant::ZERO,
            doubted_seen: 0,
            alone: Duration::MAX,
            alone_next: Duration::MAX,
            alone_seen: 0,
            slowest: Duration::ZERO,
            slowest_next: Duration::ZERO,
            unmeasured: initial.saturating_mul(3),
            told: None,
            passed: 0,
            has_sample: false,
            heard: Instant::ZERO,
        }
    }

    /// The flow begins: nothing left before.
    pub(crate) fn begins(self, now: Instant) -> Rtt {
        Rtt { heard: now, ..self }
    }

    /// A segment that left at `sent`, and only then, has arrived. How long ago it left: a round trip, and what the peer waited before it
    /// said so.
    #[inline]
    pub(crate) fn is_heard(&mut self, now: Instant, sent: u32) -> Duration {
        let ago = Duration::from_nanos(u64::from(stamp_of(now).wrapping_sub(sent).max(1)) * STAMP_UNIT_NS);
        self.heard = self.heard.max(Instant::from_nanos(now.as_nanos().saturating_sub(ago.as_nanos())));
        ago
    }

    /// Whether a peer that tells the truth may echo this stamp. What it echoes is the latest that it has heard, so nothing older than
    /// what it acknowledges: whoever could choose would be taken for one behind a long path, where neither delay nor loss (once in a round
    /// trip) count for much. One that heard packets out of order may do so, and is not measured by that one.
    #[inline]
    pub(crate) fn may_echo(&self, now: Instant, stamp: u32) -> bool {
        // The moment was rounded once more than the stamp.
        stamp_of(now).wrapping_sub(stamp) <= units(now.since(self.heard)).saturating_add(1)
    }

    pub(crate) fn sample(&mut self, now: Instant, rtt: Duration, alone: bool) {
        if let Some(sure) = self.sure(now, rtt) {
            self.take_floor(now, sure, alone);
        }
        if !self.has_sample {
            self.has_sample = true;
            self.smoothed = rtt;
            self.variation = rtt.div(2);
            return;
        }
        let (s, r) = (self.smoothed.as_nanos(), rtt.as_nanos());
        let v = self.variation.as_nanos();
        self.variation = Duration::from_nanos(v - v / 4 + s.abs_diff(r) / 4);
        self.smoothed = Duration::from_nanos(s - s / 8 + r / 8);
        self.slowest_next = self.slowest_next.max(self.timeout());
    }

    /// What a sample says of the floor, if anything. The time is read before packets are taken from the port: who loses the core in
    /// between takes packets that came later for ones that came then, and all samples of that moment are too short by any amount.
    /// So what is below the floor counts when several moments in a row say so.
    fn sure(&mut self, now: Instant, rtt: Duration) -> Option<Duration> {
        if self.floor == Duration::MAX || rtt >= self.floor {
            self.doubted_seen = 0;
            return Some(rtt);
        }
        if self.doubted_seen == 0 {
            (self.doubted, self.doubted_at, self.doubted_seen) = (rtt, now, 1);
            return None;
        }
        self.doubted = self.doubted.max(rtt);
        if now != self.doubted_at {
            (self.doubted_at, self.doubted_seen) = (now, self.doubted_seen + 1);
        }
        if self.doubted_seen < MOMENTS_ENOUGH {
            return None;
        }
        self.doubted_seen = 0;
        Some(self.doubted)
    }

    fn take_floor(&mut self, now: Instant, rtt: Duration, alone: bool) {
        if now >= self.floor_until {
            self.floor = self.floor_next.min(rtt);
            self.floor_next = rtt;
            self.alone = self.alone_next;
            self.alone_next = Duration::MAX;
            self.slowest = std::mem::take(&mut self.slowest_next);
            self.floor_until = now + FLOOR_WINDOW;
        }
        if alone {
            self.alone = self.alone.min(rtt);
            self.alone_next = self.alone_next.min(rtt);
            self.alone_seen = (self.alone_seen + 1).min(ALONE_ENOUGH);
        }
        self.floor = self.floor.min(rtt);
        self.floor_next = self.floor_next.min(rtt);
    }

    /// The longest [time-out](Self::timeout) of the last ten to twenty seconds, at either end.
    pub(crate) fn slowest(&self) -> Duration {
        self.slowest.max(self.slowest_next).max(self.unmeasured)
    }

    /// A packet with an echo leaves at `stamp`: with it, the peer measures.
    #[inline]
    pub(crate) fn tells(&mut self, stamp: u32) {
        if self.unmeasured != Duration::ZERO && self.told.is_none() {
            self.told = Some(stamp);
        }
    }

    /// The peer echoes `stamp`: it has measured if that packet had an echo. Of a later one it is likely, as it is likely that the one
    /// with the echo arrived before: twice that is enough.
    #[inline]
    pub(crate) fn is_told(&mut self, stamp: u32) {
        let Some(told) = self.told.filter(|told| !before(stamp, *told)) else { return };
        self.told = None;
        self.passed += 1;
        if told == stamp || self.passed == TOLD_ENOUGH {
            self.unmeasured = Duration::ZERO;
        }
    }

    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The least seen lately: the path without queues. The smoothed value while there is no sample.
    pub(crate) fn floor(&self) -> Duration {
        if self.has_sample { self.floor } else { self.smoothed }
    }

    /// The delay that the flow cannot avoid. That is the floor, taken from short packets too, unless a long segment all
    /// alone takes longer than that and `allowance`, more than other flows' queues would: then the link is slow, and a window that tried to get below
    /// would starve. (Where it is not, the floor of short packets is better: flows that share a queue measure the same.)
    pub(crate) fn base(&self, allowance: Duration) -> Duration {
        let floor = self.floor();
        let is_slow =
            self.alone_seen == ALONE_ENOUGH && self.alone != Duration::MAX && self.alone > floor + allowance;
        if is_slow { self.alone } else { floor }
    }

    /// Retransmission time-out, before the peer's acknowledgement delay and any back-off.
    pub(crate) fn timeout(&self) -> Duration {
        self.smoothed + self.variation.saturating_mul(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_has_measured_is_waited_for_no_longer() {
        let mut r = Rtt::new(Duration::from_millis(5));
        r.is_told(7);
        r.tells(10);
        r.tells(12);
        r.is_told(9);
        assert_eq!(r.slowest(), Duration::from_millis(15), "it has not heard it yet");
        // It heard a later packet: this one may be lost.
        r.is_told(12);
        assert_eq!(r.slowest(), Duration::from_millis(15));
        let mut other = r;
        // The very packet, or another later one.
        r.tells(u32::MAX);
        r.is_told(u32::MAX);
        assert_eq!(r.slowest(), Duration::ZERO);
        other.tells(u32::MAX);
        other.is_told(3);
        assert_eq!(other.slowest(), Duration::ZERO);
    }

    #[test]
    fn no_echo_is_older_than_what_the_peer_is_known_to_have_heard() {
        let second = Duration::from_secs(1);
        let begin = Instant::from_nanos(1_234_567_890_123);
        let mut r = Rtt::new(Duration::from_millis(5)).begins(begin);
        let mut now = begin + Duration::from_micros(7);
        let (first, before_it) = (stamp_of(begin), stamp_of(begin).wrapping_sub(2));
        assert!(r.may_echo(now, first) && r.may_echo(now, stamp_of(now)));
        assert!(!r.may_echo(now, before_it), "older than the flow");
        // Longer than the circle of stamps, with and without something heard meanwhile.
        for step in [1, 20, 40, 100] {
            now += second.saturating_mul(step);
            let sent = stamp_of(now);
            now += Duration::from_nanos(12_345);
            assert!(r.may_echo(now, sent), "{step}");
            if step != 40 {
                r.is_heard(now, sent);
                assert!(r.may_echo(now, sent), "{step}");
                assert!(!r.may_echo(now, sent.wrapping_sub(2)), "{step}");
            }
            // An older one that is acknowledged later says no more.
            let heard = r.heard;
            r.is_heard(now, sent.wrapping_sub(1000));
            assert!(r.heard == heard || step == 40);
        }
    }

    #[test]
    fn a_moment_that_was_read_too_early_makes_no_floor() {
        let mut r = Rtt::new(Duration::from_millis(5));
        let mut now = Instant::from_nanos(1);
        let true_rtt = Duration::from_micros(600);
        for i in 0..1000_u64 {
            now += Duration::from_micros(100);
            if i % 10 == 5 || i % 100 == 6 {
                // A burst that came while the engine had no core, which it finds with the time from before.
                for late in [500, 550, 590] {
                    r.sample(now, true_rtt - Duration::from_micros(late), true);
                }
            } else {
                r.sample(now, true_rtt + Duration::from_micros(i % 7), true);
            }
            assert!((600..607).contains(&(r.floor().as_nanos() / 1000)), "{i}: {:?}", r.floor());
            assert!(r.base(Duration::from_micros(100)) >= true_rtt);
        }
    }

    #[test]
    fn a_route_that_became_shorter_is_believed_at_the_fourth_moment() {
        let mut r = Rtt::new(Duration::from_millis(5));
        let mut now = Instant::from_nanos(1);
        for us in [600, 600, 100, 110, 100, 105] {
            now += Duration::from_millis(1);
            r.sample(now, Duration::from_micros(us), false);
        }
        assert_eq!(r.floor(), Duration::from_micros(110));
    }

    #[test]
    fn estimates_follow_the_samples() {
        let mut r = Rtt::new(Duration::from_millis(5));
        let mut now = Instant::from_nanos(1);
        for _ in 0..100 {
            now += Duration::from_millis(1);
            r.sample(now, Duration::from_micros(10), false);
        }
        assert_eq!(r.smoothed(), Duration::from_micros(10));
        assert!(r.timeout() < Duration::from_micros(12));
        for _ in 0..100 {
            now += Duration::from_millis(1);
            r.sample(now, Duration::from_micros(500), true);
        }
        assert_eq!(r.floor(), Duration::from_micros(10));
        assert_eq!(r.base(Duration::from_micros(100)), Duration::from_micros(500));
        assert_eq!(r.base(Duration::from_micros(490)), Duration::from_micros(10));
        assert!(r.smoothed() > Duration::from_micros(490));
        now += Duration::from_secs(25);
        r.sample(now, Duration::from_micros(500), false);
        now += Duration::from_secs(11);
        r.sample(now, Duration::from_micros(500), false);
        assert_eq!(r.floor(), Duration::from_micros(500), "an old floor is forgotten");
    }
}
