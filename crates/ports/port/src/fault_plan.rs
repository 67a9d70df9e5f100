//! The decisions of fault injection, without a port: what happens to the next frame, and when it arrives.
//!
//! A [`FaultPlan`] is fed the frames of one direction, one [`decide`](FaultPlan::decide) each, in order. It draws from
//! its own seeded generators only, one for each kind of fault, so that switching one fault on leaves the draws of the
//! others as they were: the same seed and the same calls give the same decisions on every machine. The fault port,
//! the lab's link node and labs in virtual time share it. The simulator's own links have a model of their own
//! (`sim/link`), which draws from the world's generator.

use barewire_base::{Duration, Instant, Prng};
use std::collections::VecDeque;

/// Largest rate that can be asked for: above it one byte takes less than a thousandth of a nanosecond.
pub const RATE_BPS_MAX: u64 = 8_000_000_000_000;

/// Most frames that may be let wait: the queue for them is allocated beforehand.
pub const LIMIT_FRAMES_MAX: u32 = 1 << 20;

/// The two-state loss model of Gilbert (1960) and Elliott (1963), as probabilities from 0 to 1. The state may change before each frame is
/// judged. Who uses the model draws: with which generator, and whether a probability of zero draws, decides what a seed replays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Chance to turn bad, per frame in the good state.
    pub to_bad: f64,
    /// Chance to turn good, per frame in the bad state: one over the mean length of a burst in frames.
    pub to_good: f64,
    /// Loss in the good state.
    pub loss_good: f64,
    /// Loss in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// The chance that the state changes.
    #[inline]
    pub fn turn(&self, is_bad: bool) -> f64 {
        if is_bad { self.to_good } else { self.to_bad }
    }

    /// The chance that a frame is lost.
    #[inline]
    pub fn loss(&self, is_bad: bool) -> f64 {
        if is_bad { self.loss_bad } else { self.loss_good }
    }

    /// Whether all four are probabilities.
    pub fn is_valid(&self) -> bool {
        [self.to_bad, self.to_good, self.loss_good, self.loss_bad].iter().all(|p| (0.0..=1.0).contains(p))
    }
}

/// A window in which nothing passes, counted from the first frame that the plan sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it starts.
    pub start: Duration,
    /// How long it lasts.
    pub length: Duration,
    /// From start to next start; zero: it happens once.
    pub every: Duration,
}

/// What one direction suffers. The default suffers nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSettings {
    /// Probability that a frame is lost, each by itself.
    pub loss: f64,
    /// Loss in bursts, beside `loss`.
    pub burst_loss: Option<GilbertElliott>,
    /// Probability that a frame is held back while later ones pass.
    pub reorder: f64,
    /// A held frame goes after this many later ones have gone; zero: by time only.
    pub reorder_gap: u32,
    /// A held frame goes after this time at the latest.
    pub reorder_hold: Duration,
    /// Probability that a frame arrives twice.
    pub duplicate: f64,
    /// Probability that bits of a frame are flipped.
    pub corrupt: f64,
    /// Time that every frame is under way.
    pub delay: Duration,
    /// Added to `delay`, evenly drawn from zero to this. Frames do not overtake each other by it; `reorder` does that.
    pub jitter: Duration,
    /// Bits of frame (no preamble, no FCS) that pass in a second; zero: no limit.
    pub rate_bps: u64,
    /// Bytes that may pass at once after a pause: the depth of the token bucket.
    pub rate_burst_bytes: u32,
    /// Frames that may wait for the rate, and, unless `flight_frames` says another number, be under way in a port that
    /// carries the decisions out. More are lost.
    pub limit_frames: u32,
    /// Frames that may be under way in a port that carries the decisions out, those that wait included; zero: as many as
    /// `limit_frames`. A long delay with a short queue needs it.
    pub flight_frames: u32,
    /// Probability that an ECN-capable packet is marked Congestion Experienced.
    pub ecn: f64,
    /// An ECN-capable packet is marked when at least this many frames wait for the rate before it; zero: never.
    pub ecn_frames: u32,
    /// A window in which everything is lost.
    pub outage: Option<Outage>,
}

impl Default for FaultSettings {
    fn default() -> Self {
        FaultSettings {
            loss: 0.0,
            burst_loss: None,
            reorder: 0.0,
            reorder_gap: 3,
            reorder_hold: Duration::from_millis(1),
            duplicate: 0.0,
            corrupt: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bps: 0,
            rate_burst_bytes: 16 * 1024,
            limit_frames: 1024,
            flight_frames: 0,
            ecn: 0.0,
            ecn_frames: 0,
            outage: None,
        }
    }
}

impl FaultSettings {
    /// Whether frames pass untouched.
    pub fn is_none(&self) -> bool {
        self.loss <= 0.0
            && self.burst_loss.is_none()
            && self.reorder <= 0.0
            && self.duplicate <= 0.0
            && self.corrupt <= 0.0
            && self.delay == Duration::ZERO
            && self.jitter == Duration::ZERO
            && self.rate_bps == 0
            && self.ecn <= 0.0
            && self.outage.is_none()
    }

    /// Frames that may be under way in a port that carries the decisions out.
    pub fn flight_limit(&self) -> u32 {
        if self.flight_frames == 0 { self.limit_frames } else { self.flight_frames }
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// The setting that is out of bounds, and the bounds.
    pub fn check(&self) -> Result<(), &'static str> {
        let chance = |p: f64| (0.0..=1.0).contains(&p);
        match () {
            () if !chance(self.loss) => Err("loss must be from 0 to 1"),
            () if !chance(self.reorder) => Err("reorder must be from 0 to 1"),
            () if !chance(self.duplicate) => Err("duplicate must be from 0 to 1"),
            () if !chance(self.ecn) => Err("ecn must be from 0 to 1"),
            () if !chance(self.corrupt) => Err("corrupt must be from 0 to 1"),
            () if self.burst_loss.is_some_and(|model| !model.is_valid()) => {
                Err("burst_p, burst_r, burst_good_loss and burst_bad_loss must be from 0 to 1")
            }
            () if self.rate_bps > RATE_BPS_MAX => Err("rate_bps must be at most 8e12"),
            () if !(1..=LIMIT_FRAMES_MAX).contains(&self.limit_frames) => {
                Err("limit_frames must be from 1 to 1048576")
            }
            () if self.flight_frames > LIMIT_FRAMES_MAX => Err("flight_frames must be at most 1048576"),
            () => Ok(()),
        }
    }
}

/// Bits to flip, drawn when the decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    seed: u64,
    bits: u8,
}

impl Corruption {
    /// How many bits are flipped: one in three of four cases, at most eight.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Flips them; each is another bit. Frames shorter than that many bits lose fewer.
    pub fn apply(&self, data: &mut [u8]) {
        let total = data.len() as u64 * 8;
        let mut draw = Prng::new(self.seed);
        let mut flipped = [u64::MAX; 8];
        for i in 0..usize::from(self.bits).min(total as usize) {
            let mut at = draw.below(total);
            // A second flip of the same bit would undo the first.
            while flipped[..i].contains(&at) {
                at = (at + 1) % total;
            }
            flipped[i] = at;
            data[(at / 8) as usize] ^= 1 << (at % 8);
        }
    }
}

/// How and when a frame arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it arrives; for a frame that is held back, the latest time.
    pub at: Instant,
    /// Held back: it arrives as soon as this many later frames have (zero: never so), or at `at`.
    pub held_for: Option<u32>,
    /// A second copy arrives at this time.
    pub copy_at: Option<Instant>,
    /// Bits that arrive flipped, in both copies.
    pub corruption: Option<Corruption>,
    /// To be marked Congestion Experienced, if its packet is ECN-capable.
    pub mark: bool,
}

/// What happens to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is lost on the way.
    Lost,
    /// It finds the queue before the rate limit full.
    QueueFull,
    /// It arrives.
    Deliver(Delivery),
}

/// What a plan has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// Frames judged.
    pub seen: u64,
    /// Lost by `loss` or in a burst.
    pub lost: u64,
    /// Lost in an outage.
    pub outage: u64,
    /// Lost because too many waited for the rate.
    pub queue_full: u64,
    /// Arrived with flipped bits.
    pub corrupted: u64,
    /// Arrived twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Marked Congestion Experienced. Counted by who carries the decisions out: a plan does not know what is ECN-capable.
    pub marked: u64,
    /// Lost because too many were under way. Counted by who carries the decisions out.
    pub flight_full: u64,
}

/// The decisions for one direction of a link.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    settings: FaultSettings,
    none: bool,
    loss: Prng,
    burst: Prng,
    reorder: Prng,
    duplicate: Prng,
    corrupt: Prng,
    jitter: Prng,
    ecn: Prng,
    in_bad_state: bool,
    origin: Option<Instant>,
    /// When the frame decided last arrives: none may overtake it unless reordered.
    last_at: Instant,
    /// When the rate limit has worked off what it accepted (the theoretical arrival time of the token bucket).
    busy_until: u64,
    /// When frames that wait for the rate leave, oldest first. Never grows beyond `limit_frames`.
    waiting: VecDeque<Instant>,
    stats: FaultStats,
}

impl FaultPlan {
    /// A plan that replays from `seed`. Allocates all it ever needs.
    ///
    /// # Errors
    /// As [`FaultSettings::check`].
    pub fn new(settings: FaultSettings, seed: u64) -> Result<FaultPlan, &'static str> {
        settings.check()?;
        let mut root = Prng::new(seed);
        let waiting = if settings.rate_bps > 0 { settings.limit_frames as usize } else { 0 };
        Ok(FaultPlan {
            none: settings.is_none(),
            loss: root.fork(),
            burst: root.fork(),
            reorder: root.fork(),
            duplicate: root.fork(),
            corrupt: root.fork(),
            jitter: root.fork(),
            ecn: root.fork(),
            in_bad_state: false,
            origin: None,
            last_at: Instant::ZERO,
            busy_until: 0,
            waiting: VecDeque::with_capacity(waiting),
            stats: FaultStats::default(),
            settings,
        })
    }

    /// What the plan was made of.
    pub fn settings(&self) -> &FaultSettings {
        &self.settings
    }

    /// Whether frames pass untouched, so that asking can be skipped.
    pub fn is_none(&self) -> bool {
        self.none
    }

    /// What it has done so far.
    pub fn stats(&self) -> FaultStats {
        self.stats
    }

    /// Decides about the next frame, of `len` bytes, that enters the link at `now`. Calls are in the order of the frames,
    /// and `now` does not go back.
    pub fn decide(&mut self, now: Instant, len: usize) -> Decision {
        self.stats.seen += 1;
        if self.in_outage(now) {
            self.stats.outage += 1;
            return Decision::Lost;
        }
        // Each draws whatever the other says, so that the two sequences stay independent.
        let lost = self.loss.chance(self.settings.loss);
        let lost_in_burst = self.in_burst();
        if lost || lost_in_burst {
            self.stats.lost += 1;
            return Decision::Lost;
        }
        let Some((left, waiting)) = self.pass_rate(now, len) else {
            self.stats.queue_full += 1;
            return Decision::QueueFull;
        };
        let drawn = self.ecn.chance(self.settings.ecn);
        let mark = drawn || (self.settings.ecn_frames > 0 && waiting >= self.settings.ecn_frames as usize);
        let mut jitter = || match self.settings.jitter.as_nanos() {
            0 => Duration::ZERO,
            ns => Duration::from_nanos(self.jitter.below(ns.saturating_add(1))),
        };
        let at = (left + self.settings.delay + jitter()).max(self.last_at);
        self.last_at = at;
        let copy_at = self.duplicate.chance(self.settings.duplicate).then(|| {
            self.stats.duplicated += 1;
            let copy_at = (left + self.settings.delay + jitter()).max(at);
            self.last_at = copy_at;
            copy_at
        });
        let held = self.reorder.chance(self.settings.reorder);
        self.stats.reordered += u64::from(held);
        let corruption = self.corrupt.chance(self.settings.corrupt).then(|| {
            self.stats.corrupted += 1;
            let draw = self.corrupt.next_u64();
            // Two low zero bits, one time in four, add a bit; the rest of the word stays random for the seed.
            let bits = 1 + (draw.trailing_zeros() / 2).min(7) as u8;
            Corruption { seed: draw.rotate_left(17), bits }
        });
        Decision::Deliver(Delivery {
            at: if held { at + self.settings.reorder_hold } else { at },
            held_for: held.then_some(self.settings.reorder_gap),
            copy_at,
            corruption,
            mark,
        })
    }

    fn in_outage(&mut self, now: Instant) -> bool {
        let Some(outage) = self.settings.outage else { return false };
        let origin = *self.origin.get_or_insert(now);
        let mut t = now.since(origin).as_nanos();
        let (start, every) = (outage.start.as_nanos(), outage.every.as_nanos());
        if t < start {
            return false;
        }
        t -= start;
        if every > 0 {
            t %= every;
        }
        t < outage.length.as_nanos()
    }

    fn in_burst(&mut self) -> bool {
        let Some(model) = self.settings.burst_loss else { return false };
        // Two draws a frame, always: the sequence does not depend on the state.
        let (change, loss) = (self.burst.unit(), self.burst.unit());
        self.in_bad_state ^= change < model.turn(self.in_bad_state);
        loss < model.loss(self.in_bad_state)
    }

    /// When a frame leaves the rate limit, and how many wait before it; `None` when too many do.
    fn pass_rate(&mut self, now: Instant, len: usize) -> Option<(Instant, usize)> {
        let rate = self.settings.rate_bps;
        if rate == 0 {
            return Some((now, 0));
        }
        while self.waiting.front().is_some_and(|&leaves| leaves <= now) {
            self.waiting.pop_front();
        }
        let time_of = |bytes: u64| {
            let ns = u128::from(bytes) * 8_000_000_000 / u128::from(rate);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        // A bucket that is full `now` has been empty no later than its depth ago.
        let depth = time_of(u64::from(self.settings.rate_burst_bytes));
        let busy_until = self.busy_until.max(now.as_nanos()).saturating_add(time_of(len as u64));
        let leaves = Instant::from_nanos(busy_until.saturating_sub(depth)).max(now);
        let waiting = self.waiting.len();
        if leaves > now {
            if self.waiting.len() >= self.settings.limit_frames as usize {
                return None;
            }
            self.waiting.push_back(leaves);
        }
        self.busy_until = busy_until;
        Some((leaves, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(settings: FaultSettings, seed: u64) -> FaultPlan {
        FaultPlan::new(settings, seed).unwrap()
    }

    fn run(plan: &mut FaultPlan, frames: u64, gap_ns: u64, len: usize) -> Vec<Decision> {
        (0..frames).map(|i| plan.decide(Instant::from_nanos(i * gap_ns), len)).collect()
    }

    fn lost(d: &Decision) -> bool {
        *d == Decision::Lost
    }

    fn at(d: &Decision) -> u64 {
        match d {
            Decision::Deliver(d) => d.at.as_nanos(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_asked_for_is_nothing_done() {
        let mut p = plan(FaultSettings::default(), 1);
        assert!(p.is_none());
        for (i, d) in run(&mut p, 100, 10, 60).into_iter().enumerate() {
            let at = Instant::from_nanos(i as u64 * 10);
            let expected = Delivery { at, held_for: None, copy_at: None, corruption: None, mark: false };
            assert_eq!(d, Decision::Deliver(expected));
        }
        assert_eq!(p.stats(), FaultStats { seen: 100, ..FaultStats::default() });
    }

    #[test]
    fn a_seed_replays_and_another_does_not() {
        let settings = FaultSettings {
            loss: 0.1,
            reorder: 0.1,
            duplicate: 0.1,
            corrupt: 0.1,
            ..FaultSettings::default()
        };
        let first = run(&mut plan(settings.clone(), 7), 2000, 10, 60);
        assert_eq!(first, run(&mut plan(settings.clone(), 7), 2000, 10, 60));
        assert_ne!(first, run(&mut plan(settings, 8), 2000, 10, 60));
    }

    #[test]
    fn one_fault_does_not_shift_another() {
        let loss = FaultSettings { loss: 0.2, ..FaultSettings::default() };
        let more = FaultSettings {
            duplicate: 0.5,
            corrupt: 0.5,
            reorder: 0.5,
            jitter: Duration::from_micros(1),
            ecn: 0.5,
            ..loss.clone()
        };
        let which = |s| run(&mut plan(s, 3), 1000, 10, 60).iter().map(lost).collect::<Vec<_>>();
        assert_eq!(which(loss), which(more));
    }

    #[test]
    fn rates_are_as_asked() {
        let settings = FaultSettings {
            loss: 0.1,
            reorder: 0.2,
            duplicate: 0.05,
            corrupt: 0.3,
            ..FaultSettings::default()
        };
        let mut p = plan(settings, 11);
        run(&mut p, 100_000, 10, 60);
        let s = p.stats();
        let near = |n: u64, p: f64, of: u64| (n as f64 - p * of as f64).abs() < 0.1 * p * of as f64;
        let passed = s.seen - s.lost;
        assert!(near(s.lost, 0.1, s.seen), "{s:?}");
        assert!(near(s.reordered, 0.2, passed), "{s:?}");
        assert!(near(s.duplicated, 0.05, passed), "{s:?}");
        assert!(near(s.corrupted, 0.3, passed), "{s:?}");
    }

    #[test]
    fn bursts_have_the_length_and_share_of_the_model() {
        // Mean stay in the bad state 1/r = 5 frames; share of bad frames p/(p+r) = 1/21.
        let ge = GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.0, loss_bad: 1.0 };
        let mut p = plan(FaultSettings { burst_loss: Some(ge), ..FaultSettings::default() }, 5);
        let losses: Vec<bool> = run(&mut p, 200_000, 10, 60).iter().map(lost).collect();
        let share = losses.iter().filter(|&&l| l).count() as f64 / losses.len() as f64;
        assert!((0.043..0.053).contains(&share), "{share}");
        let starts = losses.windows(2).filter(|w| !w[0] && w[1]).count();
        let mean = p.stats().lost as f64 / starts as f64;
        assert!((4.5..5.5).contains(&mean), "{mean}");
    }

    #[test]
    fn outages_come_and_go() {
        let ms = Duration::from_millis;
        let outage = Outage { start: ms(2), length: ms(3), every: ms(0) };
        let settings = FaultSettings { outage: Some(outage), ..FaultSettings::default() };
        let which = |s: FaultSettings| {
            let mut p = plan(s, 1);
            let start = 77_000_000; // Counted from the first frame, not from the clock's zero.
            let each = (0..12).map(|i| p.decide(Instant::from_nanos(start + i * 1_000_000), 60));
            each.map(|d| if lost(&d) { 'x' } else { '.' }).collect::<String>()
        };
        assert_eq!(which(settings.clone()), "..xxx.......");
        let outage = Outage { every: ms(5), ..outage };
        assert_eq!(which(FaultSettings { outage: Some(outage), ..settings }), "..xxx..xxx..");
    }

    #[test]
    fn the_rate_is_a_token_bucket() {
        // 8 Mbit/s is one byte per microsecond.
        let settings = FaultSettings {
            rate_bps: 8_000_000,
            rate_burst_bytes: 200,
            limit_frames: 3,
            ..FaultSettings::default()
        };
        let mut p = plan(settings, 1);
        let now = Instant::from_nanos(1_000_000);
        let us = |d: Decision| (at(&d) - now.as_nanos()) / 1000;
        // Two frames go at once from the full bucket, three wait, the next finds no room.
        let first: Vec<u64> = (0..5).map(|_| us(p.decide(now, 100))).collect();
        assert_eq!(first, [0, 0, 100, 200, 300]);
        assert_eq!(p.decide(now, 100), Decision::QueueFull);
        // 100 us later one of them has left.
        let later = now + Duration::from_micros(100);
        assert_eq!(us(p.decide(later, 100)), 400);
        assert_eq!(p.decide(later, 100), Decision::QueueFull);
        // After a long pause the bucket is full again, and not fuller.
        let later = now + Duration::from_secs(1);
        let again: Vec<u64> = (0..3).map(|_| (at(&p.decide(later, 100)) - later.as_nanos()) / 1000).collect();
        assert_eq!(again, [0, 0, 100]);
    }

    #[test]
    fn a_filling_queue_marks() {
        // One byte per microsecond, no burst: the first frame waits for nobody, each further one for one more.
        let settings = FaultSettings {
            rate_bps: 8_000_000,
            rate_burst_bytes: 0,
            limit_frames: 10,
            ecn_frames: 3,
            ..FaultSettings::default()
        };
        let mut p = plan(settings, 1);
        let marks = |all: Vec<Decision>| {
            let of = |d: &Decision| matches!(d, Decision::Deliver(Delivery { mark: true, .. }));
            all.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(marks(run(&mut p, 5, 0, 100)), [false, false, false, true, true]);
        let mut p = plan(FaultSettings { ecn: 0.25, ..FaultSettings::default() }, 2);
        let marked = marks(run(&mut p, 10_000, 10, 60)).iter().filter(|m| **m).count();
        assert!((2300..2700).contains(&marked), "{marked}");
    }

    #[test]
    fn delay_and_jitter_keep_the_order() {
        let settings = FaultSettings {
            delay: Duration::from_micros(50),
            jitter: Duration::from_micros(20),
            ..FaultSettings::default()
        };
        let all = run(&mut plan(settings, 9), 10_000, 1000, 60);
        let delays: Vec<u64> = all.iter().enumerate().map(|(i, d)| at(d) - i as u64 * 1000).collect();
        assert!(delays.iter().all(|d| (50_000..=70_000).contains(d)));
        assert!(delays.iter().any(|d| *d != delays[0]));
        assert!(all.windows(2).all(|w| at(&w[0]) <= at(&w[1])));
    }

    #[test]
    fn corruption_flips_mostly_one_bit() {
        let mut p = plan(FaultSettings { corrupt: 1.0, ..FaultSettings::default() }, 4);
        let mut ones = 0;
        for d in run(&mut p, 1000, 1, 60) {
            let Decision::Deliver(Delivery { corruption: Some(c), .. }) = d else { panic!("{d:?}") };
            let mut data = [0xa5u8; 60];
            c.apply(&mut data);
            let flipped: u32 = data.iter().map(|b| (b ^ 0xa5).count_ones()).sum();
            assert_eq!(flipped, u32::from(c.bits()));
            ones += u32::from(flipped == 1);
            c.apply(&mut []);
        }
        assert!((700..800).contains(&ones), "{ones}");
    }

    #[test]
    fn settings_out_of_bounds_are_refused() {
        let ok = FaultSettings::default;
        assert!(FaultPlan::new(FaultSettings { loss: 1.5, ..ok() }, 1).is_err());
        assert!(FaultPlan::new(FaultSettings { corrupt: f64::NAN, ..ok() }, 1).is_err());
        assert!(FaultPlan::new(FaultSettings { limit_frames: 0, ..ok() }, 1).is_err());
        assert!(FaultPlan::new(FaultSettings { flight_frames: u32::MAX, ..ok() }, 1).is_err());
        assert!(FaultPlan::new(FaultSettings { ecn: 1.1, ..ok() }, 1).is_err());
        assert!(FaultPlan::new(FaultSettings { limit_frames: u32::MAX, ..ok() }, 1).is_err());
        assert!(FaultPlan::new(FaultSettings { rate_bps: u64::MAX, ..ok() }, 1).is_err());
        let ge = GilbertElliott { to_bad: -0.1, to_good: 0.5, loss_good: 0.0, loss_bad: 1.0 };
        assert!(FaultPlan::new(FaultSettings { burst_loss: Some(ge), ..ok() }, 1).is_err());
    }

    proptest! {
        #[test]
        fn no_number_panics(
            seed: u64, start: u64, rate in 0..=RATE_BPS_MAX, delay: u64, jitter: u64, hold: u64,
            outage: (u64, u64, u64), steps in proptest::collection::vec((0u64..u64::MAX / 8, 0usize..70_000), 1..30),
        ) {
            let ns = Duration::from_nanos;
            let settings = FaultSettings {
                loss: 0.1, reorder: 0.5, duplicate: 0.5, corrupt: 0.5,
                delay: ns(delay), jitter: ns(jitter), reorder_hold: ns(hold), rate_bps: rate, limit_frames: 4,
                outage: Some(Outage { start: ns(outage.0), length: ns(outage.1), every: ns(outage.2) }),
                ..FaultSettings::default()
            };
            let mut p = plan(settings, seed);
            let mut now = Instant::from_nanos(start);
            for (step, len) in steps {
                now += ns(step);
                if let Decision::Deliver(d) = p.decide(now, len) {
                    prop_assert!(d.at >= now);
                    prop_assert!(d.copy_at.is_none_or(|c| c >= now));
                }
            }
        }
    }

    #[test]
    fn each_state_has_its_chances() {
        let model = GilbertElliott { to_bad: 0.1, to_good: 0.2, loss_good: 0.3, loss_bad: 0.4 };
        assert_eq!((model.turn(false), model.turn(true)), (0.1, 0.2));
        assert_eq!((model.loss(false), model.loss(true)), (0.3, 0.4));
        assert!(model.is_valid());
        for wrong in [-0.1, 1.1, f64::NAN] {
            assert!(!GilbertElliott { loss_bad: wrong, ..model }.is_valid());
            assert!(!GilbertElliott { to_bad: wrong, ..model }.is_valid());
        }
    }
}
