//! Experiments over several hosts: one file says who runs what where and what is varied; this crate runs it and leaves a run folder.
//!
//! ```text
//! EXPERIMENT.toml ──> plan (roles × sweep = cells × runs) ──> Launcher obtains hosts ──> an agent on each ──> processes
//!                                                                                             └──> lines, rows ──> run folder
//! ```
//! Everything on a host goes through one agent: the same binary, spoken to over its standard input and output. A launcher only says
//! how to start that process, so namespaces of this machine, machines over SSH and a cluster's nodes differ in one function.
//!
//! ```no_run
//! use std::path::Path;
//!
//! let plan = barewire_experiment::file::read(Path::new("labs/machnet.toml"))?; // errors have file, line and column
//! println!("about {} s", plan.total_seconds());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod file;
pub mod launcher;
pub mod mitosis;
pub mod plan;
pub mod redact;
pub mod run;
mod sys;
