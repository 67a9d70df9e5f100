//! The P4 switch.
//!
//! What flows through here: frames come from [`ports`] into [`datapath`], which runs the program on each (parser,
//! ingress, traffic manager, egress, deparser) and hands them to ports again; an [`agent`] does that on an engine, with
//! all that the engine owns in its [`plane`]. [`control`] is the one way in for control planes; the master copy of what
//! they write is in [`store`], and each engine applies every write to its own replica between bursts. [`prepared`] is a
//! program ready to run, [`source`] makes one of P4-16; [`pre`] replicates packets, [`learn`] collects digests. [`server`] puts it all together,
//! [`harness`] without threads or ports, for tests, traces and the STF runner in [`stf`].
//!
//! ```
//! use barewire_p4::key::MatchParam;
//! use barewire_p4_state::TableAction;
//! use barewire_switch::control::ActionCall;
//! use barewire_switch::datapath::TargetConfig;
//! use barewire_switch::harness::Harness;
//! use barewire_switch::prepared::{EngineKind, Prepared};
//! use barewire_switch::source;
//! use num_bigint::BigUint;
//! use std::sync::Arc;
//!
//! let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../programs/simple_router.p4"));
//! let program = source::from_text("simple_router.p4", text)?;
//! let prepared = Prepared::new(Arc::new(program), EngineKind::Native)?;
//! let mut harness = Harness::new(Arc::new(prepared), TargetConfig::default())?;
//!
//! // A route: longest prefix, next hop, egress port.
//! let switch = harness.switch();
//! let table = switch.table("ipv4_lpm")?;
//! let action = switch.action_of(table, "set_next_hop")?;
//! let key = vec![MatchParam::Lpm { value: BigUint::from(0x0a00_0100_u32), prefix_len: 24 }];
//! let args = vec![BigUint::from(0x0a00_010a_u32), BigUint::from(2_u8)];
//! switch.add_entry(table, key, 0, TableAction::Call(ActionCall { action, args }))?;
//! harness.apply();
//!
//! // A frame that is not IPv4 goes nowhere: the program drops it.
//! assert_eq!(harness.send(1, &[0xff; 60]), Some(vec![]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod agent;
pub mod control;
pub mod datapath;
pub mod harness;
pub mod kernel;
pub mod learn;
pub mod plane;
pub mod ports;
pub mod pre;
pub mod prepared;
pub mod publish;
pub mod server;
pub mod source;
pub mod stf;
pub mod store;
mod tag;
