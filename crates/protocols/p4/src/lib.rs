//! P4 programs: from the compiler's JSON to a program that can be run.
//!
//! What flows through here: [`import`] reads bmv2 JSON into the intermediate representation [`ir`], checks it and
//! refuses what it does not understand, with its place; [`phv`] lays out the memory a packet's headers and metadata
//! live in; [`interp`] runs a program on it, statement by statement: slow, simple, the oracle of every faster
//! [`engine`]. [`key`] and [`state`] say what tables and other memory look like to an engine; [`hash`] has the hash and
//! checksum algorithms of bmv2; [`stf`] reads the field's packet tests.
#![forbid(unsafe_code)]

pub mod engine;
pub mod hash;
pub mod import;
pub mod interp;
pub mod ir;
pub mod key;
pub mod phv;
pub mod state;
pub mod stf;
