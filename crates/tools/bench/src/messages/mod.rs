//! Request-response messages measured: round trips and rates of barewire beside kernel sockets.
//!
//! What flows through: [`plan`] makes cells of what a user typed; a cell sets up a system ([`embedded`], [`daemon`], [`pair`], [`aead`], or a
//! [kernel baseline](crate::kernel)), and the [`driver`] runs a [`MsgWorkload`] over its [`RequestResponse`]. [`run`] lets cells take turns
//! and makes a [`Row`](crate::row::Row) of each, [`render`] makes tables of them, and [`reading`] says in words what came out.

pub mod aead;
pub mod daemon;
pub mod driver;
pub mod embedded;
pub mod pair;
pub mod plan;
pub mod reading;
pub mod render;
pub(crate) mod row;
pub mod run;
pub mod warmup;
mod workload;

pub use row::{CellInfo, IdleState, read};
pub use workload::{
    Arrivals, HEADER_LEN, MsgWorkload, RATE_MAX, RequestResponse, SIZE_MAX, SIZE_MIN, SystemError,
    SystemName, WINDOW_MAX, Wait, WorkloadError,
};
pub(crate) use workload::{
    Schedule, body_matches, fill_body, mode_shown, read_header, system_and_mode, write_header,
};
