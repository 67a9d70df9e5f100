//! A node: one protocol stack, and the clock on its wall.

use crate::world::START;
use barewire_base::{Instant, Prng};
use barewire_frame::Frame;
use std::any::Any;

/// A protocol stack in the world. The world calls, the node never waits: after every call it is asked to transmit until
/// it has nothing more, and then for its next deadline.
///
/// `now` is the node's own clock ([`NodeClock`]). Its time never goes back, and deadlines are answered in it.
pub trait Node: Any {
    /// A frame has arrived; [`Frame::port`] says on which of the node's links, in the order they were connected.
    fn handle_frame(&mut self, now: Instant, frame: Frame);

    /// The deadline of [`poll_timeout`](Node::poll_timeout) has come.
    fn handle_timeout(&mut self, now: Instant);

    /// The next frame to send, if any; it leaves by the link that its [`Frame::port`] names (a fresh frame: 0).
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame>;

    /// When [`handle_timeout`](Node::handle_timeout) is to be called. A deadline in the past means now.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Names a node of one world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) usize);

/// What happened to a node's frames outside of any link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeStats {
    /// Frames sent to a port that has no link.
    pub unrouted: u64,
    /// Calls of [`Node::handle_timeout`].
    pub timeouts: u64,
}

/// How a node's clock differs from the world's: it shows `t + offset + drift * (t - start)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeClock {
    /// Ahead of the world (positive) or behind it when the world starts, in nanoseconds. Readings stop at zero.
    pub offset_ns: i64,
    /// Gained (positive) or lost nanoseconds per second; held within half a second per second.
    pub drift_ppb: i64,
}

const PPB: i128 = 1_000_000_000;

impl NodeClock {
    /// A clock as two machines' may differ: started up to an hour apart, up to 100 ppm too fast or too slow.
    pub fn random(prng: &mut Prng) -> NodeClock {
        NodeClock {
            offset_ns: prng.below(3_600_000_000_000) as i64,
            drift_ppb: prng.below(200_001) as i64 - 100_000,
        }
    }

    fn speed(self) -> i128 {
        PPB + i128::from(self.drift_ppb.clamp(-500_000_000, 500_000_000))
    }

    /// What the node reads when the world's time is `at`.
    pub fn local(self, at: Instant) -> Instant {
        if self == NodeClock::default() {
            return at;
        }
        let start = i128::from(START.as_nanos());
        let elapsed = i128::from(at.as_nanos()) - start;
        clamp(start + i128::from(self.offset_ns) + (elapsed * self.speed()).div_euclid(PPB))
    }

    /// The earliest world time at which the node reads `local` or later.
    pub fn world(self, local: Instant) -> Instant {
        if self == NodeClock::default() {
            return local;
        }
        let start = i128::from(START.as_nanos());
        let shown = i128::from(local.as_nanos()) - start - i128::from(self.offset_ns);
        let speed = self.speed();
        clamp(start + (shown * PPB + speed - 1).div_euclid(speed))
    }
}

fn clamp(ns: i128) -> Instant {
    Instant::from_nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn offset_and_drift_add_up() {
        let clock = NodeClock { offset_ns: 250, drift_ppb: 100_000 };
        assert_eq!(clock.local(START), Instant::from_nanos(1_000_000_250));
        // Ten seconds at 100 ppm gain a millisecond.
        assert_eq!(clock.local(Instant::from_nanos(11_000_000_000)), Instant::from_nanos(11_001_000_250));
        let behind = NodeClock { offset_ns: -5_000_000_000, drift_ppb: 0 };
        assert_eq!(behind.local(START), Instant::ZERO);
    }

    proptest! {
        #[test]
        fn a_deadline_is_met_and_not_a_nanosecond_early(
            offset_ns in -900_000_000i64..i64::MAX / 4, drift_ppb in -600_000_000i64..600_000_000,
            after in 0u64..1 << 50,
        ) {
            let clock = NodeClock { offset_ns, drift_ppb };
            let deadline = clock.local(START) + barewire_base::Duration::from_nanos(after);
            let at = clock.world(deadline);
            prop_assert!(clock.local(at) >= deadline);
            prop_assert!(clock.local(Instant::from_nanos(at.as_nanos() - 1)) < deadline);
        }
    }
}
