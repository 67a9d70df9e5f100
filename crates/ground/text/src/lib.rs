//! What messages about a text need, so that a slip gets the same answer in a URI, a file, a command and a program.
//!
//! What flows through here: a word that nobody knows and the words that are known give the [`nearest`] one, and from it a sentence
//! ([`hint`], [`suggest`]); a byte of a text gives its [`Place`]; a message of a serde reader gives the key that it is about ([`key_error`]).
#![forbid(unsafe_code)]

mod key;
mod names;
mod near;
mod place;

pub use key::{KeyError, key_error, with_nearest_key};
pub use names::{by_name, some_by_name};
pub use near::{Quote, did_you_mean, hint, nearest, suggest};
pub use place::Place;
