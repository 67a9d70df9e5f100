//! Links: a queue, a wire, and everything that goes wrong on them.

use crate::{Corrupt, Damage, mark_ce};
use barewire_base::{Duration, Instant, Prng};
use barewire_frame::{ChecksumState, Frame};
use barewire_port::GilbertElliott;

/// One direction of a link. The default is a perfect wire of 10 microseconds.
///
/// A frame first meets the queue (only when there is a rate), then outages, loss and burst loss, then it is perhaps
/// copied, and each copy is damaged and delayed by its own draws. Frames arrive in order except those that `reorder`
/// holds back: jitter alone never makes one overtake another.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Time on the wire.
    pub delay: Duration,
    /// Up to this much more, drawn evenly.
    pub jitter: Duration,
    /// Bits per second of frame bytes (no preamble, FCS or gap added). `None`: no queue, frames leave at once. Zero
    /// passes nothing.
    pub rate_bps: Option<u64>,
    /// Most bytes that queue, the frame being sent included; what would exceed it is dropped. An idle link takes any
    /// frame.
    pub queue_bytes: u64,
    /// ECN-capable packets are marked when at least this many bytes are ahead of them in the queue.
    pub ecn_threshold_bytes: Option<u64>,
    /// Longer frames are dropped, in bytes with the Ethernet header.
    pub frame_max: usize,
    /// Share of frames lost, each for itself, 0 to 1.
    pub loss: f64,
    /// Loss that comes in bursts.
    pub burst: Option<GilbertElliott>,
    /// Share of frames that arrive twice.
    pub duplicate: f64,
    /// Frames held back so that later ones overtake them.
    pub reorder: Option<Reorder>,
    /// Frames damaged on the way.
    pub corrupt: Option<Corrupt>,
    /// Windows, by the world's clock, in which whatever goes on the wire is lost.
    pub outages: Vec<(Instant, Duration)>,
}

/// Reordering by holding frames back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Share of frames held back, 0 to 1.
    pub probability: f64,
    /// Held back for up to this long, drawn evenly.
    pub extra: Duration,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            delay: Duration::from_micros(10),
            jitter: Duration::ZERO,
            rate_bps: None,
            queue_bytes: 256 * 1024,
            ecn_threshold_bytes: None,
            frame_max: usize::MAX,
            loss: 0.0,
            burst: None,
            duplicate: 0.0,
            reorder: None,
            corrupt: None,
            outages: Vec::new(),
        }
    }
}

impl LinkConfig {
    /// A wire that does nothing but take `delay`.
    pub fn perfect(delay: Duration) -> Self {
        LinkConfig { delay, ..Self::default() }
    }

    /// A wire that passes nothing.
    pub fn down() -> Self {
        LinkConfig { loss: 1.0, ..Self::default() }
    }

    /// A bad network drawn from `prng`: each fault is there or not, so that some seeds see few faults and strong ones,
    /// others all of them. Delay 1 us to 1 ms, loss up to 10 % (and bursts), rates from 10 Mbit/s to 10 Gbit/s, queues
    /// of 4 to 256 KiB, never an outage; damage spares the Ethernet header.
    pub fn rough(prng: &mut Prng) -> Self {
        let delay = Duration::from_nanos(1_000 << prng.below(11));
        let spread = delay.as_nanos() * 4;
        let queue_bytes = 4_096 << prng.below(7);
        let mut on = |p: f64| prng.chance(p);
        let (jitter, rate, ecn, loss, burst) = (on(0.5), on(0.5), on(0.5), on(0.6), on(0.25));
        let (duplicate, reorder, corrupt) = (on(0.5), on(0.5), on(0.4));
        let when = |there: bool, most: f64, prng: &mut Prng| if there { most * prng.unit() } else { 0.0 };
        LinkConfig {
            delay,
            jitter: if jitter { Duration::from_nanos(prng.below(spread)) } else { Duration::ZERO },
            rate_bps: rate.then(|| 10_000_000 << prng.below(11)),
            queue_bytes,
            ecn_threshold_bytes: ecn.then_some(queue_bytes / 4),
            frame_max: usize::MAX,
            loss: when(loss, 0.1, prng),
            burst: burst.then(|| GilbertElliott {
                to_bad: 0.02 * prng.unit(),
                to_good: 0.1 + 0.4 * prng.unit(),
                loss_good: 0.0,
                loss_bad: 0.3 + 0.7 * prng.unit(),
            }),
            duplicate: when(duplicate, 0.1, prng),
            reorder: reorder.then(|| Reorder {
                probability: 0.2 * prng.unit(),
                extra: Duration::from_nanos(1 + prng.below(spread)),
            }),
            corrupt: corrupt.then(|| Corrupt {
                probability: 0.03 * prng.unit(),
                damage: match prng.below(3) {
                    0 => Damage::Bits(4),
                    1 => Damage::Burst(48),
                    _ => Damage::SwapWords,
                },
                skip: 14,
            }),
            outages: Vec::new(),
        }
    }

    fn is_out(&self, at: Instant) -> bool {
        self.outages.iter().any(|&(from, length)| from <= at && at < from + length)
    }
}

/// What has passed one direction of a link. `sent + duplicated` is always [`delivered`](Self::delivered) plus
/// [`dropped`](Self::dropped) plus what is still on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Frames that the node sent, and that a test injected.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that reached the far node, copies counted.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Lost one by one.
    pub lost: u64,
    /// Lost by the burst model.
    pub lost_burst: u64,
    /// Lost in an outage.
    pub lost_outage: u64,
    /// Dropped because the queue was full.
    pub dropped_queue: u64,
    /// Dropped because longer than the link takes.
    pub dropped_large: u64,
    /// Dropped by the test's filter.
    pub dropped_filter: u64,
    /// Arrived at a node that was dead, or paused with its queue full.
    pub dropped_dead: u64,
    /// Marked Congestion Experienced.
    pub marked: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Copies not made because the pool was empty.
    pub copies_failed: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Frames damaged.
    pub corrupted: u64,
    /// Most bytes that ever queued.
    pub queue_peak_bytes: u64,
}

impl LinkStats {
    /// Frames that never reached the far node, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.lost
            + self.lost_burst
            + self.lost_outage
            + self.dropped_queue
            + self.dropped_large
            + self.dropped_filter
            + self.dropped_dead
    }
}

/// A test's own hand on one direction: sees each frame before the queue, may change it, and drops it by `false`.
pub type LinkFilter = Box<dyn FnMut(Instant, &mut Frame) -> bool>;

/// Picoseconds: at 100 Gbit/s a short frame takes 5.12 ns, and rounding each one would bend the rate.
const PS_PER_NS: u128 = 1_000;
const BYTE_PS_AT_1_BPS: u128 = 8_000_000_000_000;

/// One direction at work.
pub(crate) struct Wire {
    /// Index of the node at the far end, and its port there.
    pub to: usize,
    pub to_port: u16,
    pub stats: LinkStats,
    pub filter: Option<LinkFilter>,
    config: LinkConfig,
    prng: Prng,
    bad: bool,
    /// When the queue will be empty.
    busy_ps: u128,
    last_arrival: Instant,
}

impl Wire {
    pub(crate) fn new(to: usize, to_port: u16, config: LinkConfig, prng: Prng) -> Wire {
        Wire {
            to,
            to_port,
            stats: LinkStats::default(),
            filter: None,
            config,
            prng,
            bad: false,
            busy_ps: 0,
            last_arrival: Instant::ZERO,
        }
    }

    /// Takes a new configuration. Bytes that queue drain at the new rate; frames on the wire keep their time.
    pub(crate) fn configure(&mut self, now: Instant, config: LinkConfig) {
        let backlog = self.backlog_bytes(now);
        self.config = config;
        self.busy_ps = match self.config.rate_bps {
            Some(rate) if rate > 0 => ps(now) + u128::from(backlog) * BYTE_PS_AT_1_BPS / u128::from(rate),
            _ => 0,
        };
    }

    fn backlog_bytes(&self, now: Instant) -> u64 {
        let Some(rate) = self.config.rate_bps else { return 0 };
        let left = self.busy_ps.saturating_sub(ps(now));
        // Rounded up: while one bit is left the link is not idle.
        u64::try_from((left * u128::from(rate)).div_ceil(BYTE_PS_AT_1_BPS)).unwrap_or(u64::MAX)
    }

    /// Takes a frame from the near node; `deliver` learns when which copies arrive.
    pub(crate) fn admit(&mut self, now: Instant, mut frame: Frame, mut deliver: impl FnMut(Instant, Frame)) {
        self.stats.sent += 1;
        self.stats.sent_bytes += frame.len() as u64;
        if self.filter.as_mut().is_some_and(|keep| !keep(now, &mut frame)) {
            self.stats.dropped_filter += 1;
            return;
        }
        if frame.len() > self.config.frame_max {
            self.stats.dropped_large += 1;
            return;
        }
        let Some(departure) = self.enqueue(now, &mut frame) else {
            self.stats.dropped_queue += 1;
            return;
        };
        // Both draws are made whatever comes of them, so that an outage does not shift the faults after it.
        let lost = self.prng.chance(self.config.loss);
        let lost_burst = self.burst_loss();
        if self.config.is_out(departure) {
            self.stats.lost_outage += 1;
            return;
        }
        if lost {
            self.stats.lost += 1;
            return;
        }
        if lost_burst {
            self.stats.lost_burst += 1;
            return;
        }
        let twice = self.prng.chance(self.config.duplicate);
        let copy = if twice { frame.try_clone() } else { None };
        let arrival = self.fly(departure, &mut frame);
        deliver(arrival, frame);
        match copy {
            Some(mut copy) => {
                self.stats.duplicated += 1;
                let arrival = self.fly(departure, &mut copy);
                deliver(arrival, copy);
            }
            None => self.stats.copies_failed += u64::from(twice),
        }
    }

    /// When the last bit leaves the queue; `None` when there is no room.
    fn enqueue(&mut self, now: Instant, frame: &mut Frame) -> Option<Instant> {
        let Some(rate) = self.config.rate_bps else { return Some(now) };
        let len = frame.len() as u64;
        let ahead = self.backlog_bytes(now);
        let filled = ahead.saturating_add(len);
        if rate == 0 || (ahead > 0 && filled > self.config.queue_bytes) {
            return None;
        }
        self.stats.queue_peak_bytes = self.stats.queue_peak_bytes.max(filled);
        if self.config.ecn_threshold_bytes.is_some_and(|threshold| ahead >= threshold) {
            self.stats.marked += u64::from(mark_ce(frame.data_mut()));
        }
        self.busy_ps = self.busy_ps.max(ps(now)) + u128::from(len) * BYTE_PS_AT_1_BPS / u128::from(rate);
        Some(Instant::from_nanos(u64::try_from(self.busy_ps.div_ceil(PS_PER_NS)).unwrap_or(u64::MAX)))
    }

    fn burst_loss(&mut self) -> bool {
        let Some(model) = self.config.burst else { return false };
        self.bad ^= self.prng.chance(model.turn(self.bad));
        self.prng.chance(model.loss(self.bad))
    }

    /// Damages and delays one copy and says when it arrives.
    fn fly(&mut self, departure: Instant, frame: &mut Frame) -> Instant {
        if let Some(corrupt) = self.config.corrupt
            && self.prng.chance(corrupt.probability)
        {
            self.stats.corrupted += u64::from(corrupt.apply(&mut self.prng, frame.data_mut()));
        }
        if frame.checksum() == ChecksumState::Verified {
            // Nobody has verified it on this side of the wire.
            frame.set_checksum(ChecksumState::Unknown);
        }
        let mut arrival = departure + self.config.delay;
        if self.config.jitter > Duration::ZERO {
            arrival += Duration::from_nanos(self.prng.below(self.config.jitter.as_nanos().saturating_add(1)));
        }
        arrival = arrival.max(self.last_arrival);
        match self.config.reorder {
            Some(reorder) if self.prng.chance(reorder.probability) => {
                self.stats.reordered += 1;
                arrival + Duration::from_nanos(1 + self.prng.below(reorder.extra.as_nanos()))
            }
            _ => {
                self.last_arrival = arrival;
                arrival
            }
        }
    }
}

fn ps(at: Instant) -> u128 {
    u128::from(at.as_nanos()) * PS_PER_NS
}
