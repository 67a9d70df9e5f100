//! P4-16 source (specification 1.2.5): from text to a syntax tree, from there to types, and back to text that is laid out.
//!
//! ```text
//! resolve  the caller hands in who reads files; `builtin` has core.p4 and the architectures
//! pp       directives and macros; `lex` cuts text into words
//! parse    tokens -> ast, the syntax tree, with what is wrong in `diag`; `source` knows every place
//! types    ast -> names, types and constants by node, and every static rule
//! read     all of these, from a file to checked types
//! instances  types -> the instances behind `main`, what stands in each, and what a control plane calls it
//! ```
//! The crate reads no file itself and knows no clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod ast;
pub mod builtin;
pub mod diag;
pub mod fmt;
pub mod instances;
pub mod lex;
pub mod parse;
pub mod pp;
mod read;
pub mod resolve;
pub mod source;
pub mod types;

pub use diag::{Diagnostic, Diagnostics, Severity};
pub use parse::parse;
pub use pp::{MacroOption, Options};
pub use read::{Read, read};
pub use resolve::Resolver;
pub use source::{FileId, SourceMap, Span};
