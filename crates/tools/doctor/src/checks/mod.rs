//! The checks, a file for each heading. Each appends its findings; none can fail.

pub(crate) mod clocks;
pub(crate) mod cores;
pub(crate) mod dpdk;
pub(crate) mod measured;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod nic;
pub(crate) mod ports;
pub(crate) mod rights;
pub(crate) mod share;

/// What is said of a file that is not there or makes no sense.
fn silent(path: &str) -> String {
    format!("/{path} is missing or makes no sense")
}
