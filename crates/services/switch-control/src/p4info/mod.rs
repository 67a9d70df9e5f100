//! P4Info: what of a program a controller can see.
//!
//! What flows through here: [`text`] and `prost` read a P4Info ([`message`], [`types`]); [`index`] holds it against the
//! program that runs and turns its ids into the program's own, both ways.

pub mod index;
pub mod message;
mod schema;
mod shape;
pub mod text;
pub mod types;

pub use index::{Index, IndexError};
pub use message::P4Info;

/// ` (did you mean 'x'?)` with the nearest of some words, or nothing when none is near.
pub(crate) fn nearest_hint<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    words
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= 1 + word.len().max(candidate.len()) / 3)
        .map_or_else(String::new, |(_, candidate)| format!(" (did you mean '{candidate}'?)"))
}
