//! Workloads, the loop that drives any system, kernel baselines, rows and reports.
//!
//! What flows through: a [`MsgWorkload`] and a system that implements [`RequestResponse`] go into the [`driver`], which gives a
//! [`RunResult`]; [`interleave`](interleave::interleave) runs several [`Cell`]s in turn and makes a [`Row`] of each;
//! [`Results`] are rows with the machine's fingerprint and [control rows](control) as one JSON object or as a run folder, [`render`]
//! makes tables of rows and [`seeds`] puts them beside the published ones. [`kernel`] has the baselines that every other system is measured against. [`plan`]
//! makes cells of what a user typed, [`pair`] runs embedded endpoints on ports of any URI, and [`reading`] says in words what
//! came out. [`switch`] measures the P4 switch, [`feed`] the feed handler and [`rc`] RDMA, in rows of their own.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod awake;
pub mod control;
pub mod cpu;
pub mod daemon;
pub mod demo;
pub mod driver;
pub mod embedded;
pub mod feed;
mod histograms;
pub mod interleave;
mod interrupt;
pub mod kernel;
pub mod pair;
#[cfg(test)]
mod patience;
pub mod plan;
mod progress;
pub mod rc;
pub mod reading;
pub mod render;
mod results;
mod rounds;
mod row;
pub mod search;
pub mod seeds;
pub mod seeds_bmv2;
pub mod seeds_mitosis;
pub mod seeds_onixs;
pub mod seeds_plan;
mod simulated;
pub mod stream;
pub mod switch;
pub mod warmup;
mod when;
pub mod words;
mod workload;

pub use awake::KeepAwake;
pub use control::Control;
pub use driver::{Clock, Driver, DriverError, MonotonicClock, Overload, RunCounts, RunResult, Void};
pub use histograms::{BenchRow, Histograms};
pub use interleave::{Cell, CellError, CellOutcome, Progress, Silent};
pub use interrupt::{interrupt, interrupted};
pub use progress::{Shown, Ticker, time_text};
pub use results::{Head, Results, ResultsError};
pub use row::{
    CellInfo, IdleState, LoopKind, OfRuns, Output, OutputError, ResponseNs, Row, RunLine, RunsNs, SCHEMA,
};
pub use simulated::{FramesRow, SimulatedRow};
pub use when::When;
pub use workload::{
    Arrivals, HEADER_LEN, MsgWorkload, RATE_MAX, RequestResponse, SIZE_MAX, SIZE_MIN, SystemError,
    SystemName, WINDOW_MAX, Wait, WorkloadError,
};
