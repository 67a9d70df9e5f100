//! Control planes of the P4 switch.
//!
//! What flows through here: calls from controllers in one of the field's protocols come in, each becomes calls of
//! [`barewire_switch::control::Switch`], results and refusals go back in the protocol's own words. [`thrift`] is what
//! bmv2's tools speak; [`cli`] is our command line on it, in the command words of p4lang's; [`p4runtime`] is what
//! P4Runtime controllers speak, with [`p4info`] between their ids and the program; [`gnmi`] shows the ports.
#![forbid(unsafe_code)]

pub mod cli;
pub mod gnmi;
pub mod p4info;
pub mod p4runtime;
pub mod thrift;

use barewire_text::{Quote, hint};

/// A hint at the word that was perhaps meant, to be put behind a message; empty where none is near.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    hint(", ", barewire_text::nearest(word, known), Quote::Single)
}
