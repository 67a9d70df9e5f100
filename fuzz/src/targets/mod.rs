//! The bodies of the targets.

pub mod channel_entry;
pub mod counters;
pub mod host;
pub mod market;
pub mod p4;
pub mod p4_lower;
pub mod p4_mutated;
pub mod p4_source;
pub mod pcap;
pub mod roce;
pub mod transport;
pub mod uri;
pub mod wire;
