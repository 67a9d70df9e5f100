//! P4Runtime and gNMI over real gRPC, against a running switch.
// A list of one is a copy like any other here.
#![allow(clippy::cloned_ref_to_slice_refs)]

mod arbitration;
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
