//! P4 programs: from the compiler's JSON to a program that can be run.
//!
//! What flows through here: [`import`] reads bmv2 JSON into the intermediate representation [`ir`], checks it and
//! refuses what it does not understand, with its place; [`phv`] lays out the memory a packet's headers and metadata
//! live in; [`interp`] runs a program on it, statement by statement: slow, simple, the oracle of every faster
//! [`engine`]; [`chain`] says what a target does around it. [`key`] and [`state`] say what tables and other memory look like to an engine; [`hash`] has the hash and
//! checksum algorithms of bmv2; [`stf`] reads the field's packet tests.
//!
//! ```
//! use barewire_p4::import::import;
//!
//! let json = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/p4c/simple_router.json"));
//! let program = import(json)?;
//! assert!(program.headers.iter().any(|header| header.name == "ipv4"));
//!
//! // What is not understood is refused, with its place.
//! let error = import("{\"program\": 1").unwrap_err();
//! assert!(error.to_string().contains("line 1"), "{error}");
//! # Ok::<(), barewire_p4::import::ImportError>(())
//! ```
//!
//! Sources: bmv2's `docs/JSON_format.md`, the P4-16 language specification, and the behaviour of bmv2 where these leave a question open.
#![forbid(unsafe_code)]

pub mod chain;
pub mod engine;
pub mod export;
pub mod hash;
pub mod import;
pub mod interp;
pub mod ir;
pub mod key;
pub mod phv;
pub mod state;
pub mod stf;
