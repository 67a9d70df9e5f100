//! Files of P4's tools.
//!
//! What flows through here: [`import`] reads bmv2 JSON into the intermediate representation ([`barewire_p4::ir`]), checks it and refuses
//! what it does not understand, with its place; [`export`] writes the same format; [`stf`] reads the field's packet tests. No packet meets
//! any of it: a program is read before it runs.
//!
//! ```
//! use barewire_p4_formats::import::import;
//!
//! let json = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/p4c/simple_router.json"));
//! let program = import(json)?;
//! assert!(program.headers.iter().any(|header| header.name == "ipv4"));
//!
//! // What is not understood is refused, with its place.
//! let error = import("{\"program\": 1").unwrap_err();
//! assert!(error.to_string().contains("line 1"), "{error}");
//! # Ok::<(), barewire_p4_formats::import::ImportError>(())
//! ```
//!
//! Sources: bmv2's `docs/JSON_format.md` and its loader, and p4c's STF runner for bmv2.
#![forbid(unsafe_code)]

pub mod export;
pub mod import;
pub mod stf;
