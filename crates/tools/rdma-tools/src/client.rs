//! One connection of a client: opened, waited on, closed.

use super::{RcError, service_id};
use barewire_base::{Duration, Instant};
use barewire_engine::StopFlag;
use barewire_measure::stamp;
use barewire_roce::{CqId, Event, Pd, QpInit, Wc, WcStatus, silence_max};
use barewire_verbs::{Connection, Device, DeviceConfig, RdmaError};
use std::net::IpAddr;

/// Longest wait for a connection: the connection manager gives up before.
const CONNECT_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the peer's agreement to the end.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The other end, and our own device.
#[derive(Clone, Debug)]
pub struct Target {
    /// Our device.
    pub device: DeviceConfig,
    /// The peer's address.
    pub peer: IpAddr,
    /// The peer's port of the connection manager.
    pub service_port: u16,
    /// Longest silence.
    pub patience: Duration,
}

impl Target {
    /// The device, which ends its waits when `stop` is stopped.
    pub(crate) fn open(&self, stop: &StopFlag) -> Result<Device, RcError> {
        let mut device = Device::open(&self.device)?;
        device.stop_with(stop.clone());
        Ok(device)
    }

    /// `error` with whom it was about.
    pub(crate) fn about(&self, source: RdmaError) -> RcError {
        RcError::Connect { peer: self.peer, service_port: self.service_port, source }
    }
}

/// A connection with its device.
pub(crate) struct Link {
    pub device: Device,
    pub connection: Connection,
    pub pd: Pd,
    pub cq: CqId,
    /// From the request for the connection until it was ready.
    pub connected_in: Duration,
    patience: Duration,
    /// How long the peer's device may be silent.
    silence_max: Option<Duration>,
}

impl Link {
    /// Opens the device, then a connection over it, with room for so many requests each way. `private` goes to the peer's
    /// application.
    pub fn connect(target: &Target, stop: &StopFlag, requests: u16, private: &[u8]) -> Result<Link, RcError> {
        let mut device = target.open(stop)?;
        let verbs = device.verbs();
        let pd = verbs.alloc_pd();
        let cq = verbs.create_cq(u32::from(requests) * 2 + 16)?;
        let init = QpInit { send_max: requests, recv_max: requests, ..QpInit::rc(pd, cq) };
        // The peer's hardware address is no part of the connection's time.
        device.resolve(target.peer, Duration::from_secs(2)).map_err(|error| match error {
            RdmaError::TimedOut => target.about(RdmaError::Unreachable(target.peer)),
            error => target.about(error),
        })?;
        let start = stamp();
        let pending = device
            .start_connect(target.peer, service_id(target.service_port), &init, private)
            .map_err(|error| target.about(error))?;
        let connection = device.finish_connect(pending, CONNECT_MAX).map_err(|error| target.about(error))?;
        let connected_in = stamp().since(start);
        let roce = &target.device.roce;
        let silence_max = silence_max(roce.cm.ack_timeout, roce.cm.retry_count, roce.patience);
        Ok(Link { device, connection, pd, cq, connected_in, patience: target.patience, silence_max })
    }

    /// The next completion, and when it was seen. A connection that ends meanwhile, and a request that fails, are errors.
    pub fn next(&mut self, doing: &'static str) -> Result<(Wc, Instant), RcError> {
        let (cq, qpn) = (self.cq, self.connection.qpn);
        let done = self.device.wait(self.patience, |device| {
            if let Some(wc) = device.verbs().poll_cq_one(cq) {
                return Ok(Some(Some((wc, stamp()))));
            }
            Ok(ended(device, qpn).then_some(None))
        });
        match done {
            Ok(Some((wc, at))) => match wc.status {
                WcStatus::Success => Ok((wc, at)),
                status => Err(self.failed(doing, status)),
            },
            Ok(None) => Err(RcError::Closed(doing)),
            Err(RdmaError::TimedOut) => {
                Err(RcError::Silent { doing, seconds: self.patience.as_nanos() / 1_000_000_000 })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What a failed request means: one that was flushed tells only that the connection ended.
    pub fn failed(&self, doing: &'static str, status: WcStatus) -> RcError {
        let counters = self.device.stack().endpoint().counters();
        match (status, self.silence_max) {
            (WcStatus::Flushed, _) => RcError::Closed(doing),
            (WcStatus::RetryExceeded, Some(silence)) => RcError::Unanswered {
                doing,
                silence,
                timeouts: counters.timeouts.get(),
                naks: counters.nak_sequence_received.get() + counters.implied_naks.get(),
                resent: counters.packets_resent.get(),
            },
            _ => RcError::Failed { doing, status },
        }
    }

    /// Closes the connection and waits for the peer's agreement, for a while.
    pub fn close(mut self) {
        let connection = &self.connection;
        // Whoever is interrupted still says good-bye: a peer would wait for it.
        if let Ok(fresh) = StopFlag::new() {
            self.device.stop_with(fresh);
        }
        let _ = self.device.disconnect(connection.conn, connection.qpn, CLOSE_MAX);
    }
}

/// Whether the connection of a queue pair has ended.
pub(crate) fn ended(device: &mut Device, qpn: barewire_roce::Qpn) -> bool {
    let about = |event: &Event| match event {
        Event::Disconnected { qpn: q, .. } | Event::QpError(q, _) => *q == qpn,
        _ => false,
    };
    device.take_event(about).is_some()
}
