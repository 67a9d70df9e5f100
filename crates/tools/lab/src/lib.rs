//! Hosts and links on one machine: network namespaces and veth pairs, made by system calls and rtnetlink, gone on drop.
//!
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
mod error;
mod link;
mod namespace;
mod rtnl;
mod stale;
mod sys;
mod two_hosts;

pub use capable::{WhyNot, is_root_capable};
pub use error::LabError;
pub use link::{Link, LinkConfig, Offloads, VethPair};
pub use namespace::Namespace;
pub use stale::sweep_stale;
pub use two_hosts::{Interface, TwoHosts, TwoHostsConfig};
