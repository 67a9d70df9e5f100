//! Hosts and wires on one machine: network namespaces and veth pairs, made by system calls and rtnetlink. It is to a real kernel what `sim`
//! is to virtual time: the place where two hosts meet.
//!
//! [`Namespace`] is a host, with what `ip` and `ethtool` do to its links: addresses, neighbours, routes, bridges, offloads.
//! [`VethPair`] is a wire between two, [`TwoHosts`] the pair that tests, measurements and the demonstration run on. Labs are made of the
//! same parts (crate `barewire-lab`).
//!
//! A namespace goes with its value. What a process leaves behind when it is killed, [`sweep_stale`] removes at the next start: names
//! say which process made them. [`Namespace::anonymous`] has no name and leaves nothing, however its process ends.
//!
//! All of it needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN; [`is_root_capable`] tells beforehand, with a hint.
//!
//! ```
//! use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
//! use std::net::UdpSocket;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! if let Err(why) = is_root_capable() {
//!     eprintln!("no hosts: {why}; hint: {}", why.hint());
//!     return Ok(());
//! }
//! let (a, b) = (Namespace::anonymous()?, Namespace::anonymous()?);
//! VethPair::create(&a, "eth0", &b, "eth0", &LinkConfig { mtu: 9000, ..LinkConfig::default() })?;
//! for (host, address) in [(&a, "10.1.0.1"), (&b, "10.1.0.2")] {
//!     host.add_address("eth0", address.parse()?, 24)?;
//!     host.set_up("eth0")?;
//! }
//! assert_eq!(a.wait_running("eth0")?.mtu, 9000);
//! b.wait_running("eth0")?;
//!
//! // A socket stays in the namespace that it was made in, wherever it goes.
//! let from = a.enter(|| UdpSocket::bind("10.1.0.1:0"))??;
//! let to = b.enter(|| UdpSocket::bind("10.1.0.2:0"))??;
//! from.send_to(b"over the wire", to.local_addr()?)?;
//! let mut buffer = [0; 64];
//! let (len, peer) = to.recv_from(&mut buffer)?;
//! assert_eq!((&buffer[..len], peer), (&b"over the wire"[..], from.local_addr()?));
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
pub use error::NetnsError;
pub use link::{Link, LinkConfig, Offloads, VethPair, check_interface};
pub use namespace::Namespace;
pub use stale::{NETNS_DIR, check_label, sweep_stale};
pub use two_hosts::{Interface, TwoHosts, TwoHostsConfig};
