//! Ports: where frames enter and leave. Burst in, burst out, never blocking, never allocating.
//!
//! [`Port`] is the trait; `memory`, `pcap`, `unix` are ports of this crate, `fault`, `gso` and `trace` wrap another port; the
//! AF_PACKET and AF_XDP ports have crates of their own. [`PortUri`] is how a user names any of them, [`open()`] makes a port
//! of it, and `conformance` is the suite that every port passes.
//!
//! ```
//! use barewire_base::Instant;
//! use barewire_frame::{Burst, Pool, PoolConfig};
//! use barewire_port::{MemoryConfig, MemoryLink, Port};
//!
//! let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() })?;
//! let (a, b) = MemoryLink::new(MemoryConfig::default())?;
//! let (mut a, mut b) = (a.open(pool.clone()), b.open(pool.clone()));
//!
//! let mut burst = Burst::new();
//! assert!(burst.push(pool.alloc_from(&[0xff; 60]).expect("a frame")).is_ok());
//! assert_eq!(a.tx_burst(Instant::ZERO, &mut burst)?, 1, "what is not accepted stays in the burst");
//! assert_eq!(b.rx_burst(Instant::ZERO, &mut burst)?, 1);
//! assert_eq!((burst.front().unwrap().len(), b.counters().rx_frames.get()), (60, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`OpenError`] says why a port could not be opened, [`PortError`] that one failed later. Bad frames are neither: they are counted by
//! [`DropReason`](barewire_base::DropReason).
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod caps;
#[doc(hidden)]
pub mod conformance;
mod error;
mod fault;
mod fault_plan;
mod gso;
mod memory;
mod memory_file;
mod open;
mod pcap;
mod pcap_file;
mod sys;
mod trace;
mod unix;
mod uri;

pub use barewire_text::suggest;
pub use caps::{ChecksumOffload, MacAddr, PortCaps, PortCounters};
pub use error::{OpenError, PortError};
pub use fault::{Direction, Fault, FaultConfig, FaultObserver, HELD_MAX, Judged};
pub use fault_plan::{
    Corruption, Decision, Delivery, FaultPlan, FaultSettings, FaultStats, GilbertElliott, LIMIT_FRAMES_MAX,
    Outage, RATE_BPS_MAX,
};
pub use gso::{GsoConfig, GsoPort};
pub use memory::{MemoryConfig, MemoryEnd, MemoryLink, MemoryPort, SLOT_BYTES_DEFAULT, SLOTS_DEFAULT};
pub use open::{OtherSchemes, open};
pub use pcap::{PcapConfig, PcapPort, Speed};
pub use pcap_file::{LINK_ETHERNET, PACKET_MAX, PcapError, PcapPacket, PcapReader, PcapWriter};
pub use trace::{TRACE_BYTES_DEFAULT, Trace, TraceConfig, TraceCounters};
pub use unix::{UnixConfig, UnixPort};
pub use uri::{PortUri, SCHEMES, WRAPPERS, Wrapper};

use barewire_base::Instant;
use barewire_frame::Burst;
use std::os::fd::RawFd;

/// A place where frames enter and leave. Never blocks, never allocates.
pub trait Port {
    /// What this port can do, fixed when it was opened, or opened again.
    fn caps(&self) -> &PortCaps;

    /// Receives up to `burst.room()` frames into `burst` and says how many. Each carries the best receive stamp the port
    /// has (at worst [`barewire_frame::Stamp::engine`] of `now`). A frame it cannot take is counted and dropped.
    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError>;

    /// Sends from the front of `burst` and says how many were accepted; unaccepted frames remain in `burst`, in order.
    /// A frame that can never be sent (too large) is taken, counted and dropped, so that it does not block the rest.
    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError>;

    /// How many of the frames that [`tx_burst`](Port::tx_burst) has accepted still wait for room in what the port stands on: they were not
    /// sent, and may be dropped. Not what a port holds back on purpose.
    fn tx_waiting(&self) -> usize {
        0
    }

    /// What has passed, and what was dropped and why.
    fn counters(&self) -> &PortCounters;

    /// A descriptor that becomes readable when [`rx_burst`](Port::rx_burst) would return frames, for a parked engine.
    /// `None`: the port has to be polled.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    /// Called before the engine sleeps on [`wait_fd`](Port::wait_fd): arms wake-ups. False when frames are already
    /// waiting, so that the engine must not sleep.
    fn prepare_wait(&mut self) -> bool {
        true
    }

    /// Called after the engine woke: clears what woke it.
    fn finish_wait(&mut self) {}

    /// Earliest time at which the port itself has work though no frame arrives (a delayed frame, a paced replay). When it
    /// has passed, `rx_burst` and `tx_burst` do that work, the latter with an empty burst as well.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Whether no frame will ever be received again: a replay is over. False for everything that is alive.
    fn is_finished(&self) -> bool {
        false
    }

    /// Opens what the port stands on again, after that went away while the port was open: an interface that was deleted and is
    /// there again under its name. Counters go on; [`caps`](Port::caps) and [`wait_fd`](Port::wait_fd) may be others than before.
    /// No part of a duty cycle: it allocates and takes milliseconds, but it waits for nobody: what somebody else has is an error. A port whose ground cannot go away has nothing to do.
    ///
    /// # Errors
    /// As for opening. The port then stays down, and another attempt is possible.
    fn reopen(&mut self) -> Result<(), OpenError> {
        Ok(())
    }

    /// From here on receives only frames that carry this mark. What has come before is received as ever. False when the port knows no
    /// marks, and nothing has changed.
    fn take_marked(&mut self, _mark: u32) -> bool {
        false
    }
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn caps(&self) -> &PortCaps {
        (**self).caps()
    }
    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        (**self).rx_burst(now, burst)
    }
    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        (**self).tx_burst(now, burst)
    }
    fn tx_waiting(&self) -> usize {
        (**self).tx_waiting()
    }
    fn counters(&self) -> &PortCounters {
        (**self).counters()
    }
    fn wait_fd(&self) -> Option<RawFd> {
        (**self).wait_fd()
    }
    fn prepare_wait(&mut self) -> bool {
        (**self).prepare_wait()
    }
    fn finish_wait(&mut self) {
        (**self).finish_wait();
    }
    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }
    fn is_finished(&self) -> bool {
        (**self).is_finished()
    }
    fn reopen(&mut self) -> Result<(), OpenError> {
        (**self).reopen()
    }
    fn take_marked(&mut self, mark: u32) -> bool {
        (**self).take_marked(mark)
    }
}
