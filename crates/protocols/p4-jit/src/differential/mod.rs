//! Compiled code against the interpreter: random packets and entries through both, everything compared.
//!
//! [`Pair`] holds a program, both engines and a state for each; [`Pair::populate`] fills the states alike, and
//! [`Pair::packet`] sends one packet through both. [`packets`] makes packets that get deep into a parser, [`programs`]
//! random programs. All of it follows from a seed.

pub mod entries;
pub mod packets;
pub mod programs;

use crate::{CompileError, Compiled, Options, compile_with};
use barewire_base::Prng;
use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::interp::trace::{Event, Tracer};
use barewire_p4::ir::{CounterId, FieldId, HeaderId, Program, RegisterId, TableId};
use barewire_p4::phv::{Phv, Place, slot};
use barewire_p4_state::ProgramState;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// What differed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// After which step.
    pub step: String,
    /// What the interpreter had, what the compiled code had.
    pub what: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.step, self.what)
    }
}

/// What of a program was reached, as the interpreter saw it.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// Parser states entered.
    pub states: BTreeSet<String>,
    /// Actions run.
    pub actions: BTreeSet<String>,
    /// Tables hit.
    pub hit: BTreeSet<String>,
    /// Tables missed.
    pub missed: BTreeSet<String>,
    /// Conditions with an outcome they had.
    pub conditions: BTreeSet<(String, bool)>,
}

impl Tracer for Coverage {
    fn wants(&self) -> bool {
        true
    }

    fn record(&mut self, event: Event) {
        match event {
            Event::ParserState { state, .. } => {
                self.states.insert(state);
            }
            Event::Action { action, .. } => {
                self.actions.insert(action);
            }
            Event::Table { table, hit, .. } => {
                if hit { &mut self.hit } else { &mut self.missed }.insert(table);
            }
            Event::Condition { name, outcome } => {
                self.conditions.insert((name, outcome));
            }
            _ => {}
        }
    }
}

/// What one engine works on.
#[derive(Debug)]
struct Side {
    phv: Phv,
    state: ProgramState,
    out: Vec<u8>,
}

/// One program in both engines.
#[derive(Debug)]
pub struct Pair {
    program: Arc<Program>,
    interpreter: Interpreter,
    compiled: Compiled,
    left: Side,
    right: Side,
    keep_dead: bool,
    /// Fields that are set before a packet, by their names in the program.
    inputs: Vec<(FieldId, u64)>,
    now_us: u64,
    coverage: Option<Coverage>,
}

impl Pair {
    /// Compile a program and make empty states. Without `keep_dead` only what can be seen is compared.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Pair, CompileError> {
        let compiled = compile_with(Arc::clone(&program), options)?;
        let interpreter = Interpreter::new(Arc::clone(&program));
        let side = || {
            let mut state = ProgramState::with_program_entries(&program);
            state.seed_random(7);
            Side { phv: interpreter.plan().layout.new_phv(), state, out: Vec::new() }
        };
        let (left, right) = (side(), side());
        Ok(Pair {
            program,
            interpreter,
            compiled,
            left,
            right,
            keep_dead: options.keep_dead,
            inputs: Vec::new(),
            now_us: 1000,
            coverage: None,
        })
    }

    /// Both states as they were before the first packet.
    pub fn renew(&mut self) {
        for side in [&mut self.left, &mut self.right] {
            side.state = ProgramState::with_program_entries(&self.program);
            side.state.seed_random(7);
        }
    }

    /// Note from now on what is reached (which takes time).
    pub fn watch(&mut self) {
        self.coverage = Some(Coverage::default());
    }

    /// What was reached since [`Pair::watch`].
    pub fn coverage(&self) -> Option<&Coverage> {
        self.coverage.as_ref()
    }

    /// The compiled program.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Fill tables, profiles, registers, meters and value sets at random, alike on both sides. Many entries match what
    /// `samples` (packets) bring.
    pub fn populate(&mut self, prng: &mut Prng, samples: &[Vec<u8>]) {
        let mut vectors = Vec::new();
        for sample in samples {
            for parser in 0..self.program.parsers.len() {
                self.prepare(prng, sample.len());
                // Both states see the same, or they would differ before the first packet.
                let mut phv = self.left.phv.clone();
                let mut twin = phv.clone();
                self.interpreter.parse(parser, &mut phv, sample, &mut self.left.state);
                self.interpreter.parse(parser, &mut twin, sample, &mut self.right.state);
                vectors.push(phv.clone());
                // Metadata is what pipelines make of it.
                for pipeline in 0..self.program.pipelines.len() {
                    self.interpreter.run(pipeline, &mut phv, sample, &mut self.left.state);
                    self.interpreter.run(pipeline, &mut twin, sample, &mut self.right.state);
                    vectors.push(phv.clone());
                }
            }
        }
        let layout = &self.interpreter.plan().layout;
        let seed = prng.next_u64();
        for side in [&mut self.left, &mut self.right] {
            let mut prng = Prng::new(seed);
            entries::populate(&self.program, layout, &vectors, &mut prng, &mut side.state);
            side.state.seed_random(seed);
        }
    }

    /// Both vectors as a target would prepare them.
    fn prepare(&mut self, prng: &mut Prng, len: usize) {
        self.now_us += prng.below(5000);
        let layout = &self.interpreter.plan().layout;
        self.inputs.clear();
        for (name, value) in [
            ("standard_metadata.ingress_port", prng.below(8)),
            ("standard_metadata.packet_length", len as u64),
            ("standard_metadata.instance_type", if prng.chance(0.7) { 0 } else { prng.below(7) }),
            ("standard_metadata.egress_port", prng.below(8)),
            ("standard_metadata.egress_spec", prng.below(4)),
            ("standard_metadata.enq_qdepth", prng.below(64)),
            ("intrinsic_metadata.ingress_global_timestamp", self.now_us),
            ("psa_ingress_parser_input_metadata.ingress_port", prng.below(8)),
            ("psa_ingress_input_metadata.ingress_port", prng.below(8)),
            ("psa_egress_input_metadata.egress_port", prng.below(8)),
            ("psa_egress_parser_input_metadata.packet_path", prng.below(7)),
        ] {
            if let Some(field) = self.program.plain_field_or_alias(name) {
                self.inputs.push((field, value));
            }
        }
        for side in [&mut self.left, &mut self.right] {
            layout.reset(&mut side.phv);
            for (field, value) in &self.inputs {
                side.phv.set(layout, *field, *value);
            }
            side.phv.set_slot(slot::PACKET_LEN, len as u64);
            side.phv.set_slot(slot::NOW_US, self.now_us);
            side.phv.set_slot(slot::DROP_PORT, 511);
        }
    }

    /// Send a packet through both engines: every parser, pipeline and deparser, as the program's target orders them.
    pub fn packet(&mut self, packet: &[u8], prng: &mut Prng) -> Result<(), Mismatch> {
        self.prepare(prng, packet.len());
        let (parsers, deparsers) = (self.program.parsers.len(), self.program.deparsers.len());
        let pipelines = self.program.pipelines.len();
        if parsers <= 1 {
            self.parse(0, packet)?;
            for pipeline in 0..pipelines {
                self.run(pipeline, packet)?;
            }
            if deparsers > 0 {
                self.deparse(0, packet)?;
            }
            return Ok(());
        }
        let mut packet = packet.to_vec();
        for i in 0..parsers {
            self.parse(i, &packet)?;
            if i < pipelines {
                self.run(i, &packet)?;
            }
            if i < deparsers {
                self.deparse(i, &packet)?;
                let parsed = self.left.phv.slot(slot::PARSED) as usize;
                let mut next = self.left.out.clone();
                next.extend_from_slice(packet.get(parsed..).unwrap_or(&[]));
                packet = next;
            }
        }
        Ok(())
    }

    fn parse(&mut self, parser: usize, packet: &[u8]) -> Result<(), Mismatch> {
        let Side { phv, state, .. } = &mut self.left;
        match &mut self.coverage {
            Some(coverage) => self.interpreter.parse_traced(parser, phv, packet, state, coverage),
            None => self.interpreter.parse(parser, phv, packet, state),
        }
        self.compiled.parse(parser, &mut self.right.phv, packet, &mut self.right.state);
        self.compare(|| format!("parser {parser}"))
    }

    fn run(&mut self, pipeline: usize, packet: &[u8]) -> Result<(), Mismatch> {
        let Side { phv, state, .. } = &mut self.left;
        match &mut self.coverage {
            Some(coverage) => self.interpreter.run_traced(pipeline, phv, packet, state, coverage),
            None => self.interpreter.run(pipeline, phv, packet, state),
        }
        self.compiled.run(pipeline, &mut self.right.phv, packet, &mut self.right.state);
        self.compare(|| format!("pipeline {pipeline}"))
    }

    fn deparse(&mut self, deparser: usize, packet: &[u8]) -> Result<(), Mismatch> {
        let parsed = (self.left.phv.slot(slot::PARSED) as usize).min(packet.len());
        let payload = &packet[parsed..];
        let left =
            self.interpreter.prepare_deparse(deparser, &mut self.left.phv, payload, &mut self.left.state);
        let right =
            self.compiled.prepare_deparse(deparser, &mut self.right.phv, payload, &mut self.right.state);
        self.compare(|| format!("deparser {deparser}"))?;
        let step = || format!("emission {deparser}");
        if left != right {
            return Err(Mismatch { step: step(), what: format!("{left} bytes, {right} bytes") });
        }
        for (side, len) in [(&mut self.left, left), (&mut self.right, right)] {
            side.out.clear();
            side.out.resize(len, 0xa5);
        }
        Engine::<ProgramState>::emit(&mut self.interpreter, deparser, &self.left.phv, &mut self.left.out);
        Engine::<ProgramState>::emit(&mut self.compiled, deparser, &self.right.phv, &mut self.right.out);
        if self.left.out != self.right.out {
            let what = format!("{:02x?}, {:02x?}", self.left.out, self.right.out);
            return Err(Mismatch { step: step(), what });
        }
        Ok(())
    }

    fn compare(&self, step: impl Fn() -> String) -> Result<(), Mismatch> {
        let (left, right) = (&self.left.phv, &self.right.phv);
        if left == right {
            return Ok(());
        }
        let layout = &self.interpreter.plan().layout;
        let mut what = String::new();
        for slot in 0..slot::COUNT {
            let (left, right) = (left.slot(slot), right.slot(slot));
            if left != right {
                let _ = write!(what, "slot {slot}: {left:#x}, {right:#x}; ");
            }
        }
        for (index, header) in self.program.headers.iter().enumerate() {
            let id = HeaderId::from(index);
            let (l, r) = (left.is_valid(layout, id), right.is_valid(layout, id));
            if l != r {
                let _ = write!(what, "{} valid: {l}, {r}; ", header.name);
            }
            if header.metadata && !self.keep_dead && header.name != "standard_metadata" {
                continue;
            }
            for (at, def) in self.program.header_type_of(id).fields.iter().enumerate() {
                let field = FieldId { header: id, field: at as u32 };
                let (l, r) = (left.field(layout, field), right.field(layout, field));
                if l != r {
                    let _ = write!(what, "{}.{}: {l:#x}, {r:#x}; ", header.name, def.name);
                }
                if let Place::Varbit { len_word, .. } = layout.place(field) {
                    let (l, r) = (left.slot(len_word as usize), right.slot(len_word as usize));
                    if l != r {
                        let _ = write!(what, "{}.{} bits: {l}, {r}; ", header.name, def.name);
                    }
                }
            }
        }
        if what.is_empty() {
            if !self.keep_dead {
                return Ok(());
            }
            let at = left.words().iter().zip(right.words()).position(|(l, r)| l != r).unwrap_or(0);
            let _ = write!(what, "word {at}: {:#x}, {:#x}", left.words()[at], right.words()[at]);
        }
        Err(Mismatch { step: step(), what })
    }

    /// Compare what the states remember: counters, registers, messages.
    pub fn compare_states(&mut self) -> Result<(), Mismatch> {
        let differ = |what: String| Err(Mismatch { step: "states".to_owned(), what });
        for (index, counter) in self.program.counters.iter().enumerate() {
            let id = CounterId::from(index);
            for at in 0..u64::from(counter.size.min(4096)) {
                let (l, r) = (self.left.state.read_counter(id, at), self.right.state.read_counter(id, at));
                if let (Ok(l), Ok(r)) = (l, r)
                    && l != r
                {
                    return differ(format!("counter {}[{at}]: {l:?}, {r:?}", counter.name));
                }
            }
        }
        for (index, register) in self.program.registers.iter().enumerate() {
            let id = RegisterId::from(index);
            let (l, r) =
                (&self.left.state.registers[id.at()].cells, &self.right.state.registers[id.at()].cells);
            if let Some(at) = l.iter().zip(r).position(|(l, r)| l != r) {
                return differ(format!("register {} word {at}: {:#x}, {:#x}", register.name, l[at], r[at]));
            }
        }
        for (index, table) in self.program.tables.iter().enumerate() {
            let id = TableId::from(index);
            for handle in (0..64).map(Some).chain([None]) {
                let (l, r) = (self.left.state.stats(id, handle), self.right.state.stats(id, handle));
                if let (Ok(l), Ok(r)) = (l, r)
                    && table.counter.is_some()
                    && (l.packets, l.bytes) != (r.packets, r.bytes)
                {
                    return differ(format!("direct counter of {} {handle:?}: {l:?}, {r:?}", table.name));
                }
            }
        }
        let (l, r) = (self.left.state.take_logs(), self.right.state.take_logs());
        if l != r {
            return differ(format!("messages: {l:?}, {r:?}"));
        }
        Ok(())
    }
}

/// Look a field up as the file names it.
trait Names {
    fn plain_field_or_alias(&self, name: &str) -> Option<FieldId>;
}

impl Names for Program {
    fn plain_field_or_alias(&self, name: &str) -> Option<FieldId> {
        let (header, field) = name.rsplit_once('.')?;
        self.plain_field(header, field).or_else(|| self.field(name))
    }
}
