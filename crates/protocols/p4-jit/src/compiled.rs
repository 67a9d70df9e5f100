//! A compiled program, and the calls into it.

use crate::chain::{self, Step, Stopped};
use crate::delegate::{Delegate, Delegates};
use crate::emit::{Gen, Unit, signature};
use crate::env::{Env, Mode, Shared};
use crate::error::CompileError;
use crate::facts::Facts;
use crate::gather::GatherPlan;
use crate::memory::CodeMemory;
use crate::report::{FunctionReport, Report};
use crate::size::{CHAIN_BUDGET, INLINE_BUDGET, MAX_FUNCTION, Sizes};
use barewire_p4::engine::Engine;
use barewire_p4::interp::Plan;
use barewire_p4::ir::{HeaderId, ProfileId, Program, TableActions};
use barewire_p4::key::arg_words;
use barewire_p4::phv::{Layout, Phv, slot};
use barewire_p4_state::{ARGS, ProgramState};
use cranelift_codegen::Context;
use cranelift_codegen::ir::{Function, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::ptr::NonNull;
use std::sync::Arc;

/// How to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Write metadata fields even if nobody ever reads them (to compare whole vectors with the interpreter's).
    pub keep_dead: bool,
    /// Have the code generator check its own intermediate code.
    pub verify: bool,
    /// Functions are compiled by so many threads.
    pub threads: usize,
    /// Keep a listing of the machine code in the report.
    pub listing: bool,
    /// Actions are repeated where they are used until a pipeline has become so large (in operations, roughly); beyond,
    /// those used more than once are generated once.
    pub inline_budget: u64,
    /// A parser or pipeline that would become larger than this is interpreted as a whole.
    pub function_limit: u64,
    /// A chain that would become larger than this is not made.
    pub chain_budget: u64,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        Options {
            keep_dead: false,
            verify: cfg!(debug_assertions),
            threads,
            listing: false,
            inline_budget: INLINE_BUDGET,
            function_limit: MAX_FUNCTION,
            chain_budget: CHAIN_BUDGET,
        }
    }
}

/// The signature of all generated functions: environment, vector, packet, its length.
type Entry = unsafe extern "C" fn(*mut Env, *mut u64, *const u8, u64) -> u64;

/// The functions of a program, and the memory they live in.
#[derive(Debug)]
struct Code {
    // The functions point into it.
    _memory: CodeMemory,
    parse: Vec<Entry>,
    run: Vec<Entry>,
    prepare: Vec<Entry>,
    emit: Vec<Entry>,
    chain: Option<Entry>,
    shared: Shared,
    report: Report,
    never_modified: Vec<HeaderId>,
}

/// A program compiled to machine code: an engine for one thread. [`Compiled::clone_for_thread`] makes another one that
/// shares the code.
#[derive(Debug)]
pub struct Compiled {
    code: Arc<Code>,
    env: NonNull<Env>,
    key: NonNull<[u64]>,
    blank: NonNull<[u64]>,
    /// Words of the program's vector.
    words: usize,
}

// SAFETY: the environment, key and blank record are owned by this value alone (leaked boxes, freed on drop), the
// environment's pointers are only followed during a call, which borrows this value exclusively; the code is shared and
// immutable.
unsafe impl Send for Compiled {}

/// Compile a program with the default [`Options`].
pub fn compile(program: Arc<Program>) -> Result<Compiled, CompileError> {
    compile_with(program, Options::default())
}

/// Compile a program.
pub fn compile_with(program: Arc<Program>, options: Options) -> Result<Compiled, CompileError> {
    compile_chained(program, options, &[])
}

/// Compile a program, and beside its functions one for these steps, for [`Compiled::chain`]. There is none when the steps
/// cannot be made into one, or when it would be large: what it saves matters in small programs.
pub fn compile_chained(
    program: Arc<Program>,
    options: Options,
    steps: &[Step],
) -> Result<Compiled, CompileError> {
    let plan = Plan::new(program);
    let isa = target(options)?;
    let facts = Facts::of(&plan.program, options.keep_dead);
    let mut delegates = Delegates::default();
    let drafts = draft(&plan, &facts, &mut delegates, &isa, options, steps);
    let compiled = generate(drafts, &isa, options)?;
    let code: Vec<&[u8]> = compiled.iter().map(|function| function.code.as_slice()).collect();
    let (memory, offsets) = CodeMemory::new(&code)
        .map_err(|source| CompileError::Memory { bytes: code.iter().map(|code| code.len()).sum(), source })?;
    let mut entries = offsets.iter().map(|offset| {
        // SAFETY: at this offset lies a whole function that was generated with exactly this signature and the host's C
        // calling convention; the memory is executable and lives as long as the `Code` that holds the pointer.
        unsafe { std::mem::transmute::<*const u8, Entry>(memory.at(*offset)) }
    });
    let program = &plan.program;
    let (parsers, pipelines, deparsers) =
        (program.parsers.len(), program.pipelines.len(), program.deparsers.len());
    let parse = entries.by_ref().take(parsers).collect();
    let run = entries.by_ref().take(pipelines).collect();
    let prepare = entries.by_ref().take(deparsers).collect();
    let emit = entries.by_ref().take(deparsers).collect();
    let chain = entries.next();
    drop(entries);
    let shared = share(plan, delegates);
    let functions = compiled.into_iter().map(|function| function.report).collect();
    let report = Report { functions, dead_fields: facts.dead_fields() };
    let never_modified = facts.never_modified().collect();
    let code = Code { _memory: memory, parse, run, prepare, emit, chain, shared, report, never_modified };
    Ok(Compiled::of(Arc::new(code)))
}

fn target(options: Options) -> Result<OwnedTargetIsa, CompileError> {
    let host = |reason: &dyn std::fmt::Display| CompileError::Host(reason.to_string());
    if cfg!(target_endian = "big") {
        return Err(CompileError::Host("big-endian".to_owned()));
    }
    let mut flags = settings::builder();
    let choices = [
        ("opt_level", "speed"),
        ("enable_verifier", if options.verify { "true" } else { "false" }),
        ("enable_table_access_spectre_mitigation", "false"),
        ("enable_heap_access_spectre_mitigation", "false"),
        ("unwind_info", "false"),
    ];
    for (name, value) in choices {
        flags.set(name, value).map_err(|error| host(&error))?;
    }
    let isa = cranelift_native::builder().map_err(|reason| host(&reason))?;
    isa.finish(settings::Flags::new(flags)).map_err(|error| host(&error))
}

/// A function in intermediate code.
struct Draft {
    name: String,
    function: Function,
    delegated: Vec<String>,
}

/// A function in machine code.
struct Done {
    code: Vec<u8>,
    report: FunctionReport,
}

/// All functions: parsers, pipelines, deparsers' first and second halves.
fn draft(
    plan: &Plan,
    facts: &Facts,
    delegates: &mut Delegates,
    isa: &OwnedTargetIsa,
    options: Options,
    steps: &[Step],
) -> Vec<Draft> {
    let program = &*plan.program;
    let unit = Unit { program, layout: &plan.layout, facts, keys: &plan.keys };
    let mut builder = FunctionBuilderContext::new();
    let mut drafts = Vec::new();
    let mut add = |name: String, body: &mut dyn FnMut(Gen<'_, '_>) -> Vec<String>| {
        let number = drafts.len() as u32;
        let mut function =
            Function::with_name_signature(UserFuncName::user(0, number), signature(isa.default_call_conv()));
        let b = FunctionBuilder::new(&mut function, &mut builder);
        let delegated = body(Gen::new(&unit, delegates, b));
        drafts.push(Draft { name, function, delegated });
    };
    let sizes = Sizes::of(program, &plan.keys);
    for (index, parser) in program.parsers.iter().enumerate() {
        let large = sizes.parser(parser) > options.function_limit;
        add(format!("parse {}", parser.name), &mut |mut g| {
            if large {
                g.interpret(Delegate::Parser(index));
            } else {
                g.parser(index, parser, plan.errors);
            }
            g.finish_with(|g| g.int(0))
        });
    }
    for (index, pipeline) in program.pipelines.iter().enumerate() {
        let (shared, size) = sizes.pipeline(pipeline, options.inline_budget);
        add(format!("run {}", pipeline.name), &mut |mut g| {
            if size > options.function_limit {
                g.interpret(Delegate::Pipeline(index));
            } else {
                g.share(shared.iter().copied());
                g.pipeline(pipeline);
            }
            g.finish_with(|g| g.int(0))
        });
    }
    for deparser in &program.deparsers {
        add(format!("prepare {}", deparser.name), &mut |mut g| {
            g.prepare(deparser);
            g.finish_with(|g| g.emitted_len(deparser))
        });
    }
    for deparser in &program.deparsers {
        add(format!("emit {}", deparser.name), &mut |mut g| {
            g.emit(deparser);
            g.finish_with(|g| g.int(0))
        });
    }
    let size = steps.iter().map(|step| match step {
        Step::Parse(index) => program.parsers.get(*index).map_or(0, |parser| sizes.parser(parser)),
        Step::Run(index) => program.pipelines.get(*index).map_or(0, |p| sizes.pipeline(p, u64::MAX).1),
        _ => 0,
    });
    if size.fold(0_u64, u64::saturating_add) <= options.chain_budget
        && chain::is_possible(program, &plan.layout, steps)
    {
        add("chain".to_owned(), &mut |g| g.chain(plan, steps));
    }
    drafts
}

/// Compile drafts, several at a time.
fn generate(drafts: Vec<Draft>, isa: &OwnedTargetIsa, options: Options) -> Result<Vec<Done>, CompileError> {
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(drafts[*index].function.dfg.num_insts()));
    let small = drafts.iter().all(|draft| draft.function.dfg.num_insts() < 2000);
    let threads = if small { 1 } else { options.threads.clamp(1, drafts.len().max(1)) };
    let mut slots: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    let mut shares: Vec<Vec<(usize, Draft)>> = (0..threads).map(|_| Vec::new()).collect();
    let mut weights = vec![0; threads];
    for index in order {
        let Some(draft) = slots[index].take() else { continue };
        let lightest = (0..threads).min_by_key(|thread| weights[*thread]).unwrap_or(0);
        weights[lightest] += draft.function.dfg.num_insts();
        shares[lightest].push((index, draft));
    }
    let compile_share = |share: Vec<(usize, Draft)>| {
        let mut context = Context::new();
        context.set_disasm(options.listing);
        share
            .into_iter()
            .map(|(index, draft)| (index, machine_code(draft, &mut context, isa)))
            .collect::<Vec<_>>()
    };
    let mut done: Vec<Option<Done>> = slots.iter().map(|_| None).collect();
    let mut results = Vec::new();
    let first = shares.swap_remove(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| compile_share(share))).collect();
        results.extend(compile_share(first));
        for worker in workers {
            match worker.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    for (index, result) in results {
        done[index] = Some(result?);
    }
    Ok(done.into_iter().flatten().collect())
}

fn machine_code(draft: Draft, context: &mut Context, isa: &OwnedTargetIsa) -> Result<Done, CompileError> {
    let listing = context.want_disasm;
    context.clear();
    context.set_disasm(listing);
    context.func = draft.function;
    let instructions = context.func.dfg.num_insts();
    let failed = |reason: String| CompileError::Function { function: draft.name.clone(), reason };
    let compiled = context
        .compile(&**isa, &mut Default::default())
        .map_err(|error| failed(format!("{:?}", error.inner)))?;
    if !compiled.buffer.relocs().is_empty() {
        return Err(failed(format!(
            "relocations in position-independent code: {:?}",
            compiled.buffer.relocs()
        )));
    }
    let code = compiled.buffer.data().to_vec();
    let listing = compiled.vcode.clone();
    let report = FunctionReport {
        name: draft.name,
        instructions,
        bytes: code.len(),
        delegated: draft.delegated,
        listing,
    };
    Ok(Done { code, report })
}

fn share(plan: Plan, delegates: Delegates) -> Shared {
    let program = &plan.program;
    let selector = |profile: ProfileId| GatherPlan::of_selector(program, &plan.layout, profile);
    let selectors = program
        .tables
        .iter()
        .map(|table| match table.source {
            TableActions::Profile(profile) => selector(profile),
            TableActions::Direct => None,
        })
        .collect();
    let args_words: Vec<u32> = program
        .actions
        .iter()
        .map(|action| arg_words(action.params.iter().map(|param| param.width)).1)
        .collect();
    let key_words = plan.keys.iter().map(|key| key.words as usize).max().unwrap_or(0);
    let record_words = ARGS + args_words.iter().copied().max().unwrap_or(0) as usize + 1;
    Shared { plan, delegates, selectors, args_words, key_words, record_words }
}

impl Compiled {
    fn of(code: Arc<Code>) -> Compiled {
        let words = |count: usize| NonNull::from(Box::leak(vec![0_u64; count.max(1)].into_boxed_slice()));
        let (key, blank) = (words(code.shared.key_words), words(code.shared.record_words));
        let env = Env {
            state: std::ptr::null_mut(),
            phv: std::ptr::null_mut(),
            packet: std::ptr::null(),
            packet_len: 0,
            mode: Mode::Run,
            at: 0,
            applied_action: 0,
            applied_hit: 0,
            applied_has_color: 0,
            applied_color: 0,
            key: key.as_ptr().cast(),
            blank: blank.as_ptr().cast(),
            shared: &raw const code.shared,
            bytes: Vec::with_capacity(256),
            args: Vec::new(),
        };
        let env = NonNull::from(Box::leak(Box::new(env)));
        let words = code.shared.plan.layout.words as usize;
        Compiled { code, env, key, blank, words }
    }

    /// An engine of the same program for another thread; the code is shared.
    pub fn clone_for_thread(&self) -> Compiled {
        Compiled::of(Arc::clone(&self.code))
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.code.shared.plan.program
    }

    /// What came of the compilation.
    pub fn report(&self) -> &Report {
        &self.code.report
    }

    /// Headers that nothing in the program but extraction writes to, and whose validity nothing else changes: if they
    /// are all that a deparser emits, and in the order in which they were extracted, the packet leaves as it came.
    pub fn headers_never_modified(&self) -> &[HeaderId] {
        &self.code.never_modified
    }

    /// Run the steps the program was compiled with; none if there is no function for them. Headers may be written back to the
    /// packet.
    #[inline]
    pub fn chain(&mut self, phv: &mut Phv, packet: &mut [u8], state: &mut ProgramState) -> Option<Stopped> {
        let entry = self.code.chain?;
        let (at, len) = (packet.as_mut_ptr(), packet.len());
        Some(Stopped::of(self.call(entry, Mode::Parse, phv, (at, len), state)))
    }

    /// Call a function with everything it works on.
    #[inline]
    fn call(
        &mut self,
        entry: Entry,
        mode: Mode,
        phv: &mut Phv,
        (packet, packet_len): (*const u8, usize),
        state: &mut ProgramState,
    ) -> u64 {
        assert!(phv.words().len() == self.words, "a vector of this program");
        let phv: *mut Phv = phv;
        let env = self.env.as_ptr();
        // SAFETY: `env` points to the environment this value owns, and `self` is borrowed exclusively. It is written before
        // the call, with pointers that are valid, and exclusive where they are `*mut`, until this function returns. The
        // key and blank buffers are as long as `shared` says and live as long as `self`. The function was generated for
        // `shared.plan.layout`: it touches the vector within the words just checked, the packet within the length passed,
        // records within the lengths that `env::record` checks, and the environment. Helpers borrow through the pointers
        // in the environment only while machine code waits for them. All callers pass a packet that is borrowed for the
        // call; only chains write to it, and theirs is borrowed exclusively.
        unsafe {
            (*env).state = state;
            (*env).phv = phv;
            (*env).packet = packet;
            (*env).packet_len = packet_len;
            (*env).mode = mode;
            let words = (*phv).words_mut().as_mut_ptr();
            entry(env, words, packet, packet_len as u64)
        }
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: all three were made by `Box::leak` in `of` and are freed only here; no call is under way, since `self` is
        // borrowed exclusively.
        unsafe {
            drop(Box::from_raw(self.env.as_ptr()));
            drop(Box::from_raw(self.key.as_ptr()));
            drop(Box::from_raw(self.blank.as_ptr()));
        }
    }
}

impl Engine<ProgramState> for Compiled {
    fn layout(&self) -> &Layout {
        &self.code.shared.plan.layout
    }

    fn parse(&mut self, parser: usize, phv: &mut Phv, packet: &[u8], state: &mut ProgramState) {
        match self.code.parse.get(parser) {
            Some(entry) => {
                self.call(*entry, Mode::Parse, phv, (packet.as_ptr(), packet.len()), state);
            }
            None => {
                phv.set_slot(slot::PARSER_ERROR, self.code.shared.plan.errors.no_error);
                phv.set_slot(slot::CHECKSUM_ERROR, 0);
                phv.set_slot(slot::REJECTED, 0);
                phv.set_slot(slot::PARSED, 0);
            }
        }
    }

    fn run(&mut self, pipeline: usize, phv: &mut Phv, packet: &[u8], state: &mut ProgramState) {
        match self.code.run.get(pipeline) {
            Some(entry) => {
                self.call(*entry, Mode::Run, phv, (packet.as_ptr(), packet.len()), state);
            }
            None => phv.set_slot(slot::EXIT, 0),
        }
    }

    fn prepare_deparse(
        &mut self,
        deparser: usize,
        phv: &mut Phv,
        payload: &[u8],
        state: &mut ProgramState,
    ) -> usize {
        match self.code.prepare.get(deparser) {
            Some(entry) => {
                self.call(*entry, Mode::Deparse, phv, (payload.as_ptr(), payload.len()), state) as usize
            }
            None => 0,
        }
    }

    fn emit(&mut self, deparser: usize, phv: &Phv, out: &mut [u8]) {
        let Some(entry) = self.code.emit.get(deparser) else { return };
        assert!(phv.words().len() == self.words, "a vector of this program");
        let env = self.env.as_ptr();
        // SAFETY: as in `call`, but that `emit` functions only read the vector (nothing of them writes to it, and the one
        // helper they call, `env::emit_header`, borrows it shared) and write `out`, within its length.
        unsafe {
            (*env).state = std::ptr::null_mut();
            (*env).phv = std::ptr::from_ref(phv).cast_mut();
            (*env).packet = std::ptr::null();
            (*env).packet_len = 0;
            (*env).mode = Mode::Deparse;
            entry(env, phv.words().as_ptr().cast_mut(), out.as_mut_ptr(), out.len() as u64);
        }
    }
}
