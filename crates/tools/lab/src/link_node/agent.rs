//! The agent of a link node: frames from one port to the other.

use super::LinkNodeError;
use super::trace::TraceLog;
use barewire_base::{DropReason, Duration, Instant};
use barewire_engine::{Agent, CounterKind, CounterSlot, CountersPage, EngineSlots};
use barewire_frame::Burst;
use barewire_port::{Fault, FaultStats, Port};
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::path::Path;
use std::rc::Rc;

/// How long a port that failed is left alone: its interface is down, or going.
const REST: Duration = Duration::from_millis(10);
/// Counters on a node's page, at most.
pub(super) const COUNTERS_MAX: usize = 2 * (16 + DropReason::COUNT) + ENGINE_COUNTERS_MAX;
/// Those of its engine.
const ENGINE_COUNTERS_MAX: usize = 32;

/// One direction, as counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionReport {
    /// Frames that came in.
    pub received: u64,
    /// Frames that went out, copies included.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames lost because the way out was down.
    pub lost_down: u64,
    /// What was done to them on purpose.
    pub faults: FaultStats,
}

/// What a link node has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// From the first end to the second.
    pub forward: DirectionReport,
    /// Back.
    pub reverse: DirectionReport,
}

/// A port, and what the other one received for it.
struct Side {
    port: Fault<Box<dyn Port>>,
    /// Outside of a call only while the port pushes back.
    pending: Burst,
    /// Not to be touched before.
    rests_until: Option<Instant>,
    lost_down: u64,
    trace: Option<Rc<RefCell<TraceLog>>>,
}

impl Side {
    fn may_work(&mut self, now: Instant) -> bool {
        if self.rests_until.is_some_and(|until| now < until) {
            return false;
        }
        self.rests_until = None;
        true
    }
}

/// Passes frames between two ports. The faults are the ports' own.
pub(crate) struct LinkAgent {
    name: String,
    sides: [Side; 2],
    /// Times what is received; `None`: the duty cycle's reading does, as in virtual time.
    clock: Option<fn() -> Instant>,
    /// Grows when a port begins or ends to rest, since a resting port's descriptor must not wake the engine.
    generation: u64,
    report: Rc<Cell<LinkReport>>,
    page: Option<(CountersPage, Vec<CounterSlot>)>,
}

impl LinkAgent {
    pub(crate) fn new(
        name: &str,
        ports: [Fault<Box<dyn Port>>; 2],
        clock: Option<fn() -> Instant>,
        report: Rc<Cell<LinkReport>>,
    ) -> LinkAgent {
        let sides = ports.map(|port| Side {
            port,
            pending: Burst::new(),
            rests_until: None,
            lost_down: 0,
            trace: None,
        });
        LinkAgent { name: name.to_owned(), sides, clock, generation: 0, report, page: None }
    }

    /// Writes down what is done to each frame: `PREFIX.forward` and `PREFIX.reverse`.
    pub(super) fn trace_to(&mut self, prefix: &Path) -> Result<(), LinkNodeError> {
        // What goes forward is sent by the second port.
        for (side, direction) in self.sides.iter_mut().zip(["reverse", "forward"]) {
            let mut path = prefix.as_os_str().to_owned();
            path.push(".");
            path.push(direction);
            let log = TraceLog::create(Path::new(&path)).map_err(|source| LinkNodeError::Trace {
                path: Path::new(&path).display().to_string(),
                source,
            })?;
            let log = Rc::new(RefCell::new(log));
            side.trace = Some(Rc::clone(&log));
            side.port.observe_tx(Box::new(move |judged| log.borrow_mut().write(judged)));
        }
        Ok(())
    }

    /// Shows the counters, and those of the engine that it runs on, which has this name.
    pub(super) fn show_on(
        &mut self,
        mut page: CountersPage,
        engine: &str,
    ) -> Result<EngineSlots, LinkNodeError> {
        let engine = EngineSlots::register(&mut page, engine)?;
        let mut slots = Vec::new();
        let mut failed = None;
        self.values(&mut |name, _| match page.register(name, CounterKind::Counter) {
            Ok(slot) => slots.push(slot),
            Err(e) => failed = Some(e),
        });
        if let Some(e) = failed {
            return Err(e.into());
        }
        self.page = Some((page, slots));
        Ok(engine)
    }

    fn direction(&self, from: usize) -> DirectionReport {
        let (from, to) = (&self.sides[from], &self.sides[1 - from]);
        DirectionReport {
            received: from.port.counters().rx_frames.get(),
            sent: to.port.counters().tx_frames.get(),
            sent_bytes: to.port.counters().tx_bytes.get(),
            lost_down: to.lost_down,
            faults: to.port.tx_stats(),
        }
    }

    fn report(&self) -> LinkReport {
        LinkReport { forward: self.direction(0), reverse: self.direction(1) }
    }

    /// Every counter, name and value, in one fixed order.
    fn values(&self, say: &mut dyn FnMut(&str, u64)) {
        let report = self.report();
        macro_rules! direction {
            ($prefix:literal, $d:expr) => {
                let d = $d;
                say(concat!($prefix, ".received"), d.received);
                say(concat!($prefix, ".sent"), d.sent);
                say(concat!($prefix, ".sent_bytes"), d.sent_bytes);
                say(concat!($prefix, ".drop.lost"), d.faults.lost);
                say(concat!($prefix, ".drop.outage"), d.faults.outage);
                say(concat!($prefix, ".drop.queue_full"), d.faults.queue_full);
                say(concat!($prefix, ".drop.flight_full"), d.faults.flight_full);
                say(concat!($prefix, ".drop.link_down"), d.lost_down);
                say(concat!($prefix, ".corrupted"), d.faults.corrupted);
                say(concat!($prefix, ".duplicated"), d.faults.duplicated);
                say(concat!($prefix, ".reordered"), d.faults.reordered);
                say(concat!($prefix, ".marked"), d.faults.marked);
            };
        }
        direction!("link.forward", report.forward);
        direction!("link.reverse", report.reverse);
        let mut name = [0u8; 64];
        // What leaves at a side came in at the other.
        let inwards = [report.reverse, report.forward];
        for ((side, letter), inward) in self.sides.iter().zip(["a", "b"]).zip(inwards) {
            for &reason in DropReason::ALL {
                // What the link itself loses is told above, by its causes: nothing counts twice.
                let told = match reason {
                    DropReason::Injected => continue,
                    DropReason::RingFull => inward.faults.queue_full + inward.faults.flight_full,
                    _ => 0,
                };
                let name = join(&mut name, &["link.", letter, ".drop.", reason.as_str()]);
                say(name, side.port.counters().drops.get(reason).saturating_sub(told));
            }
        }
    }

    /// One direction: in at side `from`, out at the other.
    fn pass(&mut self, mut now: Instant, from: usize) -> usize {
        let clock = self.clock;
        let [a, b] = &mut self.sides;
        let (from, to) = if from == 0 { (a, b) } else { (b, a) };
        let mut work = 0;
        let rested = (from.rests_until, to.rests_until);
        if from.may_work(now) && to.pending.is_empty() {
            match from.port.rx_burst(now, &mut to.pending) {
                Ok(0) => {}
                Ok(n) => {
                    work += n;
                    now = clock.map_or(now, |clock| clock());
                }
                Err(_) => from.rests_until = Some(now + REST),
            }
        }
        if to.may_work(now) {
            match to.port.tx_burst(now, &mut to.pending) {
                Ok(n) => work += n,
                Err(_) => to.rests_until = Some(now + REST),
            }
        }
        if to.rests_until.is_some() {
            // As on a wire that was pulled out.
            to.lost_down += to.pending.len() as u64;
            to.pending.clear();
        }
        if rested != (from.rests_until, to.rests_until) {
            self.generation += 1;
        }
        work
    }
}

/// Joins words in a buffer, as far as it reaches: publishing must not allocate.
fn join<'a>(buffer: &'a mut [u8; 64], words: &[&str]) -> &'a str {
    let mut at = 0;
    for word in words {
        let end = (at + word.len()).min(buffer.len());
        buffer[at..end].copy_from_slice(&word.as_bytes()[..end - at]);
        at = end;
    }
    std::str::from_utf8(&buffer[..at]).unwrap_or_default()
}

impl Agent for LinkAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let sent = |sides: &[Side; 2]| sides.iter().map(|s| s.port.counters().tx_frames.get()).sum::<u64>();
        let before = sent(&self.sides);
        let work = self.pass(now, 0) + self.pass(now, 1);
        // What leaves after its delay was accepted long ago, and may leave while its port is asked for frames. It is work all the
        // same, or it would not be published before the next frame comes.
        work + (sent(&self.sides) - before) as usize
    }

    fn next_deadline(&self) -> Option<Instant> {
        // A resting port's own deadline lies in the past while it cannot send.
        self.sides.iter().filter_map(|side| side.rests_until.or_else(|| side.port.next_deadline())).min()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        for side in self.sides.iter().filter(|side| side.rests_until.is_none()) {
            if let Some(fd) = side.port.wait_fd() {
                add(fd);
            }
        }
    }

    fn fds_generation(&self) -> u64 {
        self.generation
    }

    fn prepare_wait(&mut self) -> bool {
        let mut may_sleep = true;
        for side in &mut self.sides {
            may_sleep &= side.pending.is_empty();
            if side.rests_until.is_none() {
                // A port without a descriptor has to be asked again and again.
                may_sleep &= side.port.wait_fd().is_some();
                may_sleep &= side.port.prepare_wait();
            }
            if let Some(trace) = &side.trace {
                trace.borrow_mut().flush();
            }
        }
        may_sleep
    }

    fn finish_wait(&mut self) {
        for side in &mut self.sides {
            side.port.finish_wait();
        }
    }

    fn publish(&mut self, _now: Instant) {
        self.report.set(self.report());
        let Some((page, slots)) = self.page.take() else { return };
        let mut at = slots.iter();
        self.values(&mut |_, value| {
            if let Some(slot) = at.next() {
                slot.set(value);
            }
        });
        self.page = Some((page, slots));
    }

    fn on_close(&mut self) {
        for trace in self.sides.iter().filter_map(|side| side.trace.as_ref()) {
            trace.borrow_mut().flush();
        }
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
