//! A program's form for the kernel, alone: `BPF_PROG_TEST_RUN` on the workload's packets, without any interface.
//!
//! What is timed is the program with its look-ups, by the kernel, between the first and the last of so many runs on one packet. What a
//! driver, a redirect or a socket costs is not in it. A run changes the packet that the next one gets: its time to live goes down, so
//! there are fewer runs than that allows; and where its length changes, one run each. At XDP the kernel patches its dispatcher before
//! the first of several runs, which then finds caches cold: what few runs take is taken off what many take.

use super::mem::MemCell;
use super::program::kind_of;
use super::row::{ENGINE, Told, carried, interleave, subject, tell_checked};
use super::setup::apply;
use super::workload::{IN_PORT, Workload};
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::row::{Measure, Measured, Row, Subject};
use crate::run;
use barewire_base::Duration;
use barewire_measure::{Contention, stamp};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::Harness;
use barewire_switch::prepared::EngineKind;
use std::sync::Arc;

/// Runs on a packet between two readings of the clock: the workloads' packets have a time to live of 64.
const REPEAT: u32 = 48;
/// Runs whose time is taken off that: as many as make the kernel prepare itself for more.
const FIRST: u32 = 2;

/// One program at one hook.
struct Rig<'a> {
    cell: &'a MemCell,
    over: &'static str,
    harness: Harness,
    workload: Workload,
    next: usize,
    repeat: u32,
    duration: Duration,
    command: &'a str,
    load_us: u64,
    writes_per_s: f64,
    checked: u64,
    /// Why nothing is run.
    void: Option<String>,
}

impl<'a> Rig<'a> {
    fn build(
        cell: &'a MemCell,
        tc: bool,
        duration: Duration,
        command: &'a str,
    ) -> Result<Rig<'a>, BenchError> {
        let begin = stamp();
        let prepared = cell.source.prepare(EngineKind::Kernel)?;
        let load_us = stamp().since(begin).as_nanos() / 1000;
        if let (true, Some(Err(why))) = (tc, prepared.kernel().map(|compiled| compiled.tc.as_ref())) {
            return Err(BenchError::Plan(format!("program {} at tc: {why}", cell.source.name)));
        }
        let workload = Workload::make(kind_of(&prepared.program)?, &cell.spec)?;
        let target = TargetConfig { pass_offloads: tc, ..TargetConfig::default() };
        let mut harness = Harness::new(Arc::new(prepared), target)
            .map_err(|error| BenchError::Plan(format!("program {}: {error}", cell.source.name)))?;
        let begin = stamp();
        let switch = harness.switch().clone();
        let written = apply(&switch, &workload.steps, &mut || harness.apply())?;
        harness.apply();
        let took = stamp().since(begin).as_secs_f64().max(1e-9);
        Ok(Rig {
            cell,
            over: if tc { "test-run at tc" } else { "test-run at xdp" },
            harness,
            workload,
            next: 0,
            repeat: REPEAT,
            duration,
            command,
            load_us,
            writes_per_s: written as f64 / took,
            checked: 0,
            void: None,
        })
    }

    /// Each packet by itself: it becomes what it has to.
    fn check(&mut self) {
        for flow in 0..self.workload.flows.len() {
            let packet = self.workload.packet(flow);
            let sent = self.harness.send(IN_PORT, &packet).unwrap_or_default();
            let expected = usize::from(!self.workload.flows[flow].fates.is_empty());
            if sent.len() != expected {
                let became = sent.len();
                self.void = Some(format!("wrong: packet {flow} became {became} packets and not {expected}"));
                return;
            }
            if let Some(why) =
                sent.iter().find_map(|sent| self.workload.check(flow, sent.port, &sent.bytes).err())
            {
                self.void = Some(format!("wrong: {why}"));
                return;
            }
            self.checked += 1;
            if sent.iter().any(|sent| sent.bytes.len() != packet.len()) {
                self.repeat = 1;
            }
        }
        let handed_over = self.harness.handed_over;
        if handed_over > 0 {
            self.void = Some(format!("{handed_over} packets are for user space"));
        }
        if let Some(failure) = self.harness.failures.first() {
            self.void = Some(failure.clone());
        }
    }

    fn run(&mut self) -> Result<Measured, BenchError> {
        let watch = Contention::start().threads(1);
        let start = stamp();
        let (mut before, mut ns, mut packets) = (0_u64, 0_u64, 0_u64);
        while stamp().since(start) < self.duration && !crate::interrupted() {
            let packet = self.workload.packet(self.next);
            self.next = (self.next + 1) % self.workload.flows.len();
            let Some(kernel) = &self.harness.plane().kernel else {
                return Err(BenchError::Plan("the kernel has no program".to_owned()));
            };
            let time = |runs: u32| {
                let each = kernel.time(&packet, runs).map_err(BenchError::io("bpf(BPF_PROG_TEST_RUN)"))?;
                Ok::<_, BenchError>(u64::from(each) * u64::from(runs))
            };
            let first = if self.repeat > FIRST { FIRST } else { 0 };
            before += if first > 0 { time(first)? } else { 0 };
            ns += time(self.repeat)?;
            packets += u64::from(self.repeat - first);
        }
        let report = watch.finish();
        // Over all packets: of a single one either part may have been interrupted.
        let run = match ns.checked_sub(before).filter(|ns| *ns > 0) {
            Some(ns) => carried(packets as f64 * 1e9 / ns as f64),
            None => {
                let mut run = Measured::default().metered(None, None);
                run.void = Some(format!(
                    "the first passes, which are not counted, took {before} ns, and all of them {ns} ns"
                ));
                run
            }
        };
        Ok(run.watched(&report))
    }
}

impl run::Workload for Rig<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let subject = subject("barewire", self.over, &self.cell.source, &self.workload, self.command);
        vec![Subject { engine: Some(EngineKind::Kernel.to_string()), ..subject }]
    }

    fn measures(&self) -> &'static [Measure] {
        ENGINE
    }

    fn planned(&self) -> Duration {
        self.duration
    }

    fn shows_that_it_was_tried(&self) -> bool {
        true
    }

    fn slice(&mut self, _: u32, _: &Charge) -> Result<Vec<Measured>, BenchError> {
        Ok(if self.void.is_some() { Vec::new() } else { vec![self.run()?] })
    }

    fn judge(&self, row: &mut Row) {
        row.notes.extend(self.workload.notes.iter().cloned());
        row.notes.push(match self.repeat {
            ..=FIRST => format!("the program alone, {} run on each packet", self.repeat),
            more => format!("the program alone, {more} runs on each packet, the first {FIRST} not counted"),
        });
        row.void = self.void.clone().or(row.void.take());
        row.set("checked", self.checked as f64);
        tell_checked(row);
        row.set("table_writes_per_s", self.writes_per_s);
        row.set("load_us", self.load_us as f64);
        row.set("seconds", self.duration.as_secs_f64());
    }
}

/// Runs a program at XDP and, where it has a form for it, at tc, in turn: a row for each, and why they failed.
///
/// # Errors
/// [`BenchError`] when it has no form for the kernel, or the kernel takes none.
pub fn measure(
    cell: &MemCell,
    runs: u32,
    duration: Duration,
    command: &str,
    told: Told<'_>,
) -> Result<run::Outcome, BenchError> {
    let mut rigs = vec![Rig::build(cell, false, duration, command)?];
    go_on()?;
    match Rig::build(cell, true, duration, command) {
        Ok(rig) => rigs.push(rig),
        Err(error) => (told.tell)(error.to_string()),
    }
    rigs.iter_mut().for_each(Rig::check);
    Ok(interleave(rigs, runs, told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::program::NAMES;
    use crate::switch::workload::{Masks, Spec};
    use barewire_testing::{Needs, have};

    #[test]
    fn every_program_forwards_what_it_has_to_in_the_kernel() {
        let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
        for name in NAMES {
            let spec = Spec { size: 64, entries: 50, masks: Masks::Some(4), flows: Some(100), seed: 3 };
            let cell = MemCell { source: name.parse().unwrap(), engine: EngineKind::Kernel, spec };
            let told = Told { tell: &mut |_| {}, keep: &mut |_| {} };
            let rows = match measure(&cell, 1, Duration::from_millis(10), "test", told) {
                Ok((rows, _)) => rows,
                Err(error) => {
                    println!("{name} has no form for the kernel: {error}");
                    continue;
                }
            };
            for row in &rows {
                let in_user_space = row.void.as_ref().is_some_and(|why| why.contains("for user space"));
                assert!(row.void.is_none() || in_user_space, "{name}: {row:?}");
                assert_eq!(row.number("checked"), Some(100.0), "{name}: {row:?}");
                assert!(in_user_space || row.number("ns_per_packet") > Some(0.0), "{name}: {row:?}");
            }
        }
    }
}
