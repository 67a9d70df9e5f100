//! Labs: topologies of hosts, links and switches on one machine, with seeded impairments.
//!
//! A [`Topology`] is a TOML file, checked into a plan. [`Lab::up`] makes its hosts, switches and links (crate `barewire-netns`), starts a
//! [link node](run_link_node) for each link on which frames suffer something, and writes down what it made, before it makes
//! it; [`Lab::down`] removes all of it, also half of it, also after the maker was killed. Between them [`Lab::exec`] runs
//! programs in hosts, [`Lab::pcap`] captures, [`Lab::status`] shows counters. [`graph()`] draws the plan,
//! [`simulate`](simulate()) runs it in virtual time, [`export_containerlab`] and [`export_mininet`] hand it to others.
//!
//! ```
//! use barewire_lab::{GraphStyle, Topology, Workload, graph, simulate};
//! use std::path::Path;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"
//! name = "pair"
//! [[host]]
//! name = "h1"
//! addresses = ["10.0.0.1/24"]
//! [[host]]
//! name = "h2"
//! addresses = ["10.0.0.2/24"]
//! [[link]]
//! ends = ["h1", "h2"]
//! both = { delay_us = 500, loss = 0.01 }
//! "#;
//! let topology = Topology::parse(text, "pair.toml", Path::new(""))?;
//! println!("{}", graph(&topology, GraphStyle::Mermaid));
//!
//! // A second of messages there and back, in virtual time: no root, no clock, the same result each time.
//! let done = simulate(&topology, &Workload::default())?;
//! assert!(done.completed > 100 && done.times.min() > Some(1_000_000), "two delays");
//! # Ok(()) }
//! ```
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod capture;
mod error;
mod exec;
mod export;
mod graph;
mod hash;
mod lab;
mod link_node;
mod process;
mod progress;
mod simulate;
mod state;
mod sys;
mod topology;

pub use capture::{CaptureLimits, Captured};
pub use error::LabError;
pub use exec::Running;
pub use export::{ExportFile, Exported, IMAGE_DEFAULT, export_containerlab, export_mininet};
pub use graph::{GraphStyle, graph};
pub use lab::{Lab, LinkStatus, ProcessStatus, Programs, Removed, Status};
pub use link_node::{
    DirectionReport, LinkNodeConfig, LinkNodeError, LinkReport, READY_LINE, run_link_node, serve_link_node,
};
pub use progress::Progress;
pub use simulate::{MEMORY_MAX, Pattern, Simulated, WIRE_DELAY, Work, Workload, simulate, simulate_with};
pub use state::{EndState, LinkState, NodeKind, NodeState, Phase, ProcessState, State};
pub use topology::{
    End, HostPlan, InterfacePlan, LINKS_MAX, LinkPlan, NODES_MAX, Node, NodePort, RoutePlan, SwitchKind,
    SwitchPlan, Topology, TopologyError,
};
