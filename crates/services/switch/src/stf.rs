//! Runs packet tests in STF, the field's test language, on a [`Harness`].
//!
//! As in p4c's runner for bmv2, what a test expects of each port is compared at the end, in order; what a test asks of
//! counters and registers is shown but does not decide (some tests of the public corpus want what other targets count).

use crate::control::{MeterRate, MirrorSession, Range};
use crate::datapath::TargetConfig;
use crate::harness::{Harness, HarnessError};
use crate::prepared::Prepared;
use barewire_p4::ir::{CounterId, Program};
use barewire_p4_formats::stf::{
    Command, Comparison, CounterIndex, CounterUnit, Expectations, Line, Mismatch, StfError, parse, resolve,
};
use barewire_p4_state::TableAction;
use std::collections::HashMap;
use std::sync::Arc;

/// Microseconds that `wait` stands for.
const WAIT_US: u64 = 1_000_000;
/// Microseconds between two packets of a test.
const GAP_US: u64 = 10;

/// Why a test could not be run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The test is not STF.
    #[error(transparent)]
    Syntax(#[from] StfError),
    /// The switch could not be made.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// A command was refused.
    #[error("line {line}: {message}")]
    Refused {
        /// Its line.
        line: u32,
        /// Why.
        message: String,
    },
}

/// What a test found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Packets sent in.
    pub sent: usize,
    /// Packets that came out.
    pub received: usize,
    /// Packets that the kernel handed over to user space, where it ran the program.
    pub handed_over: u64,
    /// What was not as expected; empty when the test passed.
    pub wrong: Vec<String>,
    /// What the test asked to be shown: registers, counters, and where a counter is not what the test says.
    pub shown: Vec<String>,
}

impl Outcome {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.wrong.is_empty()
    }
}

struct Run<'a> {
    program: &'a Program,
    harness: Harness,
    /// Handles of entries the test gave names: by table, and the handle.
    named: HashMap<String, (barewire_p4::ir::TableId, u64)>,
    expectations: Expectations,
    outcome: Outcome,
}

/// Run a test.
///
/// # Errors
/// [`RunError`]; expectations that are not met are no error but in the [`Outcome`].
pub fn run(prepared: Arc<Prepared>, target: TargetConfig, text: &str) -> Result<Outcome, RunError> {
    let lines = parse(text)?;
    let program = Arc::clone(&prepared.program);
    let mut run = Run {
        program: &program,
        harness: Harness::new(prepared, target)?,
        named: HashMap::new(),
        expectations: Expectations::of(&lines),
        outcome: Outcome { sent: 0, received: 0, handed_over: 0, wrong: Vec::new(), shown: Vec::new() },
    };
    for line in &lines {
        run.line(line).map_err(|message| RunError::Refused { line: line.number, message })?;
    }
    run.settle();
    run.outcome.handed_over = run.harness.handed_over;
    run.outcome.wrong.append(&mut run.harness.failures);
    if let Err(wrong) = run.expectations.finish() {
        run.outcome.wrong.extend(wrong.iter().map(Mismatch::to_string));
    }
    Ok(run.outcome)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Run<'_> {
    fn take(&mut self, sent: Vec<crate::harness::Sent>) {
        for packet in sent {
            self.outcome.received += 1;
            self.expectations.received(packet.port, &packet.bytes);
        }
    }

    /// Let whatever waits (queues with a rate) come out.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.harness.advance_us(WAIT_US / 100);
            let sent = self.harness.poll();
            self.take(sent);
        }
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        let program = self.program;
        let switch = self.harness.switch().clone();
        let narrow = |value: u64| u32::try_from(value).map_err(|_| format!("{value} is too large"));
        let all_narrow =
            |values: &[u64]| values.iter().map(|&value| narrow(value)).collect::<Result<Vec<_>, _>>();
        match &line.command {
            Command::Add { table, priority, key, action, id } => {
                let entry = resolve::entry(program, table, *priority, key, action).map_err(text)?;
                let call = self.entry_action(entry.table, entry.call)?;
                let handle = switch.add_entry(entry.table, entry.key, entry.priority, call).map_err(text)?;
                if let Some(id) = id {
                    self.named.insert(id.clone(), (entry.table, handle));
                }
            }
            Command::SetDefault { table, action } => {
                let table = resolve::table(program, table).map_err(text)?;
                let call = resolve::action(program, table, action).map_err(text)?;
                let call = self.entry_action(table, call)?;
                switch.set_default(table, call).map_err(text)?;
            }
            Command::RemoveAll => {
                for (at, table) in program.tables.iter().enumerate() {
                    if !table.immutable {
                        switch.clear_table(at.into(), false).map_err(text)?;
                    }
                }
            }
            Command::Packet { port, bytes } => {
                self.harness.advance_us(GAP_US);
                let sent = self.harness.send(*port, bytes).ok_or("the packet is longer than a frame")?;
                self.outcome.sent += 1;
                self.take(sent);
            }
            // Both are judged at the end: `no_packet` says that nothing else is expected, which is the rule anyway.
            Command::Expect { .. } | Command::NoPacket => {}
            Command::Wait => self.settle(),
            Command::CheckCounter { counter, index, check } => {
                self.check_counter(counter, index, check.as_ref(), line)?
            }
            Command::MirroringAdd { session, port } => {
                let session_is =
                    MirrorSession { egress_port: Some(narrow(*port)?), ..MirrorSession::default() };
                switch.set_mirror(narrow(*session)?, session_is).map_err(text)?;
            }
            Command::MirroringAddMc { session, group } => {
                let session_is =
                    MirrorSession { multicast_group: Some(narrow(*group)?), ..MirrorSession::default() };
                switch.set_mirror(narrow(*session)?, session_is).map_err(text)?;
            }
            Command::MirroringDelete(session) => switch.delete_mirror(narrow(*session)?).map_err(text)?,
            Command::MirroringGet(session) => {
                let shown = switch.mirror(narrow(*session)?).map_err(text)?;
                self.outcome.shown.push(format!("mirroring session {session}: {shown:?}"));
            }
            Command::McGroupCreate(group) => switch.mc_create(narrow(*group)?).map_err(text)?,
            Command::McNodeCreate { rid, ports } => {
                switch.node_create(narrow(*rid)?, &all_narrow(ports)?, &[]).map_err(text)?;
            }
            Command::McNodeUpdate { node, ports } => {
                switch.node_update(narrow(*node)?, &all_narrow(ports)?, &[]).map_err(text)?;
            }
            Command::McNodeAssociate { group, node } => {
                switch.node_associate(narrow(*group)?, narrow(*node)?).map_err(text)?;
            }
            Command::CounterRead { counter, index } => {
                let id = resolve::counter(program, counter).map_err(text)?;
                let (packets, bytes) = self.counter(id, *index);
                self.outcome.shown.push(format!("{counter}[{index}]: {packets} packets, {bytes} bytes"));
            }
            Command::CounterWrite { counter, index, packets, bytes } => {
                let id = resolve::counter(program, counter).map_err(text)?;
                let value = crate::control::CounterValue { packets: *packets, bytes: *bytes };
                switch.write_counter(id, *index, value).map_err(text)?;
            }
            Command::RegisterRead { register, index } => {
                let id = resolve::register(program, register).map_err(text)?;
                let plane = self.harness.plane();
                let kernel = plane.kernel.as_ref().and_then(|kernel| kernel.register(id, *index));
                let value = kernel.unwrap_or_else(|| {
                    barewire_p4::state::State::register(&mut *plane.datapath.state, id, *index)
                });
                self.outcome.shown.push(format!("{register}[{index}]: {value}"));
            }
            Command::RegisterWrite { register, index, value } => {
                let id = resolve::register(program, register).map_err(text)?;
                switch.write_registers(id, Range::One(*index), value).map_err(text)?;
            }
            Command::RegisterReset(register) => {
                let id = resolve::register(program, register).map_err(text)?;
                switch.reset_registers(id).map_err(text)?;
            }
            Command::MeterGetRates { meter, index } => {
                let id = resolve::meter(program, meter).map_err(text)?;
                let rates = switch.meter_rates(id, *index).map_err(text)?;
                self.outcome.shown.push(format!("{meter}[{index}]: {rates:?}"));
            }
            Command::MeterSetRates { meter, index, rates } => {
                let id = resolve::meter(program, meter).map_err(text)?;
                switch.set_meter(id, Range::One(*index), &meter_rates(rates)?).map_err(text)?;
            }
            Command::MeterArraySetRates { meter, rates } => {
                let id = resolve::meter(program, meter).map_err(text)?;
                switch.set_meter(id, Range::All, &meter_rates(rates)?).map_err(text)?;
            }
        }
        self.harness.apply();
        Ok(())
    }

    /// STF writes actions into entries of indirect tables too: such an entry gets a member of its own.
    fn entry_action(
        &self,
        table: barewire_p4::ir::TableId,
        call: barewire_p4::ir::ActionCall,
    ) -> Result<TableAction, String> {
        match self.program.tables[table.at()].source {
            barewire_p4::ir::TableActions::Direct => Ok(TableAction::Call(call)),
            barewire_p4::ir::TableActions::Profile(profile) => {
                self.harness.switch().add_member(profile, call).map(TableAction::Member).map_err(text)
            }
        }
    }

    fn counter(&mut self, id: CounterId, index: u64) -> (u64, u64) {
        let plane = self.harness.plane();
        let [packets, bytes] = plane.datapath.state.read_counter(id, index).unwrap_or_default();
        let [more, long] = plane.kernel.as_ref().map_or([0, 0], |kernel| kernel.counter(id, index));
        (packets + more, bytes + long)
    }

    fn check_counter(
        &mut self,
        counter: &str,
        index: &CounterIndex,
        check: Option<&(CounterUnit, Comparison, u64)>,
        line: &Line,
    ) -> Result<(), String> {
        let id = resolve::counter(self.program, counter).map_err(text)?;
        let (packets, bytes) = match index {
            CounterIndex::Index(index) => self.counter(id, *index),
            CounterIndex::Entry(name) => {
                let (table, handle) =
                    *self.named.get(name).ok_or_else(|| format!("no entry is named '{name}'"))?;
                let plane = self.harness.plane();
                let stats = plane.datapath.state.stats(table, Some(handle as u32)).map_err(text)?;
                let kernel = plane.kernel.as_ref();
                let [more, long] = kernel.map_or([0, 0], |kernel| kernel.direct(table, Some(handle as u32)));
                (stats.packets + more, stats.bytes + long)
            }
        };
        let Some((unit, comparison, expected)) = check else {
            self.outcome.shown.push(format!("{counter}: {packets} packets, {bytes} bytes"));
            return Ok(());
        };
        let found = match unit {
            CounterUnit::Packets => packets,
            CounterUnit::Bytes => bytes,
        };
        let holds = match comparison {
            Comparison::Equal => found == *expected,
            Comparison::NotEqual => found != *expected,
            Comparison::Less => found < *expected,
            Comparison::LessOrEqual => found <= *expected,
            Comparison::Greater => found > *expected,
            Comparison::GreaterOrEqual => found >= *expected,
        };
        if !holds {
            let at = line.number;
            self.outcome
                .shown
                .push(format!("line {at}: {counter} is {found} {unit:?}, not {comparison:?} {expected}"));
        }
        Ok(())
    }
}

fn meter_rates(rates: &[barewire_p4_formats::stf::MeterRate]) -> Result<Vec<MeterRate>, String> {
    let rate = |rate: &barewire_p4_formats::stf::MeterRate| {
        let burst =
            u32::try_from(rate.burst).map_err(|_| format!("a burst of {} is too large", rate.burst))?;
        Ok(MeterRate { units_per_us: rate.per_us, burst })
    };
    rates.iter().map(rate).collect()
}
