//! The DPDK port: any poll-mode driver of an installed libdpdk, on a card (`dpdk:0000:00:06.0`) or a virtual device
//! (`dpdk:net_af_packet0,iface=eth0`, `net_memif`, `net_tap`, `net_ring`, `net_pcap`, `net_null`).
//!
//! ```text
//! card --> driver writes into a chunk of our pool --> the same chunk as a frame        (nothing is copied)
//! frame --> the driver reads its chunk, and frees it when it is sent --> free chunk
//! ```
//! A pool of ours is external memory to DPDK: each chunk has one mbuf that stands for it and for nothing else. Chunks that the driver may
//! use lie on a stack from which a mempool of our own takes (`shim/shim.h`); a [`Ledger`](barewire_frame::Ledger) keeps the books.
//!
//! A device may have several receive queues, dealt to by RSS where it can: all for one port, or some for each of several ports of a process,
//! which is how several engines serve a card ([`DpdkConfig::share`]). Transport checksums are the card's work where it offers that.
//!
//! [`DpdkConfig`] says what is wanted; `DpdkPort` is the port, and exists with the feature `dpdk` only, which needs libdpdk 22.11 or newer
//! and a C compiler. Everything else builds without.
//!
//! DPDK's environment is started once in a process, by the first port, and stays. What it takes beyond what this crate chooses
//! (`--in-memory`; without huge pages `--no-huge`) is said by the option `eal` of that port.
//!
//! Sources: DPDK Programmer's Guide 22.11, *Mbuf Library*, *Mempool Library*, *Poll Mode Driver*; `rte_ethdev.h`.
#![warn(missing_docs)]

#[cfg(feature = "dpdk")]
mod card;
mod config;
#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod offload;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod sys;

pub use config::DpdkConfig;
#[cfg(feature = "dpdk")]
pub use port::DpdkPort;
