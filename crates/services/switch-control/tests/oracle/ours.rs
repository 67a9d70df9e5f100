//! Our switch without threads, programmed by the same lines.

use super::scenario::{GAP_US, Scenario};
use barewire_base::DropReason;
use barewire_p4::interp::trace::Event;
use barewire_switch::control::Replica;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::Harness;
use barewire_switch::prepared::Prepared;
use barewire_switch_control::cli::Session;
use num_bigint::BigUint;
use std::sync::Arc;

/// Polls after which a packet is given up that goes round and round.
const ROUNDS: usize = 8;

/// A packet that does more than so many things has got into a loop.
const EVENTS_MAX: usize = 8000;

/// What became of a packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// What came out.
    pub out: Vec<(u32, Vec<u8>)>,
    /// It goes round for ever, or fills queues, or failed an assertion (bmv2 ends there).
    pub endless: bool,
}

/// One of our switches.
pub struct Ours {
    harness: Harness,
    session: Session,
    /// Whether each line was done.
    pub done: Vec<bool>,
    /// What each line said that was not done.
    pub refusals: Vec<(usize, String)>,
}

impl Ours {
    /// A switch with these lines done.
    pub fn start(prepared: &Arc<Prepared>, lines: &[String]) -> Result<Ours, String> {
        let harness =
            Harness::new(Arc::clone(prepared), TargetConfig::default()).map_err(|e| e.to_string())?;
        let session = Session::local(harness.switch().clone()).map_err(|e| e.to_string())?;
        let mut ours = Ours { harness, session, done: Vec::new(), refusals: Vec::new() };
        ours.program(lines);
        Ok(ours)
    }

    /// Do more lines.
    pub fn program(&mut self, lines: &[String]) {
        for line in lines {
            let outcome = self.session.run_line(line);
            if !outcome.ok {
                self.refusals.push((self.done.len(), outcome.text));
            }
            self.done.push(outcome.ok);
            self.harness.apply();
        }
    }

    /// Headers that are not valid hold noise.
    pub fn disturb(&mut self, seed: u64) {
        self.harness.plane().datapath.disturb(seed);
    }

    /// Send a packet.
    pub fn send(&mut self, port: u32, bytes: &[u8]) -> Fate {
        self.harness.advance_us(GAP_US);
        let bad = [
            DropReason::QueueFull,
            DropReason::AssertFailed,
            DropReason::AssumeFailed,
            DropReason::PoolEmpty,
        ];
        let count = |harness: &mut Harness| -> u64 {
            bad.iter().map(|reason| harness.plane().datapath.drops().get(*reason)).sum()
        };
        let before = count(&mut self.harness);
        let Some((sent, settled)) = self.harness.send_for(port, bytes, ROUNDS) else {
            return Fate { out: Vec::new(), endless: true };
        };
        let out = sent.into_iter().map(|s| (s.port, s.bytes)).collect();
        Fate { out, endless: !settled || count(&mut self.harness) != before }
    }

    /// Packets and bytes of a counter's cell.
    pub fn counter(&mut self, counter: usize, index: u64) -> (u64, u64) {
        let Some(state) = self.harness.plane().state() else { return (0, 0) };
        state.counters[counter].read(index).map_or((0, 0), |[packets, bytes]| (packets, bytes))
    }

    /// The numbers of a register array.
    pub fn registers(&mut self, register: usize) -> Vec<BigUint> {
        let Some(state) = self.harness.plane().state() else { return Vec::new() };
        let array = &state.registers[register];
        let cells = array.cells.chunks(array.words.max(1)).take(array.size as usize);
        cells
            .map(|cell| BigUint::new(cell.iter().flat_map(|&w| [w as u32, (w >> 32) as u32]).collect()))
            .collect()
    }

    /// Keep what happens to packets from now on.
    pub fn trace(&mut self) {
        self.harness.trace();
    }

    /// What happened since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        self.harness.take_trace()
    }
}

/// Whether all that each packet of a scenario does has a meaning, and an end.
pub fn meaningful(
    prepared: &Arc<Prepared>,
    scenario: &Scenario,
    noise: Option<u64>,
) -> Result<Vec<bool>, String> {
    let mut ours = Ours::start(prepared, &scenario.lines)?;
    if let Some(seed) = noise {
        ours.disturb(seed);
    }
    ours.trace();
    let sane = |events: &[Event]| {
        events.len() < EVENTS_MAX && !events.iter().any(|event| matches!(event, Event::Undefined { .. }))
    };
    let one = |(port, bytes): &(u32, Vec<u8>)| {
        ours.send(*port, bytes);
        sane(&ours.events())
    };
    Ok(scenario.packets.iter().map(one).collect())
}

/// The fates of all packets of a scenario.
pub fn run(
    prepared: &Arc<Prepared>,
    scenario: &Scenario,
    noise: Option<u64>,
) -> Result<(Ours, Vec<Fate>), String> {
    let mut ours = Ours::start(prepared, &scenario.lines)?;
    if let Some(seed) = noise {
        ours.disturb(seed);
    }
    let fates = scenario.packets.iter().map(|(port, bytes)| ours.send(*port, bytes)).collect();
    Ok((ours, fates))
}
