//! Opens and closes connections, several at a time.

use super::client::Target;
use super::{RcError, service_id};
use barewire_base::{Duration, Instant};
use barewire_engine::StopFlag;
use barewire_measure::{Histogram, stamp};
use barewire_roce::{Access, ConnId, Connect, ConnectFailure, Ended, Event, PathId, QpInit, Qpn, RejReason};
use barewire_verbs::{Device, RdmaError};
use std::collections::{BTreeMap, HashMap};

/// Most connections in flight.
pub const WINDOW_MAX: u32 = 1 << 16;

/// What to do.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// Between whom.
    pub target: Target,
    /// Connections altogether; `None`: no limit.
    pub count: Option<u64>,
    /// Begin none after this time; `None`: no limit.
    pub time: Option<Duration>,
    /// Connections that are being opened or closed at a time, 1 to [`WINDOW_MAX`].
    pub window: u32,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct ConnectReport {
    /// From the first to the last thing that happened.
    pub took: Duration,
    /// Connections opened and closed.
    pub connections: u64,
    /// From the making of the queue pair until it can send, for each connection.
    pub open: Histogram,
    /// From our wish to close it until the peer agreed, for each connection.
    pub close: Histogram,
    /// How many failed, by what went wrong.
    pub failures: BTreeMap<String, u64>,
    /// Messages of the connection manager that were sent again.
    pub resent: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// A connection in flight, and since when it is opening or closing.
struct Flight {
    conn: ConnId,
    since: Instant,
}

struct Run<'a> {
    config: &'a ConnectConfig,
    path: PathId,
    init: QpInit,
    flights: HashMap<Qpn, Flight>,
    begun: u64,
    end: Option<Instant>,
    report: ConnectReport,
}

/// Runs it.
///
/// # Errors
/// What could not be opened; a peer that does not answer at all, or has nobody listening. Single failures are counted.
#[inline(never)]
pub fn run(config: &ConnectConfig, stop: &StopFlag) -> Result<ConnectReport, RcError> {
    if !(1..=WINDOW_MAX).contains(&config.window) {
        let (value, max) = (config.window.into(), WINDOW_MAX.into());
        return Err(RcError::Range { name: "window", value, min: 1, max });
    }
    let target = &config.target;
    let mut device = target.open(stop)?;
    let path = device.resolve(target.peer, Duration::from_secs(2)).map_err(|error| match error {
        RdmaError::TimedOut => target.about(RdmaError::Unreachable(target.peer)),
        error => target.about(error),
    })?;
    let verbs = device.verbs();
    let (pd, cq) = (verbs.alloc_pd(), verbs.create_cq(1)?);
    let start = stamp();
    let mut run = Run {
        config,
        path,
        // Nothing is ever posted.
        init: QpInit { access: Access::NONE, send_max: 0, recv_max: 0, ..QpInit::rc(pd, cq) },
        flights: HashMap::new(),
        begun: 0,
        end: config.time.map(|time| start + time),
        report: ConnectReport {
            took: Duration::ZERO,
            connections: 0,
            open: Histogram::new(),
            close: Histogram::new(),
            failures: BTreeMap::new(),
            resent: 0,
            stopped: false,
        },
    };
    let mut result = run.until_done(&mut device, target.patience);
    if result.as_ref().is_err_and(RcError::is_stopped) {
        run.report.stopped = true;
        // No new ones; those that are open are closed.
        run.end = Some(start);
        device.stop_with(StopFlag::new().map_err(|_| RcError::Rdma(RdmaError::Stopped))?);
        result = run.until_done(&mut device, Duration::from_secs(1));
    }
    run.report.took = stamp().since(start);
    run.report.resent = device.stack().endpoint().counters().cm_resent.get();
    match result {
        Ok(()) => Ok(run.report),
        Err(_) if run.report.stopped => Ok(run.report),
        Err(error) => Err(error),
    }
}

impl Run<'_> {
    fn until_done(&mut self, device: &mut Device, patience: Duration) -> Result<(), RcError> {
        loop {
            let mut failure = None;
            let before = self.report.connections + self.failed();
            let waited = device.wait(patience, |device| match self.work(device) {
                Ok(done) => Ok(done.then_some(())),
                Err(error) => {
                    failure = Some(error);
                    Ok(Some(()))
                }
            });
            if let Some(error) = failure {
                return Err(error);
            }
            match waited {
                Ok(()) => return Ok(()),
                Err(RdmaError::TimedOut) if self.report.connections + self.failed() > before => {}
                Err(RdmaError::TimedOut) => {
                    let seconds = patience.as_nanos() / 1_000_000_000;
                    return Err(RcError::Silent { doing: "connecting", seconds });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn failed(&self) -> u64 {
        self.report.failures.values().sum()
    }

    /// One turn: what has happened, then new connections for those that are done. Whether there is nothing left to do.
    fn work(&mut self, device: &mut Device) -> Result<bool, RcError> {
        while let Some((event, _)) = device.next_event() {
            self.event(device, &event)?;
        }
        let now = stamp();
        let count = if self.end.is_none_or(|end| now < end) { self.config.count } else { Some(0) };
        let window = self.config.window as usize;
        while self.flights.len() < window && count.is_none_or(|count| self.begun < count) {
            self.begin(device)?;
        }
        Ok(self.flights.is_empty())
    }

    fn begin(&mut self, device: &mut Device) -> Result<(), RcError> {
        let since = stamp();
        let now = device.now();
        let verbs = device.verbs();
        let qpn = verbs.create_qp(&self.init)?;
        let to = Connect::new(self.path, service_id(self.config.target.service_port));
        let conn = verbs.connect(now, qpn, &to)?;
        self.begun += 1;
        self.flights.insert(qpn, Flight { conn, since });
        Ok(())
    }

    fn event(&mut self, device: &mut Device, event: &Event) -> Result<(), RcError> {
        let at = stamp();
        let now = device.now();
        match *event {
            Event::Connected { qpn, .. } => {
                let Some(flight) = self.flights.get_mut(&qpn) else { return Ok(()) };
                self.report.open.record(at.since(flight.since).as_nanos());
                flight.since = at;
                let conn = flight.conn;
                device.verbs().disconnect(now, conn)?;
            }
            Event::Disconnected { qpn, why, .. } => {
                let Some(flight) = self.flights.remove(&qpn) else { return Ok(()) };
                device.verbs().destroy_qp(now, qpn)?;
                match why {
                    Ended::Local | Ended::Remote => {
                        self.report.close.record(at.since(flight.since).as_nanos());
                        self.report.connections += 1;
                    }
                    _ => self.failure("the peer never agreed to the end"),
                }
            }
            Event::ConnectFailed { qpn, why, .. } => {
                if self.flights.remove(&qpn).is_none() {
                    return Ok(());
                }
                device.verbs().destroy_qp(now, qpn)?;
                let error = match why {
                    ConnectFailure::Rejected(reason) => RdmaError::Rejected(reason),
                    ConnectFailure::Timeout => RdmaError::NoAnswer,
                    _ => RdmaError::BadReply,
                };
                let hopeless =
                    matches!(error, RdmaError::NoAnswer | RdmaError::Rejected(RejReason::INVALID_SERVICE));
                if hopeless && self.report.connections == 0 {
                    return Err(self.config.target.about(error));
                }
                self.failure(&error.to_string());
            }
            _ => {}
        }
        Ok(())
    }

    fn failure(&mut self, what: &str) {
        match self.report.failures.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.report.failures.insert(what.to_owned(), 1)),
        }
    }
}
