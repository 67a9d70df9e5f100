//! The engine: one thread that runs agents in a duty cycle, and the page of counters that others read.
//!
//! An [`Agent`] does a little work and returns; an [`Engine`] calls its agents round and round, reads the clock once per
//! cycle, and when nothing happens it idles as its [`IdleStrategy`] says. A parked engine sleeps on its own [`Waker`], on
//! the [`StopFlag`] and on the descriptors of its agents, until the earliest of their deadlines. [`Engine::spawn`] gives it
//! a thread (and a core) of its own; an embedding program may instead call [`Engine::run_once`] from its own loop.
//!
//! [`open_port`] opens any port by its URI, [`best_port`] the one that suits an interface, [`HostSettings::attach`] one with a
//! host on it: the way of every program that is a host. [`Stack`] is a port with its host, or several, and a
//! message endpoint wired together: the one place where the two wings of the house, ports and protocols, meet. The daemon
//! runs it as an agent, an embedding application calls it from its own loop. [`RdmaStack`] is the same with a RoCE endpoint.
//!
//! [`CountersPage`] is a shared file of named counters. Writing one is a store to memory; [`CountersReader`] reads them
//! without asking or disturbing the owner. What each counter means is in one registry ([`families`], [`place`]).
//!
//! ```
//! use barewire_base::Instant;
//! use barewire_engine::{Agent, Engine, EngineConfig, StopFlag};
//!
//! struct Countdown(u32, StopFlag);
//! impl Agent for Countdown {
//!     fn name(&self) -> &str {
//!         "countdown"
//!     }
//!     fn do_work(&mut self, _now: Instant) -> usize {
//!         self.0 -= 1;
//!         if self.0 == 0 {
//!             self.1.stop();
//!         }
//!         1
//!     }
//! }
//!
//! let stop = StopFlag::new()?;
//! let mut engine = Engine::new(EngineConfig::default())?;
//! engine.add(Box::new(Countdown(3, stop.clone())));
//! engine.run(&stop);
//! assert_eq!(engine.counters().work_items.get(), 3);
//! # Ok::<(), barewire_engine::EngineError>(())
//! ```
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod alarm;
mod attach;
mod counters;
mod engine;
mod error;
mod idle;
pub mod keyfile;
mod legs;
mod page;
mod ports;
mod rdma;
mod registry;
mod spawn;
mod stack;
mod sys;
mod waker;

pub use agent::Agent;
pub use attach::{AttachError, Attached, HostSettings, PortSettings, RandomError, random};
pub use barewire_packet::checksum::{MAX_CONTEXT, TAG_CONTEXT, TAG_LEN, TAG_TYPE};
pub use barewire_packet::interface::Interface;
pub use barewire_packet::{LinkWatch, Rss};
pub use counters::{EngineCounters, EngineSlots};
pub use engine::{Engine, EngineConfig, EngineLinks, PUBLISH_INTERVAL, SLOW_CYCLE, UNWATCHED_POLL};
pub use error::{EngineError, PageError, ParseIdleError, RegisterError, SpawnError};
pub use idle::{IdleStrategy, SPIN_DEFAULT, SPIN_MAX};
pub use legs::{Leg, StackCounters};
pub use page::{
    CAPACITY_MAX, COUNTER_NAME_MAX, CounterKind, CounterSlot, CountersPage, CountersReader, Owner,
    PAGE_NAME_MAX, counters_folders, counters_pages, counters_path, page_of_draft,
};
pub use ports::{
    best_port, engine_port, for_host, interface_of, open_port, queues_of, rss_of, target_on, with_claims,
};
pub use rdma::{PeerPath, RdmaStack, UDP_PORT as RDMA_UDP_PORT};
pub use registry::{Family, Place, Unit, families, place};
pub use spawn::EngineHandle;
pub use stack::{Rdma, Stack, Steered, Steering};
pub use waker::{StopFlag, Waker};

/// The engine's clock: `CLOCK_MONOTONIC`, the reading that drives agents and protocols. For embedding programs; an agent
/// uses the `now` that it is given.
#[inline]
pub fn now() -> barewire_base::Instant {
    barewire_base::Instant::from_nanos(sys::monotonic_ns())
}
