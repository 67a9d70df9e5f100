//! Our switch without threads, programmed by the same lines.

use super::scenario::{GAP_US, Scenario};
use barewire_base::DropReason;
use barewire_p4::interp::trace::Event;
use barewire_p4::phv::Phv;
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

/// What headers hold that are not valid: a program must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// Zeros.
    None,
    /// Random bits.
    Random(u64),
    /// What the packet so many before left there, as in bmv2.
    Stale(usize),
}

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
    noise: Noise,
    /// Vectors of the packets before, the last first.
    left: Vec<Phv>,
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
        let (done, refusals) = (Vec::new(), Vec::new());
        let mut ours = Ours { harness, session, noise: Noise::None, left: Vec::new(), done, refusals };
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

    /// Headers that are not valid hold this from now on.
    pub fn scramble(&mut self, noise: Noise) {
        self.noise = noise;
        if let Noise::Random(seed) = noise {
            self.harness.plane().datapath.scramble(seed);
        }
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
        if let Noise::Stale(back) = self.noise {
            let datapath = &mut self.harness.plane().datapath;
            self.left.insert(0, datapath.vector().clone());
            self.left.truncate(back);
            if let Some(left) = self.left.get(back - 1) {
                datapath.scramble_with(left);
            }
        }
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
pub fn meaningful(prepared: &Arc<Prepared>, scenario: &Scenario, noise: Noise) -> Result<Vec<bool>, String> {
    let mut ours = Ours::start(prepared, &scenario.lines)?;
    ours.scramble(noise);
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
pub fn run(prepared: &Arc<Prepared>, scenario: &Scenario, noise: Noise) -> Result<(Ours, Vec<Fate>), String> {
    let mut ours = Ours::start(prepared, &scenario.lines)?;
    ours.scramble(noise);
    let fates = scenario.packets.iter().map(|(port, bytes)| ours.send(*port, bytes)).collect();
    Ok((ours, fates))
}
