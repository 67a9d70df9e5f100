//! What can go wrong between two ends.

use barewire_base::Duration;
use barewire_roce::{ConnectError, RejReason, VerbError, WcStatus};
use barewire_verbs::{OpenError, RdmaError};
use std::net::IpAddr;

/// Why a session did not do what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RcError {
    /// The device could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The peer could not be reached or connected.
    #[error("{peer}, port {service_port}: {source}")]
    Connect {
        /// Whom.
        peer: IpAddr,
        /// At which port of the connection manager.
        service_port: u16,
        /// Why.
        source: RdmaError,
    },
    /// The device failed, or refused something.
    #[error(transparent)]
    Rdma(#[from] RdmaError),
    /// The peer ended the connection in the midst of it.
    #[error("the peer closed the connection while {0}")]
    Closed(&'static str),
    /// A request failed.
    #[error("{doing}: {}", words(*.status))]
    Failed {
        /// While doing what.
        doing: &'static str,
        /// How it ended.
        status: WcStatus,
    },
    /// The peer's device acknowledged nothing, for longer than the connection's time-outs allow.
    #[error(
        "{doing}: no acknowledgement for {silence}, however often it was repeated (on this connection: {timeouts} time-outs, {naks} packets \
         known to be lost, {resent} sent again)"
    )]
    Unanswered {
        /// While doing what.
        doing: &'static str,
        /// How long it was waited for.
        silence: Duration,
        /// Waits in vain, over the connection's life.
        timeouts: u64,
        /// Losses that the peer told of, or that its answers showed.
        naks: u64,
        /// Packets sent again.
        resent: u64,
    },
    /// The peer sent something that does not belong to the protocol.
    #[error("the peer sent {len} bytes where {expected} were expected")]
    Bogus {
        /// Bytes that came.
        len: u32,
        /// Bytes that make sense.
        expected: usize,
    },
    /// The peer sent something out of turn.
    #[error("the peer sent a message out of turn")]
    Unasked,
    /// The peer accepted the connection and does not speak `perf`.
    #[error("the peer accepted the connection, but offered no memory for this")]
    NoOffer,
    /// Connections have all the memory that they get.
    #[error("no memory left for one more connection like this")]
    Memory,
    /// The peer is silent.
    #[error("no answer for {seconds} s while {doing}")]
    Silent {
        /// While doing what.
        doing: &'static str,
        /// For how long.
        seconds: u64,
    },
    /// A number that makes no sense.
    #[error("{name} must be {min} to {max}, not {value}")]
    Range {
        /// Which.
        name: &'static str,
        /// What was given.
        value: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
}

impl From<VerbError> for RcError {
    fn from(error: VerbError) -> RcError {
        RcError::Rdma(error.into())
    }
}

impl From<ConnectError> for RcError {
    fn from(error: ConnectError) -> RcError {
        RcError::Rdma(error.into())
    }
}

impl RcError {
    /// Whether somebody stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(
            self,
            RcError::Rdma(RdmaError::Stopped) | RcError::Connect { source: RdmaError::Stopped, .. }
        )
    }

    /// What the user may do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            RcError::Connect { source, .. } => match source {
                RdmaError::Unreachable(_) => {
                    "is the peer up, on the same network as --address, and are both ends of --port the same wire?"
                }
                RdmaError::NoAnswer => {
                    "its host is there, but nobody speaks RoCEv2: is `rdma link` active there, or `barewire rdma serve` running?"
                }
                RdmaError::Rejected(RejReason::INVALID_SERVICE) => {
                    "start `rping -s` or `barewire rdma serve` there, or name its port with --service-port"
                }
                RdmaError::Rejected(RejReason::STALE) => "wait a moment, then try again",
                RdmaError::Rejected(RejReason::INVALID_MTU) => "the peer carries less: try a smaller --mtu",
                _ => return None,
            },
            RcError::NoOffer => {
                "`perf` needs `barewire rdma serve` at the other end; `rping -s` knows ping only"
            }
            RcError::Closed("pinging") | RcError::Failed { doing: "pinging", .. } => {
                "`rping -s` needs a buffer as large as --size: start it with `-S`"
            }
            RcError::Unanswered { naks: 0, .. } => {
                "the peer went away, or its machine stood still for longer: each step of --ack-timeout waits twice as long"
            }
            RcError::Unanswered { .. } | RcError::Silent { .. } => {
                "the peer went away, or the wire loses too much; --ack-timeout waits longer"
            }
            _ => return None,
        })
    }
}

/// A status in words.
pub(crate) fn words(status: WcStatus) -> &'static str {
    match status {
        WcStatus::Success => "done",
        WcStatus::LocalLength => "the message was longer than its buffer",
        WcStatus::LocalProtection => "our own key or bounds were wrong",
        WcStatus::Flushed => "the connection ended first",
        WcStatus::BadResponse => "the peer's answer fits no request",
        WcStatus::RemoteInvalidRequest => "the peer found the request invalid",
        WcStatus::RemoteAccess => "the peer's key, bounds or permissions refuse it",
        WcStatus::RemoteOperation => "the peer failed",
        WcStatus::RetryExceeded => "no acknowledgement, however often it was repeated",
        WcStatus::RnrRetryExceeded => "the peer never had a buffer ready",
        _ => "failed",
    }
}
