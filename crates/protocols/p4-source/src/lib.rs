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
//!
//! ```
//! use barewire_p4_source::resolve::MemoryFiles;
//! use barewire_p4_source::{Options, fmt, read};
//!
//! let files = MemoryFiles::one("a.p4", "const bit<8> limit = 300;\nconst bool on = 1;\n");
//! let read = read(&files, &Options::default(), "a.p4", |_, _, _, _| ());
//! assert_eq!(read.found.error_count(), 1, "a number is no bool");
//!
//! assert_eq!(fmt::format("const  bit<8>limit=3 ;\n")?, "const bit<8> limit = 3;\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Positions are bytes of a file in the [`SourceMap`]. What is wrong with a program is a [`Diagnostic`], never an `Err`.
//! Source: the P4-16 language specification, version 1.2.5.
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
