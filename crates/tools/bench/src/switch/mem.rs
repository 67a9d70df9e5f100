//! The engine alone: a generator fills a memory port, the switch works, a sink empties the others, all in one thread.
//!
//! Only the switch's duty cycle is timed, a few bursts at a time, and the cost of reading the clock is taken off. What the
//! cycle includes: taking frames out of one memory ring and putting them into another (a copy each), the program, the tables,
//! the look at the control side's queue.

use super::program::{Source, kind_of};
use super::row::{ENGINE, Told, carried, interleave, subject, tell_checked};
use super::setup::apply;
use super::workload::{IN_PORT, Spec, Workload, payload_byte};
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::render::rate;
use crate::row::{Measure, Measured, Row, Subject};
use crate::run;
use crate::search::Outcome;
use barewire_base::{Duration, Instant};
use barewire_engine::Agent;
use barewire_frame::{BURST_MAX, Burst, Pool, PoolConfig};
use barewire_measure::{ClockCost, Contention, clock_cost, stamp};
use barewire_port::{MemoryConfig, MemoryLink, MemoryPort, Port};
use barewire_switch::agent::SwitchAgent;
use barewire_switch::control::{Switch, SwitchConfig};
use barewire_switch::datapath::{Datapath, TargetConfig};
use barewire_switch::plane::Plane;
use barewire_switch::ports::Ports;
use barewire_switch::prepared::{EngineKind, Prepared};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Bursts between two readings of the clock.
const SPAN_BURSTS: usize = 4;
/// Frames of each pool.
const FRAMES: u32 = 1024;
/// Room in front of a frame for headers that a program adds.
const HEADROOM: u32 = 640;
/// Packets that may wait before the switch in [`Rig::offered`].
const RING: u64 = 512;
/// Spans between two looks at whether somebody interrupted.
const SPANS_PER_LOOK: u64 = 256;

/// One engine at one point of a sweep.
#[derive(Clone, Debug)]
pub struct MemCell {
    /// The program.
    pub source: Source,
    /// What runs it.
    pub engine: EngineKind,
    /// Entries and packets.
    pub spec: Spec,
}

/// What the agent shows.
#[derive(Default)]
pub(super) struct View {
    pub(super) drops: BTreeMap<String, u64>,
    pub(super) finished: bool,
}

impl View {
    pub(super) fn look(&mut self, plane: &Plane) {
        self.drops.clear();
        for (reason, count) in plane.datapath.drops().iter() {
            if count > 0 {
                self.drops.insert(reason.as_str().to_owned(), count);
            }
        }
        let (reason, count) = plane.ports.unknown();
        let tx: u64 = plane.ports.slots().iter().map(|slot| slot.tx_dropped()).sum();
        for (reason, count) in [(reason.as_str(), count), ("port full or gone", tx)] {
            if count > 0 {
                *self.drops.entry(reason.to_owned()).or_default() += count;
            }
        }
        for slot in plane.ports.slots() {
            for (reason, count) in slot.port().counters().drops.iter() {
                if count > 0 {
                    *self.drops.entry(format!("port {}: {}", slot.number(), reason.as_str())).or_default() +=
                        count;
                }
            }
        }
        self.finished = plane.ports.is_finished();
    }
}

/// A prepared program, its workload, and how long the one took to load.
pub(super) struct Loaded {
    pub(super) prepared: Arc<Prepared>,
    pub(super) workload: Workload,
    pub(super) load_us: u64,
}

pub(super) fn load(source: &Source, engine: EngineKind, spec: &Spec) -> Result<Loaded, BenchError> {
    let start = stamp();
    let prepared = source.prepare(engine)?;
    let load_us = stamp().since(start).as_nanos() / 1000;
    let workload = Workload::make(kind_of(&prepared.program)?, spec)?;
    Ok(Loaded { prepared: Arc::new(prepared), workload, load_us })
}

/// A switch without ports yet, whose control side no thread looks after.
pub(super) fn control(prepared: &Arc<Prepared>, started: Instant) -> Result<Switch, BenchError> {
    let config = SwitchConfig {
        sweep_interval: std::time::Duration::ZERO,
        clock: Box::new(move || stamp().since(started).as_nanos() / 1000),
        ..SwitchConfig::default()
    };
    Switch::new(config, Some(Arc::clone(prepared))).map_err(BenchError::control("starting the switch"))
}

/// An agent over `ports`, with what it shows.
pub(super) fn agent(
    switch: &Switch,
    ports: Ports,
    pool: Pool,
    started: Instant,
) -> (SwitchAgent, Rc<RefCell<View>>) {
    let mut plane = Plane::new(Datapath::new(TargetConfig::default(), 0, started), ports, pool, None);
    let mut inbox = switch.attach(Box::new(|| {}));
    inbox.drain(&mut plane);
    let view: Rc<RefCell<View>> = Rc::default();
    let shown = Rc::clone(&view);
    let publish = move |plane: &Plane, _: Instant| shown.borrow_mut().look(plane);
    (SwitchAgent::new(plane, inbox, Box::new(publish)), view)
}

/// Generator, switch and sinks.
pub struct Rig {
    agent: SwitchAgent,
    view: Rc<RefCell<View>>,
    source: MemoryPort,
    sinks: Vec<(u32, MemoryPort)>,
    pool: Pool,
    workload: Workload,
    payload: Vec<u8>,
    next: usize,
    tx: Burst,
    rx: Burst,
    load_us: u64,
    writes_per_s: f64,
}

/// Frames that hold packets of `size` bytes and what a program puts in front.
pub(super) fn pool(size: u32) -> Result<Pool, BenchError> {
    let default = PoolConfig::default().chunk_len;
    let chunk_len = if size + 2 * HEADROOM <= default { default } else { 2 * default };
    let config = PoolConfig { frames: FRAMES, chunk_len, headroom: HEADROOM, ..PoolConfig::default() };
    Pool::new(config).map_err(|e| BenchError::Plan(e.to_string()))
}

impl Rig {
    /// Loads the program, writes the entries, opens the ports.
    ///
    /// # Errors
    /// [`BenchError`] when the program, an entry or the workload is refused.
    pub fn build(cell: &MemCell) -> Result<Rig, BenchError> {
        let Loaded { prepared, workload, load_us } = load(&cell.source, cell.engine, &cell.spec)?;
        let started = stamp();
        let switch = control(&prepared, started)?;
        let mine = pool(workload.size)?;
        let mut ports = Ports::new(None);
        let (source, near) = MemoryLink::new(MemoryConfig::default())?;
        ports.add_open(IN_PORT, "mem:in".to_owned(), Box::new(near.open(mine.clone())));
        let outside = pool(workload.size)?;
        let mut sinks = Vec::new();
        for &port in &workload.out_ports {
            let (near, far) = MemoryLink::new(MemoryConfig::default())?;
            ports.add_open(port, format!("mem:out{port}"), Box::new(near.open(mine.clone())));
            sinks.push((port, far.open(outside.clone())));
        }
        let (mut agent, view) = agent(&switch, ports, mine, started);
        let begin = stamp();
        let written = apply(&switch, &workload.steps, &mut || {
            agent.do_work(stamp());
        })?;
        let took = stamp().since(begin).as_secs_f64().max(1e-9);
        let payload = (0..workload.size as usize).map(payload_byte).collect();
        Ok(Rig {
            agent,
            view,
            source: source.open(outside.clone()),
            sinks,
            pool: outside,
            workload,
            payload,
            next: 0,
            tx: Burst::new(),
            rx: Burst::new(),
            load_us,
            writes_per_s: written as f64 / took,
        })
    }

    /// Puts the next packet into the burst to be sent.
    #[inline]
    fn put(&mut self) {
        let Some(mut frame) = self.pool.alloc() else { return };
        if !frame.set_len(self.payload.len()) {
            return;
        }
        let header = &self.workload.flows[self.next].header;
        let bytes = frame.data_mut();
        bytes[..header.len()].copy_from_slice(header);
        bytes[header.len()..].copy_from_slice(&self.payload[header.len()..]);
        self.next += 1;
        if self.next == self.workload.flows.len() {
            self.next = 0;
        }
        // There was room: the frame goes back to its pool otherwise.
        let _ = self.tx.push(frame);
    }

    /// Offers the switch up to `bursts` bursts; says how many packets.
    fn offer(&mut self, bursts: usize, now: Instant) -> u64 {
        let mut sent = 0;
        for _ in 0..bursts {
            while self.tx.room() > 0 {
                let before = self.tx.room();
                self.put();
                if self.tx.room() == before {
                    break;
                }
            }
            sent += self.source.tx_burst(now, &mut self.tx).unwrap_or(0) as u64;
        }
        sent
    }

    /// Takes what came out; says how many packets.
    fn collect(&mut self, now: Instant) -> u64 {
        let mut got = 0;
        for (_, sink) in &mut self.sinks {
            while let Ok(n @ 1..) = sink.rx_burst(now, &mut self.rx) {
                got += n as u64;
                self.rx.clear();
            }
        }
        got
    }

    /// Sends each packet by itself and compares what comes out with what had to. Says how many.
    ///
    /// # Errors
    /// The first packet that became something else.
    pub fn check(&mut self) -> Result<u64, String> {
        let now = stamp();
        for flow in 0..self.workload.flows.len() {
            self.next = flow;
            self.put();
            if self.source.tx_burst(now, &mut self.tx).unwrap_or(0) != 1 {
                return Err("the switch takes no packet".to_owned());
            }
            self.agent.do_work(now);
            let mut seen = 0;
            for (port, sink) in &mut self.sinks {
                let _ = sink.rx_burst(now, &mut self.rx);
                let wrong = self.rx.iter().find_map(|f| self.workload.check(flow, *port, f.data()).err());
                seen += self.rx.len();
                // Also when one is wrong: the next check begins with nothing under way.
                self.rx.clear();
                wrong.map_or(Ok(()), Err)?;
            }
            let expected = usize::from(!self.workload.flows[flow].fates.is_empty());
            if seen != expected {
                self.agent.publish(now);
                return Err(format!(
                    "packet {flow} became {seen} packets and not {expected}; drops: {:?}",
                    self.view.borrow().drops
                ));
            }
        }
        self.next = 0;
        Ok(self.workload.flows.len() as u64)
    }

    /// Runs for `duration`.
    #[inline(never)]
    pub fn run(&mut self, duration: Duration, clock: ClockCost) -> Measured {
        let watch = Contention::start().threads(1);
        let start = stamp();
        let (mut switch_ns, mut spans, mut sent, mut got) = (0, 0_u64, 0, 0);
        let mut now = start;
        let passed = loop {
            sent += self.offer(SPAN_BURSTS, now);
            let begin = stamp();
            for _ in 0..SPAN_BURSTS {
                self.agent.do_work(begin);
            }
            now = stamp();
            switch_ns += now.since(begin).as_nanos();
            spans += 1;
            got += self.collect(now);
            let passed = now.since(start);
            if passed >= duration || (spans.is_multiple_of(SPANS_PER_LOOK) && crate::interrupted()) {
                break passed;
            }
        };
        // What the last span left in a queue.
        for _ in 0..SPAN_BURSTS {
            self.agent.do_work(now);
            got += self.collect(now);
        }
        let report = watch.finish();
        let own_ns = switch_ns.saturating_sub(spans * clock.median_ns).max(1);
        self.agent.publish(now);
        let mut run = carried(got as f64 * 1e9 / own_ns as f64)
            .number("loop_rate_pps", got as f64 / passed.as_secs_f64().max(1e-9))
            .watched(&report);
        run.void = (got != sent).then(|| {
            format!("{sent} packets were sent and {got} came out; drops: {:?}", self.view.borrow().drops)
        });
        run
    }

    /// Packets that the switch and everything around it carry in a second, without a pause.
    pub fn most_per_s(&mut self, duration: Duration) -> f64 {
        let no_cost = ClockCost { median_ns: 0, ..clock_cost() };
        self.run(duration, no_cost).of("loop_rate_pps").unwrap_or(0.0)
    }

    /// `load` packets a second fall due for `duration`, on an absolute schedule, and wait before the switch, at most `RING`
    /// of them: one that finds no room is lost. The generator is never behind, as nothing is sent that was not due: what its
    /// own work costs is the switch's time.
    #[inline(never)]
    pub fn offered(&mut self, load: u64, duration: Duration) -> Outcome {
        let start = stamp();
        let due_at = |passed: Duration| (passed.as_secs_f64() * load as f64) as u64;
        let (mut sent, mut lost, mut got) = (0, 0, 0);
        let mut spans = 0_u64;
        let due = loop {
            let now = stamp();
            let passed = now.since(start).min(duration);
            let due = due_at(passed);
            let waiting = due - sent - lost;
            lost += waiting.saturating_sub(RING);
            let most = (SPAN_BURSTS * BURST_MAX) as u64;
            sent += self.offer_some(waiting.min(RING).min(most), now);
            for _ in 0..SPAN_BURSTS {
                self.agent.do_work(now);
            }
            got += self.collect(now);
            spans += 1;
            let interrupted = spans.is_multiple_of(SPANS_PER_LOOK) && crate::interrupted();
            if (passed >= duration && due == sent + lost) || interrupted {
                break due;
            }
        };
        let now = stamp();
        for _ in 0..SPAN_BURSTS {
            self.agent.do_work(now);
            got += self.collect(now);
        }
        Outcome { sent: due, bad: lost + sent.saturating_sub(got), offered: true }
    }

    /// Offers up to `packets` packets; says how many the port took.
    fn offer_some(&mut self, packets: u64, now: Instant) -> u64 {
        let mut sent = 0;
        while sent < packets {
            // What the port did not take last time stands first.
            while (self.tx.len() as u64) < packets - sent && self.tx.room() > 0 {
                let before = self.tx.room();
                self.put();
                if self.tx.room() == before {
                    break;
                }
            }
            match self.source.tx_burst(now, &mut self.tx).unwrap_or(0) {
                0 => break,
                n => sent += n as u64,
            }
        }
        sent
    }

    /// Sends `packets` packets and works on them in [`counted_cycle`] only, for an instruction counter. Says how many came
    /// out.
    #[inline(never)]
    pub fn count(&mut self, packets: u64) -> u64 {
        let mut got = 0;
        while got < packets && !crate::interrupted() {
            let now = stamp();
            self.offer(1, now);
            counted_cycle(&mut self.agent, now);
            let more = self.collect(now);
            if more == 0 {
                break;
            }
            got += more;
        }
        got
    }
}

/// One duty cycle of the switch, under a name that callgrind can be told.
#[inline(never)]
pub fn counted_cycle(agent: &mut SwitchAgent, now: Instant) {
    agent.do_work(now);
}

/// An engine of its own rig, in turns with others.
struct Alone<'a> {
    cell: &'a MemCell,
    rig: Rig,
    runs: u32,
    duration: Duration,
    clock: ClockCost,
    command: &'a str,
    /// Packets that became what they had to, or the first one that did not.
    checked: Result<u64, String>,
}

impl run::Workload for Alone<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let subject = subject("barewire", "mem", &self.cell.source, &self.rig.workload, self.command);
        vec![Subject { engine: Some(self.cell.engine.to_string()), ..subject }]
    }

    fn measures(&self) -> &'static [Measure] {
        ENGINE
    }

    fn planned(&self) -> Duration {
        self.duration
    }

    fn slice(&mut self, round: u32, _: &Charge) -> Result<Vec<Measured>, BenchError> {
        let Ok(checked) = self.checked else { return Ok(Vec::new()) };
        // Caches, branch predictors and the clock's own cache line: a hundredth of the run, and not counted.
        self.rig.run(Duration::from_nanos(self.duration.as_nanos() / 100), self.clock);
        let run = self.rig.run(self.duration, self.clock);
        if round + 1 == self.runs && run.void.is_none() {
            // The tables have counted and cached: they must still say the same.
            self.checked = self.rig.check().map(|packets| checked + packets);
        }
        Ok(vec![run])
    }

    fn judge(&self, row: &mut Row) {
        let rig = &self.rig;
        row.notes.extend(rig.workload.notes.iter().cloned());
        if let Some(whole) = row.number("loop_rate_pps") {
            row.notes.push(format!("in memory, generator's time left out; loop rate {}", rate(whole)));
        }
        match &self.checked {
            Ok(packets) => row.set("checked", *packets as f64),
            Err(why) => row.void = Some(format!("wrong: {why}")),
        }
        tell_checked(row);
        row.set("table_writes_per_s", rig.writes_per_s);
        row.set("load_us", rig.load_us as f64);
        row.set("clock_ns", self.clock.median_ns as f64);
        row.set("seconds", self.duration.as_secs_f64());
        row.set_word("drops", json!(rig.view.borrow().drops));
    }
}

/// Runs all `cells` in turn, `runs` times, in this thread: a row for each, and why some could not be set up.
///
/// # Errors
/// [`BenchError::Interrupted`].
pub fn measure(
    cells: &[MemCell],
    runs: u32,
    duration: Duration,
    command: &str,
    told: Told<'_>,
) -> Result<run::Outcome, BenchError> {
    let clock = clock_cost();
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for cell in cells {
        go_on()?;
        match Rig::build(cell) {
            Ok(mut rig) => {
                let checked = rig.check();
                all.push(Alone { cell, rig, runs, duration, clock, command, checked });
            }
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(error) => failures.push(error),
        }
    }
    let (rows, failed) = interleave(all, runs, told);
    failures.extend(failed);
    Ok((rows, failures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::program::NAMES;
    use crate::switch::workload::Masks;

    fn cell(name: &str, engine: EngineKind) -> MemCell {
        let spec = Spec { size: 64, entries: 50, masks: Masks::Some(4), flows: Some(200), seed: 3 };
        MemCell { source: name.parse().unwrap(), engine, spec }
    }

    #[test]
    fn every_program_forwards_what_it_has_to_by_both_engines() {
        for name in NAMES {
            let cells = [cell(name, EngineKind::Native), cell(name, EngineKind::Interpreter)];
            let (rows, failures) = measure(
                &cells,
                2,
                Duration::from_millis(20),
                "test",
                Told { tell: &mut |_| {}, keep: &mut |_| {} },
            )
            .unwrap();
            assert!(failures.is_empty(), "{failures:?}");
            for (row, engine) in rows.iter().zip(["native", "interpreter"]) {
                assert_eq!(row.void, None, "{name}: {row:?}");
                let of = |key: &str| row.number(key).unwrap();
                assert_eq!(row.subject.engine.as_deref(), Some(engine));
                assert_eq!(of("checked"), 400.0, "{name}: once before, once after");
                assert_eq!(row.runs.len(), 2);
                let whole = format!("loop rate {}", rate(of("loop_rate_pps")));
                let said =
                    |note: &String| note.contains("generator's time left out") && note.contains(&whole);
                assert!(row.notes.iter().any(said), "the rate is quoted with what it leaves out: {row:?}");
                assert!(of("rate_pps") > 1000.0, "{row:?}");
                assert!(of("rate_pps") > of("loop_rate_pps"), "the loop does more than the switch: {row:?}");
                // Of one run: the mean of two inverses is not the inverse of the mean.
                let product = row.of_runs("rate_pps")[0] * row.of_runs("ns_per_packet")[0];
                assert!((product / 1e9 - 1.0).abs() < 0.01, "{product}");
                assert!(of("table_writes_per_s") > 0.0, "{row:?}");
                assert_eq!(serde_json::to_value(row).unwrap()["drops"], json!({}), "{row:?}");
            }
        }
    }

    #[test]
    fn a_wrong_expectation_voids_the_row() {
        let mut rig = Rig::build(&cell("simple_router", EngineKind::Interpreter)).unwrap();
        rig.workload.flows[17].fates[0].header[22] ^= 1;
        assert!(rig.check().unwrap_err().contains("byte 22 of packet 17"));
        // An entry that is missing: the packet is dropped, and the row says so.
        rig.workload.flows[17].header[30] = 0xdf;
        let why = rig.check().unwrap_err();
        assert!(why.contains("packet 17 became 0 packets"), "{why}");
    }

    #[test]
    fn packets_are_counted_one_by_one() {
        let mut rig = Rig::build(&cell("acl", EngineKind::Interpreter)).unwrap();
        let got = rig.count(100);
        assert!((100..164).contains(&got), "{got}");
    }
}
