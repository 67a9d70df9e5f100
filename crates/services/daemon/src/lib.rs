//! The daemon: owns a port and serves many applications over shared memory, with messages and with RDMA.
//!
//! ```text
//! application -- requests --> [channel] --> agent --> endpoint --> host --> port
//!             <- completions - [channel] <-- agent <-- endpoint <-- host <-- port
//! ```
//! - `config` reads barewire.toml (or Machnet's JSON) into a validated plan.
//! - `ports` has what the configuration says of each port, and opens them. Each has a host of its own; all share one endpoint.
//! - `control` is a thread that lets applications in by the control socket and notices when they die.
//! - `users` counts what the applications of one user have together, and no user gets all of it.
//! - `agent` is what the engine runs: requests in, duty cycle of the stack, completions out.
//! - `rdma` does the same for RDMA: verbs in, completions and events out, and who owns which object.
//! - `own_engine` starts an engine for one application in the application's own process, where there is no daemon.
//! - `applications` keeps each application's channel, quota and books, which no application can reach. It is the transport's
//!   message memory.
//!
//! Nothing that an application can write is trusted: offsets, lengths and flow numbers are checked against the books, and
//! an application whose rings make no sense loses its channel and nothing else happens.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod applications;
mod background;
pub mod config;
mod control;
mod counters;
mod daemon;
mod link;
mod machnet;
mod notify;
mod own_engine;
mod pending_port;
mod ports;
mod rdma;
mod security;
mod steering;
mod users;

pub use barewire_engine::PortSettings;
pub use config::{Config, ConfigError};
pub use daemon::{Daemon, DaemonError};
pub use own_engine::{OwnEngine, OwnEngineError, networks};
pub use rdma::Quotas as RdmaQuotas;
pub use users::{UserQuotas, UserRules};
