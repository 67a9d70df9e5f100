//! P4Info: what of a P4 program a controller can see, and by which ids.
//!
//! ```text
//! message, types   the messages, as `prost` encodes them
//! schema, text     names of their fields; text form -> messages
//! write            messages -> text form
//! build            P4-16 source that `barewire-p4-source` has checked -> messages, with the ids and names that p4c gives
//! ```
//! No file is read or written here.
//!
//! ```
//! use barewire_p4_info::{from_source, to_text};
//! use barewire_p4_source::resolve::MemoryFiles;
//! use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
//!
//! let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../programs/simple_router.p4"));
//! let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
//! let program = parse(&mut map, &MemoryFiles::one("router.p4", text), &Options::default(), "router.p4", &mut found);
//! let typed = types::check(&program, &map, &mut found);
//! let info = from_source(&program, &typed, &mut found);
//! assert_eq!((found.error_count(), info.tables.len()), (0, 3));
//! assert!(to_text(&info).contains("RouterIngress.ipv4_lpm"));
//! ```
//!
//! What P4Info cannot express is a [`Diagnostic`](barewire_p4_source::Diagnostic) at its place; a text that is not P4Info is a
//! [`TextError`](text::TextError). Sources: the P4Runtime specification 1.4, `p4info.proto`, and p4c's ids.
#![forbid(unsafe_code)]

pub mod build;
use barewire_text::{Quote, did_you_mean};

pub mod message;
mod schema;
pub mod text;
pub mod types;
mod write;

pub use build::from_source;
pub use message::P4Info;
pub use write::to_text;

/// ` (did you mean 'x'?)` with the nearest of some words, or nothing when none is near.
pub fn nearest_hint<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let near = barewire_text::nearest(word, words);
    near.map_or_else(String::new, |near| format!(" ({})", did_you_mean(near, Quote::Single)))
}
