//! The files that `#include <…>` finds without a search path: the core library and the architectures, written from their
//! specifications.

macro_rules! files {
    ($($name:literal)*) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("include/", $name)))),*];
    };
}

files! {
    "core.p4" "v1model.p4" "psa.p4" "pna.p4"
    "bmv2/psa.p4" "bmv2/pna.p4" "dpdk/psa.p4" "dpdk/pna.p4" "tc/pna.p4"
    "ebpf_model.p4" "ubpf_model.p4" "xdp_model.p4"
}

/// The file that is included by this name: its name and its text.
pub fn file(name: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().copied().find(|(known, _)| *known == name)
}

/// Names of all files.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}
