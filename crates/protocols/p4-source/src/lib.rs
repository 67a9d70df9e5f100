//! P4-16 source (specification 1.2.5): from text to a syntax tree, types, and back to well-formed text.
//!
//! ```text
//! source   files, places in them, uses of macros
//! diag     what is wrong: messages with places, drawn for people or as JSON
//! ast      the syntax tree
//! ```
//! The crate reads no file itself and knows no clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod ast;
pub mod diag;
pub mod source;

pub use diag::{Diagnostic, Diagnostics, Severity};
pub use source::{FileId, SourceMap, Span};
