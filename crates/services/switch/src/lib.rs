//! The P4 switch.
//!
//! What flows through here: frames come from [`ports`] into [`datapath`], which runs the program on each (parser,
//! ingress, traffic manager, egress, deparser) and hands them to ports again; an [`agent`] does that on an engine, with
//! all that the engine owns in its [`plane`]. [`control`] is the one way in for control planes; the master copy of what
//! they write is in [`store`], and each engine applies every write to its own replica between bursts. [`prepared`] is a
//! program ready to run; [`pre`] replicates packets, [`learn`] collects digests. [`server`] puts it all together,
//! [`harness`] without threads or ports, for tests, traces and the STF runner in [`stf`].
#![forbid(unsafe_code)]

pub mod agent;
pub mod control;
pub mod datapath;
pub mod harness;
pub mod learn;
pub mod plane;
pub mod ports;
pub mod pre;
pub mod prepared;
pub mod publish;
pub mod server;
pub mod stf;
pub mod store;
