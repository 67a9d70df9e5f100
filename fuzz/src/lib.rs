//! Fuzz targets: bytes that nobody vouches for, into everything that reads such bytes.
//!
//! A target is a function of the input alone, so that a crash replays from its file. Each has a [`Target`] entry with a
//! corpus of valid inputs, and is run in two ways: by libFuzzer (`fuzz_targets/`, feature `libfuzzer`), and by [`smoke`],
//! a seeded loop of random and mutated inputs ([`Mutator`]) for tests and `xtask fuzz-smoke`.
//!
//! | target | into | what must hold besides no panic |
//! | --- | --- | --- |
//! | [`wire`] | every packet view and `Repr`, the message header | what parses is written and parsed again to the same |
//! | [`uri`] | `PortUri` | a URI prints as one that parses to the same |
//! | [`pcap`] | `PcapReader` | it advances, ends, reads the same in pieces, and `PcapWriter` keeps what it gives |
//! | [`counters`] | `CountersReader` on a file | no more entries than the file holds, names fit for a terminal |
//! | [`channel_entry`] | requests and completions of a ring | one encoding of each entry |
//! | [`host`] | `Host` | replies bounded and well-formed, no mapping stolen, real datagrams still pass |
//! | [`transport`] | two live endpoints with an open flow, and a hostile peer | the honest flow stays open and carries messages |
//! | [`roce`] | two live RDMA endpoints with an open connection, a hostile peer, and verbs in any order | the honest connection carries each operation once |
//! | [`p4_json`] | the importer of P4 programs | what it accepts compiles, and both engines agree |
//! | [`p4_engines`] | random programs, entries and packets | interpreter and compiled code agree byte for byte |
//! | [`p4_lower`] | lowering of P4-16 source | programs of a grammar leave the packets that the language says: lowered, from their JSON, compiled |
//! | [`p4_mutated`] | lowering of P4-16 source that was changed by its grammar | messages lie in the text; what is accepted runs as from its JSON, and as compiled |
//! | [`p4_source`] | preprocessor, parser and formatter of P4-16 source | places lie in the text, and what is laid out stays as it is |
//! | [`stf_text`] | packet tests | places lie in the text |
//! | [`sbe`] | market data packets, messages, schemas | typed views and the dynamic decoder agree |
//! | [`feed`] | a feed channel | no book beyond its depth, ends |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bytes;
mod frames;
mod mutate;
mod smoke;
mod targets;

pub use mutate::Mutator;
pub use smoke::{Failure, INPUT_MAX, Outcome, input_of, smoke};
pub use targets::channel_entry::channel_entry;
pub use targets::counters::counters;
pub use targets::host::host;
pub use targets::market::{feed, sbe};
pub use targets::p4::{p4_engines, p4_json, stf_text};
pub use targets::p4_lower::p4_lower;
pub use targets::p4_mutated::p4_mutated;
pub use targets::p4_source::p4_source;
pub use targets::pcap::pcap;
pub use targets::roce::roce;
pub use targets::transport::{transport, transport_secure};
pub use targets::uri::uri;
pub use targets::wire::wire;

/// One target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name: of the function, of the libFuzzer binary, of its artifacts.
    pub name: &'static str,
    /// What is run. Returns how many things (frames, packets, entries) it fed; panics when something is wrong.
    pub run: fn(&[u8]) -> u64,
    /// Valid inputs to start from.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Its share of the iterations of a run over all targets.
    pub weight: u64,
}

/// Every target but the [`CANARY`].
pub const TARGETS: &[Target] = &[
    Target { name: "wire", run: wire, corpus: targets::wire::corpus, weight: 40 },
    Target { name: "uri", run: uri, corpus: targets::uri::corpus, weight: 20 },
    Target { name: "pcap", run: pcap, corpus: targets::pcap::corpus, weight: 8 },
    Target { name: "counters", run: counters, corpus: targets::counters::corpus, weight: 8 },
    Target { name: "channel_entry", run: channel_entry, corpus: targets::channel_entry::corpus, weight: 12 },
    Target { name: "host", run: host, corpus: targets::host::corpus, weight: 8 },
    Target { name: "transport", run: transport, corpus: targets::transport::corpus, weight: 4 },
    Target { name: "transport_secure", run: transport_secure, corpus: targets::transport::corpus, weight: 4 },
    Target { name: "roce", run: roce, corpus: targets::roce::corpus, weight: 4 },
    Target { name: "p4_json", run: p4_json, corpus: targets::p4::json_corpus, weight: 2 },
    Target { name: "p4_engines", run: p4_engines, corpus: targets::p4::engines_corpus, weight: 1 },
    Target { name: "p4_lower", run: p4_lower, corpus: targets::p4_lower::corpus, weight: 4 },
    Target { name: "p4_mutated", run: p4_mutated, corpus: targets::p4_mutated::corpus, weight: 8 },
    Target { name: "p4_source", run: p4_source, corpus: targets::p4_source::corpus, weight: 8 },
    Target { name: "stf_text", run: stf_text, corpus: targets::p4::stf_corpus, weight: 12 },
    Target { name: "sbe", run: sbe, corpus: targets::market::sbe_corpus, weight: 12 },
    Target { name: "feed", run: feed, corpus: targets::market::feed_corpus, weight: 4 },
];

/// The target that fails: proof that a panic is seen. Not among [`TARGETS`].
pub const CANARY: Target = Target { name: "canary", run: canary, corpus: canary_corpus, weight: 0 };

/// The target with this name, the canary included.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().chain([&CANARY]).find(|t| t.name == name).copied()
}

/// Panics on any input that begins with `sing`.
pub fn canary(data: &[u8]) -> u64 {
    assert!(!data.starts_with(b"sing"), "the canary sings");
    1
}

fn canary_corpus() -> Vec<Vec<u8>> {
    vec![b"sing, canary".to_vec(), b"silence".to_vec()]
}
