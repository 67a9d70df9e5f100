//! P4 programs compiled to machine code when they are loaded.
//!
//! [`compile`] turns a program ([`barewire_p4::ir`]) into functions of the host's machine code, by Cranelift: one for
//! each parser, each pipeline, and two for each deparser. [`Compiled`] is an [`Engine`](barewire_p4::engine::Engine) on
//! the same vectors as the interpreter and on [`ProgramState`](barewire_p4_state::ProgramState)'s tables. Inside: `emit`
//! generates code, `env` has what the code calls, `delegate` what it leaves to the interpreter (rare constructs: the
//! [`Report`] names them), `memory` owns the pages.
//!
//! What makes it fast: a header is extracted by a few wide copies behind one bounds check; a field is one load;
//! arithmetic is done as wide as its results demand; keys are built in registers; actions are part of the code that
//! applies their table; metadata that nobody reads is not written; the fast path through a target is one function
//! ([`chain`]).
//!
//! ```
//! use std::sync::Arc;
//!
//! let json = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/p4c/simple_router.json"));
//! let program = barewire_p4_formats::import::import(json)?;
//! let compiled = barewire_p4_jit::compile(Arc::new(program))?;
//! let report = compiled.report();
//! assert!(report.bytes() > 0 && report.delegated() == 0, "{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod chain;
mod compiled;
mod delegate;
pub mod differential;
mod emit;
mod env;
mod error;
mod facts;
mod gather;
mod memory;
mod pack;
mod report;
mod size;

pub use compiled::{Compiled, Options, compile, compile_chained, compile_with};
pub use error::CompileError;
pub use report::{FunctionReport, Report};
