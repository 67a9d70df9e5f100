//! The fault port: another port with seeded loss, reordering, duplication, corruption, delay and a rate limit.

use crate::fault_plan::{Decision, FaultPlan, FaultSettings, FaultStats, GilbertElliott, Outage};
use crate::{OpenError, Port, PortCaps, PortCounters, PortError, PortUri, Wrapper};
use barewire_base::{DropReason, Duration, Instant, Prng};
use barewire_frame::{BURST_MAX, Burst, Frame, Stamp};
use barewire_wire::mark_ce;
use std::collections::VecDeque;
use std::os::fd::RawFd;

/// Frames that may be held back for reordering at one time, in one direction. Further ones pass in order.
pub const HELD_MAX: usize = 64;

/// Which way the faults act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// On what is received.
    Rx,
    /// On what is sent.
    Tx,
    /// On both, each with draws of its own.
    Both,
}

/// What a [`Fault`] port does.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultConfig {
    /// The faults; the same for both directions.
    pub settings: FaultSettings,
    /// What replays: everything is drawn from it. The port's description shows it.
    pub seed: u64,
    /// Which way they act.
    pub direction: Direction,
}

impl Default for FaultConfig {
    fn default() -> Self {
        FaultConfig { settings: FaultSettings::default(), seed: 1, direction: Direction::Tx }
    }
}

impl FaultConfig {
    /// Takes this wrapper's options out of `uri`: `seed dir loss burst_p burst_r burst_good_loss burst_bad_loss reorder
    /// reorder_gap reorder_us duplicate corrupt delay_us jitter_us rate_bps rate_burst_bytes limit_frames flight_frames ecn
    /// ecn_frames outage_start_ms outage_ms outage_every_ms`.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] for a value that does not parse or is out of bounds.
    pub fn take(uri: &mut PortUri) -> Result<FaultConfig, OpenError> {
        let d = FaultSettings::default();
        let us = |ns: Duration| ns.as_nanos() / 1000;
        let seed = uri.take_or("seed", 1)?;
        let words = [("rx", Direction::Rx), ("tx", Direction::Tx), ("both", Direction::Both)];
        let direction = uri.take_choice("dir", &words)?.unwrap_or(Direction::Tx);
        let (to_bad, to_good) = (uri.take::<f64>("burst_p")?, uri.take::<f64>("burst_r")?);
        let loss_good = uri.take_or("burst_good_loss", 0.0)?;
        let loss_bad = uri.take_or("burst_bad_loss", 1.0)?;
        let burst_loss = match (to_bad, to_good) {
            (None, None) => None,
            (Some(to_bad), Some(to_good)) => Some(GilbertElliott { to_bad, to_good, loss_good, loss_bad }),
            _ => return Err(uri.bad("loss in bursts needs both burst_p and burst_r")),
        };
        let outage_ms = uri.take_or("outage_ms", 0)?;
        let outage = Outage {
            start: Duration::from_millis(uri.take_or("outage_start_ms", 0)?),
            length: Duration::from_millis(outage_ms),
            every: Duration::from_millis(uri.take_or("outage_every_ms", 0)?),
        };
        let settings = FaultSettings {
            loss: uri.take_or("loss", 0.0)?,
            burst_loss,
            reorder: uri.take_or("reorder", 0.0)?,
            reorder_gap: uri.take_or("reorder_gap", d.reorder_gap)?,
            reorder_hold: Duration::from_micros(uri.take_or("reorder_us", us(d.reorder_hold))?),
            duplicate: uri.take_or("duplicate", 0.0)?,
            corrupt: uri.take_or("corrupt", 0.0)?,
            delay: Duration::from_micros(uri.take_or("delay_us", 0)?),
            jitter: Duration::from_micros(uri.take_or("jitter_us", 0)?),
            rate_bps: uri.take_or("rate_bps", 0)?,
            rate_burst_bytes: uri.take_or("rate_burst_bytes", d.rate_burst_bytes)?,
            limit_frames: uri.take_or("limit_frames", d.limit_frames)?,
            flight_frames: uri.take_or("flight_frames", d.flight_frames)?,
            ecn: uri.take_or("ecn", 0.0)?,
            ecn_frames: uri.take_or("ecn_frames", d.ecn_frames)?,
            outage: (outage_ms > 0).then_some(outage),
        };
        settings.check().map_err(|why| uri.bad(why))?;
        Ok(FaultConfig { settings, seed, direction })
    }
}

impl FaultConfig {
    /// Writes this wrapper and its options in front of a URI: the inverse of [`take`](Self::take), but for times below a
    /// microsecond, which a URI does not tell.
    pub fn wrap(&self, mut uri: PortUri) -> PortUri {
        let d = FaultSettings::default();
        let s = &self.settings;
        uri.wrappers.insert(0, Wrapper { name: "fault".into() });
        let direction = match self.direction {
            Direction::Rx => "rx",
            Direction::Tx => "tx",
            Direction::Both => "both",
        };
        let mut uri = uri.with("seed", self.seed).with("dir", direction);
        let us = |d: Duration| d.as_nanos() / 1000;
        for (key, value) in [
            ("loss", s.loss),
            ("reorder", s.reorder),
            ("duplicate", s.duplicate),
            ("corrupt", s.corrupt),
            ("ecn", s.ecn),
        ] {
            if value > 0.0 {
                uri = uri.with(key, value);
            }
        }
        for (key, value, default) in [
            ("reorder_gap", s.reorder_gap.into(), d.reorder_gap.into()),
            ("reorder_us", us(s.reorder_hold), us(d.reorder_hold)),
            ("delay_us", us(s.delay), 0),
            ("jitter_us", us(s.jitter), 0),
            ("rate_bps", s.rate_bps, 0),
            ("rate_burst_bytes", s.rate_burst_bytes.into(), d.rate_burst_bytes.into()),
            ("limit_frames", s.limit_frames.into(), d.limit_frames.into()),
            ("flight_frames", s.flight_frames.into(), d.flight_frames.into()),
            ("ecn_frames", s.ecn_frames.into(), d.ecn_frames.into()),
        ] {
            if value != default {
                uri = uri.with(key, value);
            }
        }
        if let Some(b) = s.burst_loss {
            uri = uri.with("burst_p", b.to_bad).with("burst_r", b.to_good);
            uri = uri.with("burst_good_loss", b.loss_good).with("burst_bad_loss", b.loss_bad);
        }
        if let Some(o) = s.outage {
            let ms = |d: Duration| d.as_nanos() / 1_000_000;
            uri = uri.with("outage_start_ms", ms(o.start)).with("outage_ms", ms(o.length));
            uri = uri.with("outage_every_ms", ms(o.every));
        }
        uri
    }
}

/// A frame and what was decided about it, for an observer.
pub struct Judged<'a> {
    /// The time of the call.
    pub now: Instant,
    /// Its place among the frames of its direction, from one.
    pub number: u64,
    /// The frame as it came.
    pub frame: &'a Frame,
    /// What the plan says.
    pub decision: Decision,
    /// False: it is dropped whatever the plan says, since too many are under way.
    pub has_room: bool,
}

/// Sees each frame before anything is done to it.
pub type FaultObserver = Box<dyn FnMut(&Judged<'_>)>;

/// A port with faults. Deterministic: the seed, the frames and the times of the calls decide everything.
///
/// Frames under way are held here, so a sent frame is back in its pool only when its time has come; injected drops are
/// counted with the inner port's own, as `Injected`, or `RingFull` where a queue was full. A received frame that was held
/// is stamped anew, by the engine, when it is delivered.
pub struct Fault<P> {
    inner: P,
    caps: PortCaps,
    rx: Option<Way>,
    tx: Option<Way>,
    /// Frames whose time has come but which the inner port did not take yet.
    outgoing: Burst,
    /// Between the inner port and the queue; empty outside of a call.
    incoming: Burst,
    last_now: Instant,
}

impl<P: Port> Fault<P> {
    /// Wraps `inner`. Allocates all queues.
    ///
    /// # Errors
    /// The setting that is out of bounds, and the bounds.
    pub fn new(inner: P, config: &FaultConfig) -> Result<Fault<P>, &'static str> {
        let mut root = Prng::new(config.seed);
        let (rx_seed, tx_seed) = (root.next_u64(), root.next_u64());
        let way = |on: bool, seed: u64| {
            let plan = FaultPlan::new(config.settings.clone(), seed)?;
            Ok::<_, &'static str>((on && !plan.is_none()).then(|| Way::new(plan)))
        };
        let mut caps = inner.caps().clone();
        let dir = match config.direction {
            Direction::Rx => "rx",
            Direction::Tx => "tx",
            Direction::Both => "rx and tx",
        };
        caps.description = format!("faults on {dir}, seed {}; {}", config.seed, caps.description);
        if config.settings.corrupt > 0.0 {
            caps.lossless_bits = false;
        }
        Ok(Fault {
            rx: way(config.direction != Direction::Tx, rx_seed)?,
            tx: way(config.direction != Direction::Rx, tx_seed)?,
            inner,
            caps,
            outgoing: Burst::new(),
            incoming: Burst::new(),
            last_now: Instant::ZERO,
        })
    }

    /// What was done to received frames.
    pub fn rx_stats(&self) -> FaultStats {
        self.rx.as_ref().map(Way::stats).unwrap_or_default()
    }

    /// What was done to sent frames.
    pub fn tx_stats(&self) -> FaultStats {
        self.tx.as_ref().map(Way::stats).unwrap_or_default()
    }

    /// Shows every frame that is sent, before anything is done to it, with what is decided about it; without faults, that it
    /// is delivered at once. Allocates: call it before the port is used.
    pub fn observe_tx(&mut self, observer: FaultObserver) {
        if self.tx.is_none()
            && let Ok(plan) = FaultPlan::new(FaultSettings::default(), 0)
        {
            self.tx = Some(Way::new(plan));
        }
        if let Some(way) = &mut self.tx {
            way.observer = Some(observer);
        }
    }

    /// The port inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Sends what is due, as far as the inner port takes it.
    fn flush(&mut self, now: Instant) -> Result<(), PortError> {
        let Some(way) = &mut self.tx else { return Ok(()) };
        loop {
            way.release(now, &mut self.outgoing, false);
            if self.outgoing.is_empty() {
                return Ok(());
            }
            self.inner.tx_burst(now, &mut self.outgoing)?;
            if !self.outgoing.is_empty() {
                return Ok(());
            }
        }
    }
}

impl<P: Port> Port for Fault<P> {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.last_now = now;
        // Also what the inner port had no room for: whoever waits for it to be sent sends nothing else.
        self.flush(now)?;
        let Some(way) = &mut self.rx else { return self.inner.rx_burst(now, burst) };
        let before = burst.len();
        // What is due goes first; more is taken in only when the caller keeps up, so that a slow caller is no fault.
        way.release(now, burst, true);
        if burst.room() == 0 {
            return Ok(burst.len() - before);
        }
        self.inner.rx_burst(now, &mut self.incoming)?;
        while let Some(frame) = self.incoming.pop() {
            way.enter(now, frame, self.inner.counters());
        }
        way.release(now, burst, true);
        Ok(burst.len() - before)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.last_now = now;
        if self.tx.is_none() {
            return self.inner.tx_burst(now, burst);
        }
        self.flush(now)?;
        if !self.outgoing.is_empty() && !burst.is_empty() {
            // The inner port pushes back: so do we, or its back-pressure would turn into loss here.
            return Ok(0);
        }
        let before = burst.len();
        if let Some(way) = &mut self.tx {
            while let Some(frame) = burst.pop() {
                way.enter(now, frame, self.inner.counters());
            }
        }
        self.flush(now)?;
        Ok(before)
    }

    fn tx_waiting(&self) -> usize {
        self.outgoing.len() + self.inner.tx_waiting()
    }

    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.inner.wait_fd()
    }

    fn prepare_wait(&mut self) -> bool {
        let due = self.rx.as_ref().and_then(Way::next_at).is_some_and(|at| at <= self.last_now);
        !due && self.inner.prepare_wait()
    }

    fn finish_wait(&mut self) {
        self.inner.finish_wait();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let refused = (!self.outgoing.is_empty()).then_some(self.last_now);
        let ways = [&self.rx, &self.tx].into_iter().flatten().filter_map(Way::next_at);
        ways.chain(refused).chain(self.inner.next_deadline()).min()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished() && self.rx.as_ref().is_none_or(Way::is_empty)
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        self.inner.reopen()?;
        let caps = self.inner.caps();
        (self.caps.mtu, self.caps.frame_max, self.caps.mac) = (caps.mtu, caps.frame_max, caps.mac);
        Ok(())
    }
}

/// A frame under way.
struct Item {
    at: Instant,
    entered: Instant,
    /// Its place in the order of entering.
    number: u64,
    frame: Frame,
}

struct Held {
    item: Item,
    /// Later frames that still have to pass.
    left: u32,
}

/// One direction: its plan, and the frames under way.
struct Way {
    plan: FaultPlan,
    /// In the order and with the times of their arrival.
    queue: VecDeque<Item>,
    held: Vec<Held>,
    limit: usize,
    entered: u64,
    marked: u64,
    flight_full: u64,
    observer: Option<FaultObserver>,
}

impl Way {
    fn new(plan: FaultPlan) -> Way {
        let limit = plan.settings().flight_limit() as usize;
        // Beyond the limit: a burst that goes on in the same call, and a copy of each of its frames.
        let queue = VecDeque::with_capacity(limit + 2 * BURST_MAX);
        Way {
            queue,
            held: Vec::with_capacity(HELD_MAX),
            limit,
            entered: 0,
            marked: 0,
            flight_full: 0,
            observer: None,
            plan,
        }
    }

    fn stats(&self) -> FaultStats {
        FaultStats { marked: self.marked, flight_full: self.flight_full, ..self.plan.stats() }
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }

    /// Whether fewer frames than the limit wait. Those that are due do not wait: they go on in this very call.
    fn has_room(&self, now: Instant) -> bool {
        let due = || self.queue.iter().take_while(|item| item.at <= now).count();
        self.queue.len() < self.limit || self.queue.len() - due() < self.limit
    }

    fn enter(&mut self, now: Instant, mut frame: Frame, counters: &PortCounters) {
        let decision = self.plan.decide(now, frame.len());
        let has_room = !matches!(decision, Decision::Deliver(_)) || self.has_room(now);
        if let Some(observer) = &mut self.observer {
            let number = self.plan.stats().seen;
            observer(&Judged { now, number, frame: &frame, decision, has_room });
        }
        let delivery = match decision {
            Decision::Deliver(delivery) if has_room => delivery,
            Decision::Lost => return counters.drops.count(DropReason::Injected),
            Decision::QueueFull => return counters.drops.count(DropReason::RingFull),
            Decision::Deliver(_) => {
                self.flight_full += 1;
                return counters.drops.count(DropReason::RingFull);
            }
        };
        // Marked before it is damaged: a router does the one, the wire after it the other.
        if delivery.mark && mark_ce(frame.data_mut()) {
            self.marked += 1;
        }
        if let Some(corruption) = delivery.corruption {
            corruption.apply(frame.data_mut());
        }
        self.entered += 1;
        let number = self.entered;
        let item = |at, frame| Item { at, entered: now, number, frame };
        let copy = delivery.copy_at.and_then(|at| match frame.try_clone() {
            Some(copy) => Some(item(at, copy)),
            None => {
                counters.drops.count(DropReason::PoolEmpty);
                None
            }
        });
        match delivery.held_for {
            Some(left) if self.held.len() < HELD_MAX => {
                let left = if left == 0 { u32::MAX } else { left };
                self.held.push(Held { item: item(delivery.at, frame), left });
            }
            Some(_) => self.queue.push_back(item(delivery.at - self.plan.settings().reorder_hold, frame)),
            None => self.queue.push_back(item(delivery.at, frame)),
        }
        self.queue.extend(copy);
    }

    /// Moves what is due into `burst` as far as it has room. A received frame that waited is `restamp`ed.
    fn release(&mut self, now: Instant, burst: &mut Burst, restamp: bool) {
        while burst.room() > 0 {
            let ready = self.held.iter().position(|h| h.left == 0 || h.item.at <= now);
            let mut item = if let Some(i) = ready {
                self.held.remove(i).item
            } else if self.queue.front().is_some_and(|item| item.at <= now) {
                let Some(item) = self.queue.pop_front() else { return };
                for held in self.held.iter_mut().filter(|h| h.item.number < item.number) {
                    held.left -= 1;
                }
                item
            } else {
                return;
            };
            if restamp && item.entered < now {
                item.frame.set_stamp(Stamp::engine(now));
            }
            if burst.push(item.frame).is_err() {
                return;
            }
        }
    }

    fn next_at(&self) -> Option<Instant> {
        let held = self.held.iter().map(|h| if h.left == 0 { Instant::ZERO } else { h.item.at });
        held.chain(self.queue.front().map(|item| item.at)).min()
    }
}
