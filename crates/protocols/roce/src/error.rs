//! What can be wrong with a call.

use crate::QpState;
use thiserror::Error;

/// Why a verb was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum VerbError {
    /// No such queue pair, queue, domain, region or path, or no longer.
    #[error("no such object, or it has been destroyed")]
    Unknown,
    /// Something still uses it.
    #[error("it is still in use")]
    Busy,
    /// A limit of the configuration.
    #[error("a limit of the configuration is reached")]
    Limit,
    /// The queue has no room.
    #[error("the queue is full")]
    QueueFull,
    /// The completion queue has overrun and cannot be used any more.
    #[error("the completion queue has lost completions: make a new one, and take completions in time")]
    CqError,
    /// The completion queue has fewer entries than the queue pair has receive requests, each of which makes a completion.
    #[error("the completion queue has fewer entries than the queue pair has room for receive requests")]
    CqTooSmall,
    /// Not in this state.
    #[error("not in the state {0:?}")]
    State(QpState),
    /// A value outside its range, or a combination that makes no sense.
    #[error("a value is out of range")]
    Invalid,
}

/// Why an endpoint cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It has no address.
    #[error("an endpoint needs at least one address")]
    NoAddress,
    /// More addresses than [`ADDRESSES_MAX`](crate::ADDRESSES_MAX).
    #[error("an endpoint has at most {} addresses", crate::ADDRESSES_MAX)]
    Addresses,
    /// A limit is zero or beyond what numbers can tell apart.
    #[error("`{0}` must be at least 1 and at most {1}")]
    Range(&'static str, usize),
}
