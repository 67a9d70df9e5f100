//! A program made ready: imported, checked and, for the native engine, compiled. It is made on a control thread and
//! handed to the engines whole.

use crate::control::{ControlError, ErrorKind};
use crate::datapath::{TargetConfig, v1model};
use crate::kernel::Kernel;
use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::interp::trace::Recorder;
use barewire_p4::ir::{Arch, Program};
use barewire_p4::phv::{Layout, Phv};
use barewire_p4_jit::chain::Stopped;
use barewire_p4_jit::{Compiled, Options, compile_chained};
use barewire_p4_state::ProgramState;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which engine runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineKind {
    /// Machine code.
    #[default]
    Native,
    /// The reference interpreter.
    Interpreter,
    /// In the kernel as far as it goes there, machine code for the rest.
    Kernel,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineKind::Native => "native",
            EngineKind::Interpreter => "interpreter",
            EngineKind::Kernel => "kernel",
        })
    }
}

impl FromStr for EngineKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "native" => Ok(EngineKind::Native),
            "interpreter" => Ok(EngineKind::Interpreter),
            "kernel" => Ok(EngineKind::Kernel),
            other => Err(format!("'{other}' is not an engine: native, interpreter or kernel")),
        }
    }
}

/// A program ready to run.
pub struct Prepared {
    /// The program.
    pub program: Arc<Program>,
    /// Which engine runs it.
    pub kind: EngineKind,
    /// Compiled code is of one thread at a time; each engine gets a clone.
    compiled: Option<Mutex<Compiled>>,
    /// Its form for the kernel.
    kernel: Option<Arc<barewire_p4_ebpf::Compiled>>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("program", &self.program.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Import a program and make it ready.
pub fn prepare(json: &str, kind: EngineKind) -> Result<Prepared, ControlError> {
    let program = barewire_p4::import::import(json)
        .map_err(|error| ControlError::new(ErrorKind::BadProgram, error.to_string()))?;
    Prepared::new(Arc::new(program), kind)
}

impl Prepared {
    /// No program: what an engine starts with. Every packet is dropped and counted.
    pub fn none() -> Prepared {
        let program = Program::empty();
        Prepared { program: Arc::new(program), kind: EngineKind::Interpreter, compiled: None, kernel: None }
    }

    /// Whether this is [`Prepared::none`].
    pub fn is_none(&self) -> bool {
        self.program.parsers.is_empty() && self.program.pipelines.is_empty()
    }

    /// Make a program ready.
    pub fn new(program: Arc<Program>, kind: EngineKind) -> Result<Prepared, ControlError> {
        let compiled = match kind {
            EngineKind::Kernel => return Prepared::for_kernel(program, TargetConfig::default().drop_port),
            EngineKind::Native => {
                let steps = match program.arch {
                    Arch::V1Model => v1model::steps(&program),
                    Arch::Psa => Vec::new(),
                };
                let compiled = compile_chained(Arc::clone(&program), Options::default(), &steps)
                    .map_err(|error| ControlError::new(ErrorKind::BadProgram, error.to_string()))?;
                Some(Mutex::new(compiled))
            }
            EngineKind::Interpreter => None,
        };
        Ok(Prepared { program, kind, compiled, kernel: None })
    }

    /// Make a program ready for the kernel, for a switch whose drop port is this one.
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`]: why it has no form for the kernel.
    pub fn for_kernel(program: Arc<Program>, drop_port: u32) -> Result<Prepared, ControlError> {
        let refused =
            |error: barewire_p4_ebpf::Refusal| ControlError::new(ErrorKind::BadProgram, error.to_string());
        let target = v1model::kernel_target(&program, drop_port);
        let kernel = barewire_p4_ebpf::compile(&program, &target).map_err(refused)?;
        let kernel = Arc::new(kernel);
        // The verifier is asked here, where somebody hears what it says.
        Kernel::load(Arc::clone(&program), Arc::clone(&kernel))
            .map_err(|error| ControlError::new(ErrorKind::BadProgram, error.to_string()))?;
        let native = Prepared::new(program, EngineKind::Native)?;
        Ok(Prepared { kind: EngineKind::Kernel, kernel: Some(kernel), ..native })
    }

    /// The form for the kernel.
    pub fn kernel(&self) -> Option<&Arc<barewire_p4_ebpf::Compiled>> {
        self.kernel.as_ref()
    }

    /// What the compiler says of its work, where it did any.
    pub fn report(&self) -> Option<barewire_p4_jit::Report> {
        self.compiled.as_ref().map(|compiled| lock(compiled).report().clone())
    }

    /// A watched interpreter of the program.
    pub fn traced(&self) -> Exec {
        Exec::Traced(Box::new((Interpreter::new(Arc::clone(&self.program)), Recorder::new())))
    }

    /// An engine for one thread.
    pub fn exec(&self) -> Exec {
        match &self.compiled {
            None if self.is_none() => Exec::Idle(Layout::of(&self.program)),
            Some(compiled) => Exec::Native(lock(compiled).clone_for_thread()),
            None => Exec::Interpreter(Box::new(Interpreter::new(Arc::clone(&self.program)))),
        }
    }
}

fn lock(compiled: &Mutex<Compiled>) -> MutexGuard<'_, Compiled> {
    // Cloning cannot leave it half done.
    compiled.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine of one thread. A match at each of a handful of calls per packet costs less than it is worth to avoid.
pub enum Exec {
    /// Machine code.
    Native(Compiled),
    /// The interpreter.
    Interpreter(Box<Interpreter>),
    /// The interpreter, watched: what it does is kept.
    Traced(Box<(Interpreter, Recorder)>),
    /// Nothing to run.
    Idle(Layout),
}

impl Exec {
    /// Run the target's usual way as one, where there is a function for it ([`Compiled::chain`]).
    #[inline]
    pub fn chain(&mut self, phv: &mut Phv, packet: &mut [u8], state: &mut ProgramState) -> Option<Stopped> {
        match self {
            Exec::Native(engine) => engine.chain(phv, packet, state),
            _ => None,
        }
    }
}

impl Engine<ProgramState> for Exec {
    fn layout(&self) -> &Layout {
        match self {
            Exec::Native(engine) => engine.layout(),
            Exec::Interpreter(engine) => Engine::<ProgramState>::layout(&**engine),
            Exec::Traced(traced) => Engine::<ProgramState>::layout(&traced.0),
            Exec::Idle(layout) => layout,
        }
    }

    #[inline]
    fn parse(&mut self, parser: usize, phv: &mut Phv, packet: &[u8], state: &mut ProgramState) {
        match self {
            Exec::Native(engine) => engine.parse(parser, phv, packet, state),
            Exec::Interpreter(engine) => engine.parse(parser, phv, packet, state),
            Exec::Traced(traced) => traced.0.parse_traced(parser, phv, packet, state, &mut traced.1),
            Exec::Idle(_) => {}
        }
    }

    #[inline]
    fn run(&mut self, pipeline: usize, phv: &mut Phv, packet: &[u8], state: &mut ProgramState) {
        match self {
            Exec::Native(engine) => engine.run(pipeline, phv, packet, state),
            Exec::Interpreter(engine) => engine.run(pipeline, phv, packet, state),
            Exec::Traced(traced) => traced.0.run_traced(pipeline, phv, packet, state, &mut traced.1),
            Exec::Idle(_) => {}
        }
    }

    #[inline]
    fn prepare_deparse(
        &mut self,
        deparser: usize,
        phv: &mut Phv,
        payload: &[u8],
        state: &mut ProgramState,
    ) -> usize {
        match self {
            Exec::Native(engine) => engine.prepare_deparse(deparser, phv, payload, state),
            Exec::Interpreter(engine) => engine.prepare_deparse(deparser, phv, payload, state),
            Exec::Traced(traced) => {
                traced.0.prepare_deparse_traced(deparser, phv, payload, state, &mut traced.1)
            }
            Exec::Idle(_) => 0,
        }
    }

    #[inline]
    fn emit(&mut self, deparser: usize, phv: &Phv, out: &mut [u8]) {
        match self {
            Exec::Native(engine) => Engine::<ProgramState>::emit(engine, deparser, phv, out),
            Exec::Interpreter(engine) => Engine::<ProgramState>::emit(&mut **engine, deparser, phv, out),
            Exec::Traced(traced) => traced.0.emit_traced(deparser, phv, out, &mut traced.1),
            Exec::Idle(_) => {}
        }
    }
}
