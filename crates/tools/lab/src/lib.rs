//! Hosts and links on one machine: network namespaces, veth pairs and bridges, created by system calls and rtnetlink.
//!
//! # Labs
//! A [`Topology`] is a TOML file, checked into a plan. [`Lab::up`] makes its hosts, switches and links, starts a
//! [link node](run_link_node) for each link on which frames suffer something, and writes down what it made, before it makes
//! it; [`Lab::down`] removes all of it, also half of it, also after the maker was killed. Between them [`Lab::exec`] runs
//! programs in hosts, [`Lab::pcap`] captures, [`Lab::status`] shows counters. [`graph()`] draws the plan,
//! [`simulate`](simulate()) runs it in virtual time, [`export_containerlab`] and [`export_mininet`] hand it to others.
//!
//! # Hosts of one program
//! [`Namespace`] is a host, [`VethPair`] a wire between two; [`TwoHosts`] is the pair that demo, tests and baselines run
//! on. What a process leaves behind when it is killed, [`sweep_stale`] removes at the next start.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! barewire_lab::sweep_stale()?;
//! let hosts = barewire_lab::TwoHosts::create(&barewire_lab::TwoHostsConfig::default())?;
//! let socket = hosts.ns_a.enter(|| std::net::UdpSocket::bind((hosts.eth_a.v4, 0)))??;
//! # Ok(()) }
//! ```
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod capable;
mod capture;
mod error;
mod exec;
mod export;
mod graph;
mod hash;
mod lab;
mod link;
mod link_node;
mod namespace;
mod process;
mod progress;
mod rtnl;
mod simulate;
mod stale;
mod state;
mod sys;
mod topology;
mod two_hosts;

pub use capable::{WhyNot, is_root_capable};
pub use capture::{CaptureLimits, Captured};
pub use error::LabError;
pub use exec::Running;
pub use export::{ExportFile, Exported, IMAGE_DEFAULT, export_containerlab, export_mininet};
pub use graph::{GraphStyle, graph};
pub use lab::{Lab, LinkStatus, ProcessStatus, Programs, Removed, Status};
pub use link::{Link, LinkConfig, Offloads, VethPair};
pub use link_node::{
    DirectionReport, LinkNodeConfig, LinkNodeError, LinkReport, READY_LINE, run_link_node, serve_link_node,
};
pub use namespace::Namespace;
pub use progress::Progress;
pub use simulate::{MEMORY_MAX, Pattern, Simulated, WIRE_DELAY, Work, Workload, simulate, simulate_with};
pub use stale::sweep_stale;
pub use state::{EndState, LinkState, NodeKind, NodeState, Phase, ProcessState, State};
pub use topology::{
    End, HostPlan, InterfacePlan, LINKS_MAX, LinkPlan, NODES_MAX, Node, NodePort, RoutePlan, SwitchKind,
    SwitchPlan, Topology, TopologyError,
};
pub use two_hosts::{Interface, TwoHosts, TwoHostsConfig};
