//! P4Runtime and gNMI over real gRPC, against a running switch.

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
