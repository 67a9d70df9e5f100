//! The reference interpreter: a program run statement by statement on unbounded integers, slow and simple.
//!
//! It is the oracle of the compiled engines, and their fallback: both work on the same vector ([`crate::phv`]), so
//! a compiler hands any statement it does not translate to [`Context::exec_stmt`] and goes on behind it. Inside:
//! [`eval`](Context::eval) expressions, [`exec`](Context::exec_stmt) statements, header operations, the parser, hash
//! inputs, the pipeline's graph with its tables, the deparser. A [`trace::Tracer`] watches whatever happens.
//!
//! Where the language leaves a question open the answer is bmv2's (simple_switch 1.15, built with P4-16 header
//! stacks), unless the documentation of [`crate::ir`] says otherwise. Nothing a packet or a program holds can make
//! it panic or run for ever: loops are bounded by [`MAX_PARSER_STATES`] and [`MAX_BACKWARD_JUMPS`].

mod calc;
mod eval;
mod exec;
mod headers;
mod parse;
mod pipeline;
pub mod trace;

#[cfg(test)]
mod tests;

pub use calc::BitString;
pub use eval::Value;
pub use pipeline::Outcome;

use crate::engine::Engine;
use crate::ir::{ActionId, Program};
use crate::key::{KeyLayout, arg_words};
use crate::phv::{Layout, Phv, slot};
use crate::state::State;
use std::sync::Arc;
use trace::{NoTrace, Tracer};

/// How many parser states a packet may enter; the next one is the parser error ParserTimeout.
pub const MAX_PARSER_STATES: u32 = 16_384;

/// How many times one run of an action may jump to its own or an earlier position; at the next such jump the
/// action ends.
pub const MAX_BACKWARD_JUMPS: u32 = 65_536;

/// The numbers of the errors every parser can raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CoreErrors {
    pub no_error: u64,
    pub packet_too_short: u64,
    pub no_match: u64,
    pub stack_out_of_bounds: u64,
    pub header_too_short: u64,
    pub parser_timeout: u64,
    pub parser_invalid_argument: u64,
}

impl CoreErrors {
    /// By the program's names; names it lacks get the next free numbers, in the order of the fields here (bmv2).
    pub fn of(program: &Program) -> CoreErrors {
        let mut free = program.errors.iter().map(|(_, number)| u64::from(*number) + 1).max().unwrap_or(0);
        let mut number = |name: &str| match program.errors.iter().find(|(known, _)| known == name) {
            Some((_, number)) => u64::from(*number),
            None => {
                free += 1;
                free - 1
            }
        };
        CoreErrors {
            no_error: number("NoError"),
            packet_too_short: number("PacketTooShort"),
            no_match: number("NoMatch"),
            stack_out_of_bounds: number("StackOutOfBounds"),
            header_too_short: number("HeaderTooShort"),
            parser_timeout: number("ParserTimeout"),
            parser_invalid_argument: number("ParserInvalidArgument"),
        }
    }
}

/// A program with what is worked out of it once.
#[derive(Debug)]
pub struct Plan {
    /// The program.
    pub program: Arc<Program>,
    /// The layout of its vectors.
    pub layout: Layout,
    /// The numbers of its core errors.
    pub errors: CoreErrors,
    /// The key layout of each table.
    pub keys: Vec<KeyLayout>,
    /// For each action the first word of each argument.
    pub args: Vec<Vec<u32>>,
}

impl Plan {
    /// Work it out.
    pub fn new(program: Arc<Program>) -> Plan {
        Plan {
            layout: Layout::of(&program),
            errors: CoreErrors::of(&program),
            keys: program.tables.iter().map(KeyLayout::of).collect(),
            args: program
                .actions
                .iter()
                .map(|action| arg_words(action.params.iter().map(|param| param.width)).0)
                .collect(),
            program,
        }
    }
}

/// A parser error, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParserFault(pub u64);

/// Where execution goes on after a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// At the next one.
    Next,
    /// At this position of the same action.
    Jump(usize),
    /// Nowhere: the pipeline ends (an action with `exit`, a failed assertion).
    End,
}

/// Everything a piece of a program works on. Made anew for each use: it only borrows.
pub struct Context<'a, S: State + ?Sized> {
    /// The program.
    pub plan: &'a Plan,
    /// The packet's headers and metadata.
    pub phv: &'a mut Phv,
    /// The packet as the parser saw it; while deparsing, the payload alone.
    pub packet: &'a [u8],
    /// Bytes of `packet` that are parsed: the parser's place, later where the payload begins (deparsing: 0).
    pub at: usize,
    /// The action that runs: it says how `args` are laid out.
    pub action: Option<ActionId>,
    /// Its arguments, laid out by [`arg_words`].
    pub args: &'a [u64],
    /// Tables, registers and so on.
    pub state: &'a mut S,
    /// Who watches.
    pub tracer: &'a mut dyn Tracer,
}

impl<'a, S: State + ?Sized> Context<'a, S> {
    /// A context for statements of a pipeline, outside any action.
    pub fn new(
        plan: &'a Plan,
        phv: &'a mut Phv,
        packet: &'a [u8],
        state: &'a mut S,
        tracer: &'a mut dyn Tracer,
    ) -> Self {
        let at = usize::try_from(phv.slot(slot::PARSED)).unwrap_or(usize::MAX).min(packet.len());
        Context { plan, phv, packet, at, action: None, args: &[], state, tracer }
    }

    /// What follows the parsed headers.
    pub fn payload(&self) -> &'a [u8] {
        self.packet.get(self.at..).unwrap_or(&[])
    }

    /// The same context for the body of an action.
    fn with_action<'b>(&'b mut self, action: ActionId, args: &'b [u64]) -> Context<'b, S> {
        Context {
            plan: self.plan,
            phv: self.phv,
            packet: self.packet,
            at: self.at,
            action: Some(action),
            args,
            state: self.state,
            tracer: self.tracer,
        }
    }
}

/// The interpreter of one program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Interpreter {
    plan: Arc<Plan>,
}

impl Interpreter {
    /// An interpreter of a program.
    pub fn new(program: Arc<Program>) -> Interpreter {
        Interpreter { plan: Arc::new(Plan::new(program)) }
    }

    /// What was worked out of the program.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// [`Engine::parse`], watched.
    pub fn parse_traced<S: State + ?Sized>(
        &self,
        parser: usize,
        phv: &mut Phv,
        packet: &[u8],
        state: &mut S,
        tracer: &mut dyn Tracer,
    ) {
        let mut context =
            Context { plan: &self.plan, phv, packet, at: 0, action: None, args: &[], state, tracer };
        context.parse(parser);
    }

    /// [`Engine::run`], watched.
    pub fn run_traced<S: State + ?Sized>(
        &self,
        pipeline: usize,
        phv: &mut Phv,
        packet: &[u8],
        state: &mut S,
        tracer: &mut dyn Tracer,
    ) {
        Context::new(&self.plan, phv, packet, state, tracer).run_pipeline(pipeline);
    }

    /// [`Engine::prepare_deparse`], watched.
    pub fn prepare_deparse_traced<S: State + ?Sized>(
        &self,
        deparser: usize,
        phv: &mut Phv,
        payload: &[u8],
        state: &mut S,
        tracer: &mut dyn Tracer,
    ) -> usize {
        let mut context =
            Context { plan: &self.plan, phv, packet: payload, at: 0, action: None, args: &[], state, tracer };
        context.prepare_deparse(deparser)
    }

    /// [`Engine::emit`], watched.
    pub fn emit_traced(&self, deparser: usize, phv: &Phv, out: &mut [u8], tracer: &mut dyn Tracer) {
        pipeline::emit(&self.plan, deparser, phv, out, tracer);
    }
}

impl<S: State> Engine<S> for Interpreter {
    fn layout(&self) -> &Layout {
        &self.plan.layout
    }

    fn parse(&mut self, parser: usize, phv: &mut Phv, packet: &[u8], state: &mut S) {
        self.parse_traced(parser, phv, packet, state, &mut NoTrace);
    }

    fn run(&mut self, pipeline: usize, phv: &mut Phv, packet: &[u8], state: &mut S) {
        self.run_traced(pipeline, phv, packet, state, &mut NoTrace);
    }

    fn prepare_deparse(&mut self, deparser: usize, phv: &mut Phv, payload: &[u8], state: &mut S) -> usize {
        self.prepare_deparse_traced(deparser, phv, payload, state, &mut NoTrace)
    }

    fn emit(&mut self, deparser: usize, phv: &Phv, out: &mut [u8]) {
        self.emit_traced(deparser, phv, out, &mut NoTrace);
    }
}
