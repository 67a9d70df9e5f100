//! How a sender reacts to congestion notifications: the reaction point of DCQCN (Zhu et al., "Congestion Control for Large-Scale
//! RDMA Deployments", SIGCOMM 2015, section 3.1).
//!
//! Only a queue pair that has been told of congestion has a [`Limiter`], and only until it is back at the rate of the link. Time
//! is caught up with when it next sends or hears: there is no timer of its own.

use barewire_base::{Duration, Instant};

/// Weight of the newest notification in `alpha`, as a shift: g = 1/256.
const G_SHIFT: u32 = 8;
/// `alpha` is a fraction of this: 1.
const ALPHA_ONE: u32 = 1 << 20;
/// A time without a notification after which `alpha` decays, and the rate is raised.
const PERIOD: Duration = Duration::from_micros(55);
/// Bytes after which the rate is raised as well.
const BYTES: u64 = 10_000_000;
/// Times that the rate goes half-way back to where it was, before it is probed beyond that.
const FAST_RECOVERY: u32 = 5;
/// Steps of probing: by time or by bytes, and once both say that there is room.
const ADDITIVE_BPS: u64 = 40_000_000;
const HYPER_BPS: u64 = 400_000_000;
/// The slowest rate: notifications beyond it change nothing.
const SLOWEST_BPS: u64 = 10_000_000;
/// Who has not sent for so long starts afresh.
const FORGOTTEN: Duration = Duration::from_millis(100);
/// The timer that ends a pause is late by up to a tick: as much may be caught up with at once.
const CATCH_UP: Duration = Duration::from_nanos(2 * barewire_wheel::TICK_NS);

/// The rate of one queue pair after congestion.
#[derive(Clone, Copy)]
pub(crate) struct Limiter {
    rate_bps: u64,
    target_bps: u64,
    alpha: u32,
    /// Up to when time has been accounted for.
    since: Instant,
    /// Periods and byte counts since the last cut.
    periods: u32,
    rounds: u32,
    bytes: u64,
    /// Nothing is sent before.
    next_at: Instant,
    /// How long the last packet was.
    gap: Duration,
}

impl Default for Limiter {
    fn default() -> Self {
        Limiter::new(SLOWEST_BPS, Instant::ZERO)
    }
}

impl Limiter {
    /// One at the rate of the link.
    pub(crate) fn new(link_bps: u64, now: Instant) -> Limiter {
        Limiter {
            rate_bps: link_bps,
            target_bps: link_bps,
            alpha: ALPHA_ONE,
            since: now,
            periods: 0,
            rounds: 0,
            bytes: 0,
            next_at: now,
            gap: Duration::ZERO,
        }
    }

    pub(crate) fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// When the next packet may go.
    #[inline]
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// How long the last packet occupies its rate.
    #[inline]
    pub(crate) fn gap(&self) -> Duration {
        self.gap
    }

    /// A notification: the rate is cut by half of `alpha`, and remembered.
    pub(crate) fn congested(&mut self, now: Instant, link_bps: u64) {
        self.pass_time(now, link_bps);
        self.target_bps = self.rate_bps;
        let cut = u128::from(self.rate_bps) * u128::from(self.alpha) / u128::from(2 * ALPHA_ONE);
        self.rate_bps = (self.rate_bps - cut as u64).max(SLOWEST_BPS.min(link_bps));
        self.alpha = self.alpha - (self.alpha >> G_SHIFT) + (ALPHA_ONE >> G_SHIFT);
        (self.periods, self.rounds, self.bytes) = (0, 0, 0);
        self.since = now;
    }

    /// A packet of `len` bytes goes out now. False: the rate of the link is reached again, and the limiter has done its work.
    pub(crate) fn sent(&mut self, now: Instant, len: usize, link_bps: u64) -> bool {
        self.pass_time(now, link_bps);
        self.bytes += len as u64;
        if self.bytes >= BYTES {
            self.bytes -= BYTES;
            self.rounds += 1;
            self.raise(link_bps);
        }
        self.gap = Duration::from_nanos((len as u64 * 8_000_000_000) / self.rate_bps.max(1));
        self.next_at = self.next_at.max(now - CATCH_UP) + self.gap;
        // The half-way steps never quite arrive.
        self.rate_bps < link_bps - link_bps / 64
    }

    fn pass_time(&mut self, now: Instant, link_bps: u64) {
        if now.since(self.since) >= FORGOTTEN {
            *self = Limiter::new(link_bps, now);
            return;
        }
        while now.since(self.since) >= PERIOD {
            self.since += PERIOD;
            self.alpha -= self.alpha >> G_SHIFT;
            self.periods += 1;
            self.raise(link_bps);
        }
    }

    fn raise(&mut self, link_bps: u64) {
        let (most, least) = (self.periods.max(self.rounds), self.periods.min(self.rounds));
        if least > FAST_RECOVERY {
            self.target_bps += HYPER_BPS;
        } else if most > FAST_RECOVERY {
            self.target_bps += ADDITIVE_BPS;
        }
        self.target_bps = self.target_bps.min(link_bps);
        self.rate_bps = (self.rate_bps + self.target_bps) / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: u64 = 40_000_000_000;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + us * 1000)
    }

    #[test]
    fn a_cut_by_half_then_five_steps_half_way_back_then_small_ones() {
        let mut l = Limiter::new(LINK, at(0));
        l.congested(at(0), LINK);
        assert_eq!((l.rate_bps, l.target_bps), (LINK / 2, LINK));
        // alpha stays 1 while notifications come.
        assert_eq!(l.alpha, ALPHA_ONE);
        l.congested(at(50), LINK);
        assert_eq!((l.rate_bps, l.target_bps), (LINK / 4, LINK / 2));
        let mut rate = LINK / 4;
        for step in 1..=5 {
            l.pass_time(at(50 + 55 * step), LINK);
            rate = (rate + LINK / 2) / 2;
            assert_eq!((l.rate_bps, l.target_bps), (rate, LINK / 2), "step {step}");
        }
        l.pass_time(at(50 + 55 * 6), LINK);
        assert_eq!(l.target_bps, LINK / 2 + ADDITIVE_BPS);
        assert_eq!(l.rate_bps, (rate + LINK / 2 + ADDITIVE_BPS) / 2);
    }

    #[test]
    fn alpha_decays_in_quiet_so_that_a_rare_notification_cuts_little() {
        let mut l = Limiter::new(LINK, at(0));
        l.congested(at(0), LINK);
        // 1000 periods of 55 us: alpha = (255/256)^1000 = 0.02. No pause between sends is long enough to be forgotten.
        for ms in 1..=55 {
            l.pass_time(at(ms * 1000), LINK);
        }
        let alpha = f64::from(l.alpha) / f64::from(ALPHA_ONE);
        assert!((0.015..0.03).contains(&alpha), "{alpha}");
        let before = l.rate_bps;
        l.congested(at(55_001), LINK);
        let cut = 1.0 - l.rate_bps as f64 / before as f64;
        assert!((0.005..0.02).contains(&cut), "{cut}");
    }

    #[test]
    fn bytes_raise_it_as_well_and_both_together_faster() {
        let mut l = Limiter::new(LINK, at(0));
        for i in 0..4 {
            l.congested(at(i), LINK);
        }
        let target = l.target_bps;
        for _ in 0..6 {
            l.sent(at(4), BYTES as usize, LINK);
        }
        assert_eq!((l.rounds, l.target_bps), (6, target + ADDITIVE_BPS));
        l.pass_time(at(4 + 55 * 6), LINK);
        assert_eq!(l.target_bps, target + 6 * ADDITIVE_BPS + HYPER_BPS);
    }

    #[test]
    fn packets_are_as_far_apart_as_the_rate_says() {
        let mut l = Limiter::new(LINK, at(0));
        for i in 0..200 {
            l.congested(at(i), LINK);
        }
        assert_eq!(l.rate_bps, SLOWEST_BPS);
        l.next_at = at(200);
        assert!(l.sent(at(200), 1250, LINK));
        // 10,000 bits at 10 Mbit/s.
        assert_eq!(l.next_at, at(1200));
        // Whoever is silent for long is at the rate of the link again.
        assert!(!l.sent(at(200_000), 1250, LINK));
    }
}
