//! P4Runtime and gNMI over real gRPC, against a running switch.
#![allow(clippy::cloned_ref_to_slice_refs, reason = "an expected list reads as a list")]

mod arbitration;
mod batches;
mod entities;
mod gnmi;
mod groups;
mod hostile;
mod programs;
mod ptf;
mod rig;
mod shell;
mod texts;
mod tls;
mod traffic;
