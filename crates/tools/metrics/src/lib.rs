//! Exports counters of running engines: readers map the counters pages, and the engines are not involved.
//!
//! ```text
//! counters pages -> Page (a look at one)  -> text::render    the metrics text, over HTTP (MetricsServer) or once
//!   of any            |                   -> Board           rows of the live view: values, rates, order, filter
//!   process           + registry (engine) -> dashboard       Grafana's JSON, made of the same registry
//! ```
//!
//! ```no_run
//! use barewire_metrics::{Format, Page, Which, render};
//!
//! // What `barewire metrics --once` prints.
//! println!("{}", render(&Page::look_at(&Which::All), Format::Prometheus));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod board;
mod grafana;
mod http;
mod page;
mod text;

pub use board::{Board, Order, Row};
pub use grafana::dashboard;
pub use http::{CONNECTIONS_MAX, CONNECTIONS_PER_PEER, MetricsServer, ServeError};
pub use page::{Before, COUNTERS_MAX, PAGES_MAX, Page, Pages, Which, is_trusted};
pub use text::{Format, render};
