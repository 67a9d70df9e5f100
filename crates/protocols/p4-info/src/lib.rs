//! P4Info: what of a P4 program a controller can see, and by which ids.
//!
//! ```text
//! message, types   the messages, as `prost` encodes them
//! schema, text     names of their fields; text form -> messages
//! write            messages -> text form
//! build            P4-16 source that `barewire-p4-source` has checked -> messages, with the ids and names that p4c gives
//! ```
//! No file is read or written here.
#![forbid(unsafe_code)]

pub mod build;
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
    words
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= 1 + word.len().max(candidate.len()) / 3)
        .map_or_else(String::new, |(_, candidate)| format!(" (did you mean '{candidate}'?)"))
}
