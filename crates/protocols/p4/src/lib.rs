//! P4 programs as they run.
//!
//! What flows through here: [`ir`] is what a program is once it has been read and checked, from bmv2 JSON (`barewire-p4-formats`) or from
//! source (`barewire-p4-lower`); [`phv`] lays out the memory a packet's headers and metadata live in; [`interp`] runs a program on it,
//! statement by statement: slow, simple, the oracle of every faster [`engine`]; [`chain`] says what a target does around it. [`key`] and
//! [`state`] say what tables and other memory look like to an engine; [`hash`] has the hash and checksum algorithms of bmv2.
//!
//! Sources: the P4-16 language specification, bmv2's `docs/JSON_format.md`, and the behaviour of bmv2 where these leave a question open.
#![forbid(unsafe_code)]

pub mod chain;
pub mod engine;
pub mod hash;
pub mod interp;
pub mod ir;
pub mod key;
pub mod phv;
pub mod state;
