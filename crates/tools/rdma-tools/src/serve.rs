//! The server: any number of connections at once, each used for what its client says.

use super::publish::{EVERY, Published};
pub use super::session::Use;
use super::session::{Admission, Refusal, Session, Shared};
use super::{RcError, service_id};
use barewire_base::{Duration, Instant};
use barewire_engine::StopFlag;
use barewire_roce::{ConnId, ConnInfo, ConnState, Ended, Event, QpFault, Qpn, RejReason, Wc};
use barewire_verbs::{ConnectRequest, Device, DeviceConfig, RdmaError};
use std::collections::HashMap;
use std::net::IpAddr;

/// Most completions that are looked at before frames are again.
const COMPLETIONS_MAX: usize = 256;
/// How long the end waits for peers to agree.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long we go on answering peers that have not heard our agreement to the end: ours ask again after 20, 60 and 140 ms.
const LINGER: Duration = Duration::from_millis(250);

/// What to serve.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Our device.
    pub device: DeviceConfig,
    /// The ports of the connection manager to listen on.
    pub service_ports: Vec<u16>,
    /// Requests for connections that may wait at each.
    pub backlog: u32,
    /// Most connections at a time; what is more is refused.
    pub connections_max: usize,
    /// End after so many connections have ended.
    pub count: Option<u64>,
    /// Name of the page on which the counters are published. `None`: they are not.
    pub counters: Option<String>,
}

/// A connection that has ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The peer.
    pub peer: IpAddr,
    /// The port that it asked for.
    pub service_port: u16,
    /// What it was used for.
    pub used_for: Use,
    /// From the request to the end.
    pub lasted: Duration,
    /// Rounds of a ping, or messages.
    pub messages: u64,
    /// Bytes of data that came.
    pub bytes_in: u64,
    /// Bytes of data that went.
    pub bytes_out: u64,
    /// What went wrong. `None`: the client closed it when it was done.
    pub failed: Option<String>,
}

/// What there is to tell while it runs.
#[derive(Clone, Debug)]
pub enum ServeEvent<'a> {
    /// Requests are answered now; the port's description.
    Ready(&'a str),
    /// There is no counters page, for this reason; it goes on without.
    Uncounted(&'a str),
    /// The counters page is there.
    Counted,
    /// A request was refused.
    Refused {
        /// Whose.
        peer: IpAddr,
        /// Why.
        why: &'a str,
    },
    /// A connection has ended.
    Ended(&'a Summary),
}

/// Sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections that were established and have ended.
    pub connections: u64,
    /// Those of them that did not end well.
    pub failed: u64,
    /// Requests that never became connections: refused by us, or given up by the client.
    pub not_established: u64,
    /// Rounds and messages.
    pub messages: u64,
    /// Bytes of data that came.
    pub bytes_in: u64,
    /// Bytes of data that went.
    pub bytes_out: u64,
    /// Packets that were sent again.
    pub packets_resent: u64,
    /// Frames that went no further.
    pub frames_dropped: u64,
}

struct Server<'a> {
    shared: Shared,
    sessions: HashMap<Qpn, Session>,
    connections_max: usize,
    totals: Totals,
    tell: &'a mut dyn FnMut(ServeEvent<'_>),
    done: Vec<Wc>,
    /// Connections to close. Empty between calls.
    broken: Vec<Qpn>,
}

/// Serves until `stop` is stopped, or so many connections have ended.
///
/// # Errors
/// What could not be opened or listened on; a port that goes down. What happens to a single connection is told, and is none.
#[inline(never)]
pub fn run(
    config: &ServeConfig,
    stop: &StopFlag,
    tell: &mut dyn FnMut(ServeEvent<'_>),
) -> Result<Totals, RcError> {
    let mut device = Device::open(&config.device)?;
    let shared = Shared::new(device.verbs())?;
    for port in &config.service_ports {
        device.listen(service_id(*port), config.backlog)?;
    }
    device.stop_with(stop.clone());
    let description = device.stack().port().caps().description.clone();
    tell(ServeEvent::Ready(&description));
    let mut published = None;
    if let Some(name) = &config.counters {
        match Published::create(name, &device) {
            Ok(page) => {
                published = Some(page);
                tell(ServeEvent::Counted);
            }
            Err(why) => tell(ServeEvent::Uncounted(&why.to_string())),
        }
    }
    // A page is to be fresh also when nothing happens.
    let nap = if published.is_some() { EVERY } else { Duration::from_secs(60) };
    let mut server = Server {
        shared,
        sessions: HashMap::new(),
        connections_max: config.connections_max,
        totals: Totals::default(),
        tell,
        done: Vec::with_capacity(COMPLETIONS_MAX),
        broken: Vec::new(),
    };
    let enough = |totals: &Totals| config.count.is_some_and(|count| totals.connections >= count);
    loop {
        let waited = device.wait(nap, |device| {
            server.work(device);
            if let Some(page) = &mut published {
                page.publish(device);
            }
            Ok(enough(&server.totals).then_some(()))
        });
        match waited {
            Err(RdmaError::TimedOut) => {}
            Ok(()) | Err(RdmaError::Stopped) => break,
            Err(error) => return Err(error.into()),
        }
    }
    server.farewell(&mut device)?;
    let counters = device.stack().endpoint().counters();
    server.totals.packets_resent = counters.packets_resent.get();
    server.totals.frames_dropped = counters.drops.total();
    Ok(server.totals)
}

fn refuse(device: &mut Device, conn: ConnId, reason: RejReason, why: &str) {
    // Taken back meanwhile: then nobody waits for the answer.
    let _ = device.verbs().reject(conn, reason, why.as_bytes());
}

impl Server<'_> {
    /// Everything that has happened.
    fn work(&mut self, device: &mut Device) {
        self.completions(device);
        while let Some((event, private)) = device.next_event() {
            // An event may end a queue pair: what it completed comes first.
            self.completions(device);
            self.event(device, event, private);
        }
    }

    fn completions(&mut self, device: &mut Device) {
        let mut done = std::mem::take(&mut self.done);
        let verbs = device.verbs();
        while verbs.poll_cq(self.shared.cq, &mut done, COMPLETIONS_MAX).is_ok_and(|n| n > 0) {
            for wc in done.drain(..) {
                let Some(session) = self.sessions.get_mut(&wc.qpn) else { continue };
                if let Err(error) = session.completed(verbs, &self.shared, &wc) {
                    session.failed.get_or_insert(error.to_string());
                    self.broken.push(wc.qpn);
                }
            }
        }
        self.done = done;
        while let Some(qpn) = self.broken.pop() {
            self.close(device, qpn);
        }
    }

    fn event(&mut self, device: &mut Device, event: Event, private: Vec<u8>) {
        match event {
            Event::ConnectRequest { conn, listener, service_id } => {
                self.requested(device, &ConnectRequest { conn, listener, service_id, private });
            }
            Event::Established { qpn, .. } => {
                if let Some(session) = self.sessions.get_mut(&qpn) {
                    session.established = true;
                }
            }
            Event::QpError(qpn, fault) => {
                if let Some(session) = self.sessions.get_mut(&qpn) {
                    session.failed.get_or_insert_with(|| words(fault).to_owned());
                    self.close(device, qpn);
                }
            }
            Event::ConnectFailed { qpn, .. } => self.ended(device, qpn),
            Event::Disconnected { qpn, why, .. } => {
                let unusual = match why {
                    Ended::Stale => Some("the peer forgot it and asked for a new one"),
                    Ended::Timeout => Some("the peer no longer answered"),
                    _ => None,
                };
                if let (Some(why), Some(session)) = (unusual, self.sessions.get_mut(&qpn)) {
                    session.failed.get_or_insert_with(|| why.to_owned());
                }
                self.ended(device, qpn);
            }
            _ => {}
        }
    }

    fn requested(&mut self, device: &mut Device, request: &ConnectRequest) {
        let peer = device.verbs().conn_info(request.conn).map(|info| info.peer);
        let mut refused = |device: &mut Device, reason, why: &str| {
            refuse(device, request.conn, reason, why);
            self.totals.not_established += 1;
            if let Some(peer) = peer {
                (self.tell)(ServeEvent::Refused { peer, why });
            }
        };
        if self.sessions.len() >= self.connections_max {
            return refused(device, RejReason::NO_RESOURCES, "too many connections");
        }
        let admission = match Admission::of(&request.private, &self.shared) {
            Ok(admission) => admission,
            Err(Refusal(why)) => return refused(device, RejReason::CONSUMER, why),
        };
        let now = device.now();
        let (session, answer) = match admission.session(device.verbs(), &self.shared, request.conn, now) {
            Ok(made) => made,
            Err(error) => return refused(device, RejReason::NO_RESOURCES, &error.to_string()),
        };
        match device.accept(request, &admission.init, &answer) {
            Ok(qpn) => {
                let posted = session.start(device.verbs(), qpn);
                self.sessions.insert(qpn, session);
                if let (Err(error), Some(session)) = (posted, self.sessions.get_mut(&qpn)) {
                    session.failed = Some(error.to_string());
                    self.close(device, qpn);
                }
            }
            Err(error) => {
                session.release(device.verbs(), &self.shared);
                refused(device, RejReason::NO_RESOURCES, &error.to_string());
            }
        }
    }

    /// Closes a connection from our side; its end is an event. One that is not open yet ends here.
    fn close(&mut self, device: &mut Device, qpn: Qpn) {
        let Some(session) = self.sessions.get(&qpn) else { return };
        let (conn, now) = (session.conn, device.now());
        let verbs = device.verbs();
        let closing = |info: ConnInfo| info.state == ConnState::DreqSent;
        if verbs.disconnect(now, conn).is_err() && !verbs.conn_info(conn).is_some_and(closing) {
            self.ended(device, qpn);
        }
    }

    fn ended(&mut self, device: &mut Device, qpn: Qpn) {
        let now = device.now();
        let _ = device.verbs().destroy_qp(now, qpn);
        let Some(session) = self.sessions.remove(&qpn) else { return };
        let summary = summary(&session, now);
        let established = session.established;
        session.release(device.verbs(), &self.shared);
        if !established {
            self.totals.not_established += 1;
            return;
        }
        let totals = &mut self.totals;
        totals.connections += 1;
        totals.failed += u64::from(summary.failed.is_some());
        totals.messages += summary.messages;
        totals.bytes_in += summary.bytes_in;
        totals.bytes_out += summary.bytes_out;
        (self.tell)(ServeEvent::Ended(&summary));
    }

    /// Closes what is still open and waits for the peers' agreement, for a while.
    fn farewell(&mut self, device: &mut Device) -> Result<(), RcError> {
        // Whoever is interrupted still says good-bye: peers would wait for it.
        if let Ok(fresh) = StopFlag::new() {
            device.stop_with(fresh);
        }
        let open: Vec<Qpn> = self.sessions.keys().copied().collect();
        for qpn in open {
            self.close(device, qpn);
        }
        let none_left = |server: &mut Self, device: &mut Device| {
            server.work(device);
            Ok(server.sessions.is_empty().then_some(()))
        };
        match device.wait(FAREWELL, |device| none_left(self, device)) {
            Ok(()) | Err(RdmaError::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        let left: Vec<Qpn> = self.sessions.keys().copied().collect();
        for qpn in left {
            if let Some(session) = self.sessions.get_mut(&qpn) {
                session.failed.get_or_insert_with(|| "still open at the end".to_owned());
            }
            self.ended(device, qpn);
        }
        match device.wait::<()>(LINGER, |device| {
            self.work(device);
            Ok(None)
        }) {
            Err(RdmaError::TimedOut) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn words(fault: QpFault) -> &'static str {
    match fault {
        QpFault::Send => "a request of ours failed",
        QpFault::Receive => "a message did not fit where it was to go",
        QpFault::InvalidRequest => "the peer asked for something that makes no sense here",
        QpFault::Access => "the peer's key, bounds or permissions were wrong",
        QpFault::CompletionQueue => "a completion queue of ours was full",
        _ => "the queue pair failed",
    }
}

fn summary(session: &Session, now: Instant) -> Summary {
    Summary {
        peer: session.peer,
        service_port: session.service_port,
        used_for: session.used_for(),
        lasted: now.since(session.since),
        messages: session.messages,
        bytes_in: session.bytes_in,
        bytes_out: session.bytes_out,
        failed: session.failed.clone(),
    }
}
