//! Congestion control by delay, after Swift (Kumar et al., SIGCOMM 2020).
//!
//! Each flow keeps its round-trip delay near a target: below it the window grows by one segment in a round trip, above
//! it the window shrinks in proportion to the excess, once in a round trip. The target is the path's own base delay plus
//! an allowance for queueing, a little more for flows with small windows so that shares even out (flow scaling). A
//! window below one segment is legal and means pacing: many senders into one port share it without loss.
//!
//! Swift runs on hosts that stamp in hardware; here a scheduler, an interrupt or a busy hypervisor looks like a queue. Two
//! rules keep a flow from starving for it:
//! - What counts as a queue is the *standing* delay, the least of a round trip's samples, as in Copa (Arun, Balakrishnan,
//!   NSDI 2018): a queue is in all of them, jitter is not.
//! - Delay alone takes no window below one segment. Loss, marks and time-outs do.

use barewire_base::{Duration, Instant};

/// Bounds and gains. The defaults suit one rack or one cloud zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionConfig {
    /// Queueing delay allowed on top of the base delay. Default 100 us.
    pub target_queue: Duration,
    /// Extra allowance at the smallest window; it falls with the square root of the window. Default 100 us.
    pub flow_scaling_range: Duration,
    /// Segments added in a round trip below target.
    pub additive_increase: f32,
    /// Gain of the decrease.
    pub beta: f32,
    /// Largest cut at once.
    pub max_decrease: f32,
    /// Window of a new flow, segments.
    pub initial_window: f32,
    /// Smallest window, segments.
    pub min_window: f32,
}

impl Default for CongestionConfig {
    fn default() -> Self {
        CongestionConfig {
            target_queue: Duration::from_micros(100),
            flow_scaling_range: Duration::from_micros(100),
            additive_increase: 1.0,
            beta: 0.8,
            max_decrease: 0.5,
            initial_window: 32.0,
            min_window: 0.05,
        }
    }
}

/// Window range over which flow scaling works, segments (Swift, section 3.5).
const SCALE_MIN: f32 = 0.1;
const SCALE_MAX: f32 = 100.0;
/// Segments by which a window below one recovers with each segment that arrives, however late.
const RECOVERY: f32 = 0.1;
/// Time-outs in a row after which the window restarts from its minimum of one.
const RETRIES_RESET: u32 = 5;

/// The window of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    window: f32,
    window_max: f32,
    last_decrease: Instant,
    slow_start: bool,
    standing: Standing,
}

/// The delay that all samples of a round trip have in common.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The least so far.
    least: Duration,
    /// When the first came; `None`: the next one is the first. Not when the last round ended, as a flow may have been idle since.
    since: Option<Instant>,
}

impl Standing {
    /// Takes a sample. True: it is the last of its round.
    fn sample(&mut self, now: Instant, delay: Duration) -> bool {
        let Some(since) = self.since else {
            (self.least, self.since) = (delay, Some(now));
            return false;
        };
        self.least = self.least.min(delay);
        let is_last = now.since(since) >= delay;
        if is_last {
            self.since = None;
        }
        is_last
    }
}

impl Congestion {
    /// A new flow's window, never above `window_max` segments.
    pub fn new(config: &CongestionConfig, window_max: u32) -> Congestion {
        Congestion {
            window: config.initial_window.min(window_max as f32),
            window_max: window_max as f32,
            last_decrease: Instant::ZERO,
            slow_start: true,
            standing: Standing { least: Duration::ZERO, since: None },
        }
    }

    /// Segments that may be in flight.
    #[inline]
    pub fn window(&self) -> f32 {
        self.window
    }

    /// The delay this flow aims at.
    pub fn target(&self, config: &CongestionConfig, base: Duration) -> Duration {
        // alpha / sqrt(w) - alpha / sqrt(w_max), with alpha chosen so that the range is spent at the smallest window.
        let alpha =
            config.flow_scaling_range.as_nanos() as f32 / (1.0 / SCALE_MIN.sqrt() - 1.0 / SCALE_MAX.sqrt());
        let scaled = alpha / self.window.clamp(SCALE_MIN, SCALE_MAX).sqrt() - alpha / SCALE_MAX.sqrt();
        base + config.target_queue + Duration::from_nanos(scaled.max(0.0) as u64)
    }

    /// `acked` segments arrived; one of them took `delay` there and back, without the time the peer held it.
    pub fn on_ack(
        &mut self,
        config: &CongestionConfig,
        now: Instant,
        acked: u32,
        delay: Duration,
        base: Duration,
        window_limited: bool,
    ) {
        let target = self.target(config, base);
        let is_last = self.standing.sample(now, delay);
        if self.standing.least < target {
            // A flow that does not use its window learns nothing about whether more would fit. And doubling in a round trip
            // needs more caution: late samples do not count.
            if !window_limited || (self.slow_start && delay >= target) {
                return;
            }
            let acked = acked as f32;
            self.window += if self.slow_start {
                acked
            } else if self.window >= 1.0 {
                config.additive_increase * acked / self.window
            } else {
                config.additive_increase * acked
            };
            self.window = self.window.min(self.window_max);
            return;
        }
        self.slow_start = false;
        if self.window <= 1.0 {
            self.window = (self.window + RECOVERY * acked as f32).min(1.0);
            return;
        }
        if is_last {
            let standing = self.standing.least;
            let excess = (standing - target).as_nanos() as f32 / standing.as_nanos().max(1) as f32;
            let factor = (1.0 - config.beta * excess).max(1.0 - config.max_decrease);
            self.decrease(config, now, standing, factor.max(1.0 / self.window));
        }
    }

    fn decrease(&mut self, config: &CongestionConfig, now: Instant, rtt: Duration, factor: f32) {
        if now.since(self.last_decrease) < rtt {
            return;
        }
        self.last_decrease = now;
        self.slow_start = false;
        self.window = (self.window * factor).max(config.min_window);
    }

    /// Segments were lost, or the network marked congestion.
    pub fn on_loss(&mut self, config: &CongestionConfig, now: Instant, rtt: Duration) {
        self.decrease(config, now, rtt, 1.0 - config.max_decrease);
    }

    /// The retransmission timer ran out for the `retries`th time in a row.
    pub fn on_timeout(&mut self, config: &CongestionConfig, now: Instant, rtt: Duration, retries: u32) {
        if retries >= RETRIES_RESET {
            self.window = self.window.min(1.0);
            self.slow_start = true;
        } else {
            self.decrease(config, now, rtt, 1.0 - config.max_decrease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_micros(10);

    fn flow() -> (CongestionConfig, Congestion) {
        let config = CongestionConfig::default();
        (config, Congestion::new(&config, 256))
    }

    /// Rounds of `window` samples, each round trip's spread over it.
    fn rounds(cc: &mut Congestion, t: &mut Instant, n: u32, mut delay: impl FnMut() -> Duration) {
        let config = CongestionConfig::default();
        for _ in 0..n {
            let (samples, start) = (cc.window().max(1.0) as u32, *t);
            let mut longest = Duration::ZERO;
            for i in 0..samples {
                let delay = delay();
                longest = longest.max(delay);
                *t = start + Duration::from_nanos(delay.as_nanos() * u64::from(i + 1) / u64::from(samples));
                cc.on_ack(&config, *t, 1, delay, BASE, true);
            }
            *t = start + longest;
        }
    }

    #[test]
    fn below_target_it_grows_above_it_shrinks_once_a_round_trip() {
        let (config, mut cc) = flow();
        let mut t = Instant::from_nanos(1_000_000_000);
        cc.on_ack(&config, t, 8, Duration::from_micros(12), BASE, true);
        assert_eq!(cc.window(), 40.0);
        let late = Duration::from_micros(400);
        t += Duration::from_millis(1);
        rounds(&mut cc, &mut t, 1, || late);
        assert_eq!(cc.window(), 40.0, "late samples beside one that was not");
        rounds(&mut cc, &mut t, 2, || late);
        let twice = cc.window();
        assert!((8.0..25.0).contains(&twice), "at most halved each time: {twice}");
        rounds(&mut cc, &mut t, 10, || late);
        assert!(cc.window() < 4.0, "{}", cc.window());
        let now = cc.window();
        rounds(&mut cc, &mut t, 4, || Duration::from_micros(12));
        let grown = cc.window() - now;
        assert!((2.0..5.0).contains(&grown), "a segment in a round trip after slow start: {grown}");
    }

    /// One sample in eight below the target, the others up to four times as long: no queue does that.
    #[test]
    fn jitter_is_no_queue_but_a_queue_under_jitter_is_one() {
        let (_, mut cc) = flow();
        let mut t = Instant::from_nanos(1_000_000_000);
        let mut prng = barewire_base::Prng::new(7);
        let mut jitter = |queue: u64| Duration::from_micros(queue + 10 + prng.below(800));
        rounds(&mut cc, &mut t, 1000, || jitter(0));
        assert!(cc.window() > 100.0, "{}", cc.window());
        rounds(&mut cc, &mut t, 60, || jitter(500));
        assert!(cc.window() < 5.0, "{}", cc.window());
    }

    #[test]
    fn delay_alone_leaves_one_segment_loss_does_not() {
        let (config, mut cc) = flow();
        let mut t = Instant::from_nanos(1_000_000_000);
        let late = |cc: &mut Congestion, t: &mut Instant| {
            *t += Duration::from_millis(10);
            cc.on_ack(&config, *t, 1, Duration::from_millis(5), BASE, true);
        };
        for _ in 0..100 {
            late(&mut cc, &mut t);
        }
        assert_eq!(cc.window(), 1.0);
        for _ in 0..10 {
            t += Duration::from_millis(10);
            cc.on_loss(&config, t, BASE);
        }
        assert_eq!(cc.window(), config.min_window);
        for _ in 0..10 {
            late(&mut cc, &mut t);
        }
        assert_eq!(cc.window(), 1.0);
    }

    #[test]
    fn an_idle_window_does_not_grow_and_none_leaves_its_bounds() {
        let (config, mut cc) = flow();
        let mut t = Instant::from_nanos(1_000_000_000);
        cc.on_ack(&config, t, 8, Duration::from_micros(12), BASE, false);
        assert_eq!(cc.window(), 32.0);
        for _ in 0..100 {
            t += Duration::from_millis(1);
            cc.on_loss(&config, t, BASE);
        }
        assert_eq!(cc.window(), config.min_window);
        for _ in 0..3000 {
            t += Duration::from_millis(1);
            cc.on_ack(&config, t, 32, Duration::from_micros(12), BASE, true);
        }
        assert_eq!(cc.window(), 256.0);
        cc.on_timeout(&config, t, BASE, RETRIES_RESET);
        assert_eq!(cc.window(), 1.0);
    }

    #[test]
    fn small_windows_get_a_little_more_delay() {
        let (config, mut cc) = flow();
        let big = cc.target(&config, BASE);
        cc.window = 1.0;
        let small = cc.target(&config, BASE);
        assert!(small > big);
        assert!(small <= BASE + config.target_queue + config.flow_scaling_range);
    }
}
