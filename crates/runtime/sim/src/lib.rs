//! A seeded network in virtual time: nodes, links with faults, a clock that jumps from event to event.
//!
//! A [`World`] owns everything and runs on one thread. A [`Node`] is a protocol stack; a link carries its frames to
//! another node, late, marked, twice, damaged or not at all, as its [`LinkConfig`] says. Every random draw comes from the
//! world's seed, and events that fall on the same nanosecond happen in the order in which they were scheduled, so a
//! seed replays to the byte: [`World::trace_hash`] says so.
//!
//! What flows through: [`Node::poll_transmit`] -> the link's queue (rate, drops, ECN) -> the wire (loss, corruption,
//! copies, delay) -> [`Node::handle_frame`]. A node with several links tells them apart by [`Frame::port`].
//!
//! [`ExactlyOnce`] and [`NoLeak`] judge a run; [`seeds`] makes a test of many runs and prints how to replay the one
//! that failed.
//!
//! [`Frame::port`]: barewire_frame::Frame::port
//!
//! ```
//! use barewire_base::{Duration, Instant};
//! use barewire_frame::Frame;
//! use barewire_sim::{LinkConfig, Node, World};
//!
//! /// Sends back what it gets, and counts it.
//! #[derive(Default)]
//! struct Echo(u32, Option<Frame>);
//! impl Node for Echo {
//!     fn handle_frame(&mut self, _now: Instant, frame: Frame) {
//!         self.0 += 1;
//!         self.1 = Some(frame);
//!     }
//!     fn handle_timeout(&mut self, _now: Instant) {}
//!     fn poll_transmit(&mut self, _now: Instant) -> Option<Frame> {
//!         self.1.take()
//!     }
//!     fn poll_timeout(&self) -> Option<Instant> {
//!         None
//!     }
//! }
//!
//! let run = || {
//!     let mut world = World::new(7);
//!     let first = Echo(0, world.pool().alloc_from(b"hello"));
//!     let (a, b) = (world.add_node(Box::new(first)), world.add_node(Box::<Echo>::default()));
//!     world.connect(a, b, LinkConfig::perfect(Duration::from_millis(1)));
//!     world.run_for(Duration::from_millis(10)).unwrap_done();
//!     (world.node::<Echo>(b).0, world.trace_hash())
//! };
//! assert_eq!(run(), run(), "a seed replays");
//! assert_eq!(run().0, 5);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod damage;
mod event;
mod hash;
mod hub;
mod link;
mod node;
mod runner;
mod world;

pub use barewire_wire::mark_ce;
pub use check::{ExactlyOnce, Leak, NoLeak, Order, Violation};
pub use damage::{Corrupt, Damage};
pub use hash::content_hash;
pub use hub::{Hub, HubStats};
pub use link::{LinkConfig, LinkFilter, LinkStats, Reorder};
pub use node::{Node, NodeClock, NodeId, NodeStats};
pub use runner::{SEED_VAR, SEEDS_VAR, seeds, seeds_part};
pub use world::{
    Delivery, Direction, LinkId, Outcome, PAUSED_FRAMES_MAX, STEP_LIMIT_DEFAULT, STEPS_PER_INSTANT_MAX, Star,
    World,
};
