//! Everything that is measured, and how: workloads, kernel baselines, rows, tables.
//!
//! Each program that is measured has a folder: [`messages`], [`switch`], [`feed`], [`rdma`], [`stream`], [`bindings`], [`stacks`]. A request
//! that a user typed becomes cells, cells run in turns, forth and back, and each cell becomes a row. [`Results`] are the rows of one
//! command with the machine's fingerprint and [control rows](control), as one JSON document or as a run folder. [`kernel`] has the
//! baselines that every other system is measured against, [`search`] looks for the greatest load that is carried, and [`published`] puts
//! rows beside the published ones.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod awake;
pub mod bindings;
pub mod control;
pub mod cpu;
pub mod demo;
mod error;
pub mod feed;
mod histograms;
mod interrupt;
pub mod kernel;
pub mod messages;
#[cfg(test)]
mod patience;
pub mod port;
mod progress;
pub mod published;
pub mod rdma;
pub mod render;
mod results;
mod rounds;
pub mod row;
pub mod run;
pub mod search;
pub mod simulated;
pub mod stacks;
pub mod stream;
pub mod switch;
pub(crate) mod talk;
mod wall_clock;

pub use awake::KeepAwake;
pub use control::Control;
pub use error::BenchError;
pub use histograms::Histograms;
pub use interrupt::{interrupt, interrupted};
pub use messages::driver::{
    Clock, Driver, DriverError, MonotonicClock, Overload, RunCounts, RunResult, Void,
};
pub use messages::run::{Cell, CellOutcome};
pub use messages::{
    Arrivals, CellInfo, HEADER_LEN, IdleState, MsgWorkload, RATE_MAX, RequestResponse, SIZE_MAX, SIZE_MIN,
    SystemError, SystemName, WINDOW_MAX, Wait, WorkloadError,
};
pub use progress::{Shown, Ticker, time_text};
pub use results::{Head, Results, ResultsError};
pub use talk::{At as ControlAt, TalkError, client::OtherEnd};
pub use wall_clock::WallTime;
