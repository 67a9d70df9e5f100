//! What a lab consists of: a TOML file, checked into a plan.
//!
//! ```toml
//! name = "pair"
//! seed = 7                         # what impairments replay from
//!
//! [[host]]
//! name = "h1"
//! addresses = ["10.0.0.1/24"]      # of eth0; more interfaces as [[host.interface]]
//!
//! [[host]]
//! name = "h2"
//! addresses = ["10.0.0.2/24"]
//!
//! [[link]]
//! ends = ["h1", "h2"]              # NODE, or NODE:INTERFACE, or SWITCH:NUMBER
//! mtu_bytes = 1500
//!
//! [link.both]                      # or [link.forward] and [link.reverse]; a link without them is a plain veth
//! delay_us = 1000
//! loss = 0.01
//! ```
//! A switch is `[[switch]]` with `kind = "bridge"`, or `kind = "barewire"` with a `program`; `[[group]]` makes `count` hosts
//! with a link each to one switch. Paths are relative to the file's folder.

mod addresses;
mod file;
mod impairment;
mod plan;
mod subnets;
#[cfg(test)]
mod tests;
mod wiring;

pub use plan::{
    End, HostPlan, InterfacePlan, LINKS_MAX, LinkPlan, NODES_MAX, Node, NodePort, RoutePlan, SwitchKind,
    SwitchPlan, Topology,
};

pub(crate) use subnets::Subnets;

use barewire_text::Place;

/// The root of a tree that is written as each member's parent: who has the same one hangs together.
pub(crate) fn root(tree: &[usize], mut member: usize) -> usize {
    while tree[member] != member {
        member = tree[member];
    }
    member
}

/// Why a topology was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind. The parser shows line and column.
    #[error("{path}: {message}")]
    Syntax {
        /// Which file.
        path: String,
        /// Line, column and complaint.
        message: String,
    },
    /// A value that cannot be.
    #[error("{path}:{place}: {what}: {why}")]
    At {
        /// Which file.
        path: String,
        /// Where in it.
        place: Place,
        /// Key and value.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}
