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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    /// Code that is still being made.
    coming: Option<Arc<Coming>>,
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
    let program = barewire_p4_formats::import::import(json)
        .map_err(|error| ControlError::new(ErrorKind::BadProgram, error.to_string()))?;
    Prepared::new(Arc::new(program), kind)
}

impl Prepared {
    /// No program: what an engine starts with. Every packet is dropped and counted.
    pub fn none() -> Prepared {
        let program = Program::empty();
        let (compiled, coming, kernel) = (None, None, None);
        Prepared { program: Arc::new(program), kind: EngineKind::Interpreter, compiled, coming, kernel }
    }

    /// Whether this is [`Prepared::none`].
    pub fn is_none(&self) -> bool {
        self.program.parsers.is_empty() && self.program.pipelines.is_empty()
    }

    /// Make a program ready.
    pub fn new(program: Arc<Program>, kind: EngineKind) -> Result<Prepared, ControlError> {
        let compiled = match kind {
            EngineKind::Kernel => return Prepared::for_kernel(program, TargetConfig::default().drop_port),
            EngineKind::Native => Some(Mutex::new(machine_code(&program)?)),
            EngineKind::Interpreter => None,
        };
        Ok(Prepared { program, kind, compiled, coming: None, kernel: None })
    }

    /// The same without waiting for the machine code of a large program: until it is there, and for good if it cannot be made,
    /// the interpreter runs the program, with the same vectors and the same state.
    pub fn deferred(program: Arc<Program>, kind: EngineKind) -> Result<Prepared, ControlError> {
        if kind != EngineKind::Native || size(&program) < LARGE {
            return Prepared::new(program, kind);
        }
        let coming = Arc::new(Coming::default());
        let (for_thread, of) = (Arc::clone(&coming), Arc::clone(&program));
        let made = std::thread::Builder::new()
            .name("p4-compile".to_owned())
            .spawn(move || for_thread.arrived(caught(|| machine_code(&of))));
        match made {
            Ok(_) => Ok(Prepared { program, kind, compiled: None, coming: Some(coming), kernel: None }),
            // No thread is to be had: as usual, then.
            Err(_) => Prepared::new(program, kind),
        }
    }

    /// Whether machine code is still being made.
    pub fn is_coming(&self) -> bool {
        self.coming.as_ref().is_some_and(|coming| lock(&coming.state).code.is_none())
    }

    /// Waits until the machine code that [`Prepared::deferred`] left to another thread is there, or is known not to come: why not.
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`]: why there is none.
    pub fn wait(&self) -> Result<(), ControlError> {
        let Some(coming) = &self.coming else { return Ok(()) };
        let mut state = lock(&coming.state);
        while state.code.is_none() {
            state = coming.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match &state.code {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
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
        if let Some(coming) = &self.coming {
            let state = lock(&coming.state);
            return state.code.as_ref().and_then(|code| code.as_ref().ok()).map(|code| code.report().clone());
        }
        self.compiled.as_ref().map(|compiled| lock(compiled).report().clone())
    }

    /// A watched interpreter of the program.
    pub fn traced(&self) -> Exec {
        Exec::Traced(Box::new((Interpreter::new(Arc::clone(&self.program)), Recorder::new())))
    }

    /// An engine for one thread.
    pub fn exec(&self) -> Exec {
        if let Some(coming) = &self.coming {
            return coming.exec(&self.program);
        }
        match &self.compiled {
            None if self.is_none() => Exec::Idle(Layout::of(&self.program)),
            Some(compiled) => Exec::Native(lock(compiled).clone_for_thread()),
            None => Exec::Interpreter(Box::new(Interpreter::new(Arc::clone(&self.program)))),
        }
    }
}

/// Statements, states and nodes from which on a program's machine code is not waited for: some 10 ms of compiling.
const LARGE: usize = 150;

fn size(program: &Program) -> usize {
    let bodies: usize = program.actions.iter().map(|action| action.body.len()).sum();
    let states: usize =
        program.parsers.iter().flat_map(|parser| &parser.states).map(|state| 1 + state.ops.len()).sum();
    let nodes: usize = program.pipelines.iter().map(|pipeline| pipeline.nodes.len()).sum();
    bodies + states + nodes
}

fn machine_code(program: &Arc<Program>) -> Result<Compiled, ControlError> {
    let steps = match program.arch {
        Arch::V1Model => v1model::steps(program),
        Arch::Psa => Vec::new(),
    };
    compile_chained(Arc::clone(program), Options::default(), &steps)
        .map_err(|error| ControlError::new(ErrorKind::BadProgram, error.to_string()))
}

/// What a compiler that panics has to say, to those who wait for it.
fn caught<T>(make: impl FnOnce() -> Result<T, ControlError>) -> Result<T, ControlError> {
    // What it had in hand is gone; the program is only read.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(make)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(ControlError::new(ErrorKind::BadProgram, format!("the compiler failed: {text}")))
    })
}

/// Machine code that a thread is making, and the engines that wait for it.
#[derive(Default)]
struct Coming {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    code: Option<Result<Compiled, ControlError>>,
    engines: Vec<Arc<Place>>,
}

/// Where one engine finds its code, and leaves the interpreter that it needs no longer for another thread to free.
#[derive(Default)]
pub struct Place {
    there: AtomicBool,
    code: Mutex<Option<Compiled>>,
    left: Mutex<Option<Box<Interpreter>>>,
}

impl Coming {
    fn arrived(&self, code: Result<Compiled, ControlError>) {
        let mut state = lock(&self.state);
        if let Ok(code) = &code {
            // They stay here too, so that no engine has the last hold on the interpreter that it leaves.
            for place in &state.engines {
                *lock(&place.code) = Some(code.clone_for_thread());
                place.there.store(true, Ordering::Release);
            }
        }
        state.code = Some(code);
        self.changed.notify_all();
    }

    fn exec(&self, program: &Arc<Program>) -> Exec {
        let mut state = lock(&self.state);
        if let Some(Ok(code)) = &state.code {
            return Exec::Native(code.clone_for_thread());
        }
        let place = Arc::new(Place::default());
        if state.code.is_none() {
            state.engines.push(Arc::clone(&place));
        }
        Exec::Soon(Box::new(Interpreter::new(Arc::clone(program))), place)
    }
}

/// What is behind these locks is never left half done.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine of one thread. A match at each of a handful of calls per packet costs less than it is worth to avoid.
pub enum Exec {
    /// Machine code.
    Native(Compiled),
    /// The interpreter.
    Interpreter(Box<Interpreter>),
    /// The interpreter until the machine code is there.
    Soon(Box<Interpreter>, Arc<Place>),
    /// The interpreter, watched: what it does is kept.
    Traced(Box<(Interpreter, Recorder)>),
    /// Nothing to run.
    Idle(Layout),
}

impl Exec {
    /// Run the target's usual way as one, where there is a function for it ([`Compiled::chain`]).
    #[inline]
    pub fn chain(&mut self, phv: &mut Phv, packet: &mut [u8], state: &mut ProgramState) -> Option<Stopped> {
        if let Exec::Soon(..) = self {
            self.take_over();
        }
        match self {
            Exec::Native(engine) => engine.chain(phv, packet, state),
            _ => None,
        }
    }

    /// Machine code that has come runs from here on. Between two calls nothing is in the engine: all is in the vector and the
    /// state.
    #[cold]
    fn take_over(&mut self) {
        let Exec::Soon(_, place) = self else { return };
        if !place.there.load(Ordering::Acquire) {
            return;
        }
        let place = Arc::clone(place);
        let Some(code) = lock(&place.code).take() else { return };
        if let Exec::Soon(interpreter, _) = std::mem::replace(self, Exec::Native(code)) {
            *lock(&place.left) = Some(interpreter);
        }
    }
}

impl Engine<ProgramState> for Exec {
    fn layout(&self) -> &Layout {
        match self {
            Exec::Native(engine) => engine.layout(),
            Exec::Interpreter(engine) | Exec::Soon(engine, _) => Engine::<ProgramState>::layout(&**engine),
            Exec::Traced(traced) => Engine::<ProgramState>::layout(&traced.0),
            Exec::Idle(layout) => layout,
        }
    }

    #[inline]
    fn parse(&mut self, parser: usize, phv: &mut Phv, packet: &[u8], state: &mut ProgramState) {
        if let Exec::Soon(..) = self {
            self.take_over();
        }
        match self {
            Exec::Native(engine) => engine.parse(parser, phv, packet, state),
            Exec::Interpreter(engine) | Exec::Soon(engine, _) => engine.parse(parser, phv, packet, state),
            Exec::Traced(traced) => traced.0.parse_traced(parser, phv, packet, state, &mut traced.1),
            Exec::Idle(_) => {}
        }
    }

    #[inline]
    fn run(&mut self, pipeline: usize, phv: &mut Phv, packet: &[u8], state: &mut ProgramState) {
        match self {
            Exec::Native(engine) => engine.run(pipeline, phv, packet, state),
            Exec::Interpreter(engine) | Exec::Soon(engine, _) => engine.run(pipeline, phv, packet, state),
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
            Exec::Interpreter(engine) | Exec::Soon(engine, _) => {
                engine.prepare_deparse(deparser, phv, payload, state)
            }
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
            Exec::Interpreter(engine) | Exec::Soon(engine, _) => {
                Engine::<ProgramState>::emit(&mut **engine, deparser, phv, out)
            }
            Exec::Traced(traced) => traced.0.emit_traced(deparser, phv, out, &mut traced.1),
            Exec::Idle(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_panics_is_an_error_that_arrives() {
        let coming = Arc::new(Coming::default());
        let program = Arc::new(Program::empty());
        let prepared = Prepared {
            program: Arc::clone(&program),
            kind: EngineKind::Native,
            compiled: None,
            coming: Some(Arc::clone(&coming)),
            kernel: None,
        };
        let thread = std::thread::spawn(move || coming.arrived(caught(|| panic!("a hole in {}", "it"))));
        let error = prepared.wait().expect_err("there is no code");
        assert_eq!(error.to_string(), "the compiler failed: a hole in it");
        assert!(matches!(prepared.exec(), Exec::Soon(..)), "the interpreter goes on");
        thread.join().expect("it is well");
    }

    #[test]
    fn the_engine_does_not_free_the_interpreter() {
        let (coming, program) = (Coming::default(), Arc::new(Program::empty()));
        let mut exec = coming.exec(&program);
        coming.arrived(machine_code(&program));
        exec.take_over();
        assert!(matches!(exec, Exec::Native(_)));
        let state = lock(&coming.state);
        assert!(lock(&state.engines[0].left).is_some(), "it is left for others");
    }
}
