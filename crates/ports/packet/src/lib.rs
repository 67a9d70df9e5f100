//! The AF_PACKET port: works on every interface and every kernel, at the price of two copies.
//!
//! ```text
//! card, driver --> kernel copies --> receive ring (mapped) --> we copy --> frame of the pool
//! frame        --> we copy --> transmit ring (mapped) --> one send(2) a burst --> driver, past the queueing discipline
//! ```
//! Frames keep what the kernel knows about them: its receive time (or the card's), the VLAN tag that the card had cut
//! out, and whether the transport checksum was verified or left unfinished. An unfinished one is marked
//! [`ChecksumState::Partial`](barewire_frame::ChecksumState) and never passed on as if it were good.
//!
//! [`PacketConfig`] says what is wanted, [`PacketPort`] is the port. [`interface`] asks for index, MTU, address, queues
//! and driver, [`checksum`] finds and recognises unfinished checksums, [`outgoing`] checks a frame before it is sent and
//! completes its checksum: the AF_XDP port uses them, too.
//!
//! # Without rings
//! `rx=0` and `tx=0` exchange bursts by recvmmsg(2) and sendmmsg(2): the kernel copies straight from and to frames of the pool,
//! at the price of a system call for each look at an empty queue. That is how `gso=1` works, where frames have up to 64 KiB:
//! such a frame comes in whole, marked [`Frame::gso`](barewire_frame::Frame::gso), and goes out whole by a port that has `gso=1`,
//! too; every other port drops it as too large. Its checksum, as any that is marked unfinished, is made from the addresses it
//! has when it is sent, so whoever forwards it may change them.
//!
//! # Why TPACKET_V2
//! The kernel hands a frame of version 2 over by itself, as it arrives. Version 3 hands over whole blocks, when one is
//! full or its timer (of a millisecond at least) runs out: cheaper at millions of frames a second, but a lone frame
//! waits. Its transmit ring is version 2's with another header. Source: kernel
//! `Documentation/networking/packet_mmap.rst`.
//!
//! # Example
//!
//! ```no_run
//! use barewire_base::Instant;
//! use barewire_frame::{Burst, Pool, PoolConfig};
//! use barewire_packet::{PacketConfig, PacketPort};
//! use barewire_port::Port;
//!
//! let pool = Pool::new(PoolConfig::default())?;
//! let mut port = PacketPort::open(PacketConfig::new("eth0"), pool)?; // CAP_NET_RAW
//! let mut burst = Burst::new();
//! port.rx_burst(Instant::ZERO, &mut burst)?;
//! println!("{} frames; {}", burst.len(), port.caps().description);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

pub mod checksum;
pub mod interface;
pub mod outgoing;

mod calls;
mod config;
mod open;
mod port;
mod ring;
mod rss;
mod sys;
mod vnet;
mod watch;

pub use config::{Fanout, FanoutMode, PacketConfig, StampBy};
pub use port::PacketPort;
pub use rss::Rss;
pub use watch::LinkWatch;
