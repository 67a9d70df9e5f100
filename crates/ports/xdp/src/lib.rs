//! The AF_XDP port, on bare system calls: no libxdp, no libbpf, no clang.
//!
//! The pool's own region is the UMEM, so frames are received and sent where they lie:
//!
//! ```text
//!            fill ring <- Frame::into_index      Pool::reclaim <- receive ring
//! pool.alloc()  |                                       ^
//!               v        card, driver, XDP program      |          kernel
//!            transmit ring -------> wire ------> completion ring -> back to the pool
//! ```
//! Our XDP [`program`] chooses which frames are ours (all, or those to claimed addresses), stamps them with the kernel's
//! clock and redirects them to the socket of their queue; everything else goes on to the kernel's own stack. It hangs
//! on a link descriptor, so that it vanishes with the process, however that ends.
//!
//! Several ports of a process, each on a thread and with queues of its own, share the program (`share=1`): this is how several
//! engines serve one interface.
//!
//! What the hook does not see: a VLAN tag that the card cut out (`ethtool -K eth0 rxvlan off` leaves it in), and whether
//! a checksum was verified. Frames larger than the MTU, of a virtual peer that segments late, do not fit into a chunk:
//! the kernel drops them, and they are counted as too large (`ethtool -K PEER tso off gso off`).
//!
//! [`XdpConfig`] says what is wanted, [`XdpPort::open`] probes what there is, and `caps().description` says what was
//! chosen and why. Sources: kernel `Documentation/networking/af_xdp.rst`, `linux/if_xdp.h`, `linux/bpf.h`.
//!
//! ```no_run
//! use barewire_base::Instant;
//! use barewire_frame::{Burst, Pool, PoolConfig};
//! use barewire_port::Port;
//! use barewire_xdp::{XdpConfig, XdpPort};
//!
//! let pool = Pool::new(PoolConfig::default())?;
//! let mut port = XdpPort::open(XdpConfig::new("eth0"), pool)?; // CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF
//! let mut burst = Burst::new();
//! port.rx_burst(Instant::ZERO, &mut burst)?;
//! println!("{} frames; {}", burst.len(), port.caps().description);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

mod config;
mod hook;
mod open;
mod port;
mod ring;
mod sys;

pub mod program;

pub use barewire_ebpf::Insn;
pub use config::{Attach, BusyPoll, Mode, NeedWakeup, Queues, XdpConfig};
pub use port::{XdpPort, XdpStatistics};
pub use program::CLAIM_MAX;
