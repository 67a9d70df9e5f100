//! The connecting end: opens and closes as fast as its window allows.

use super::SERVICE_ID;
use super::idle::Idle;
use super::row::StepSpans;
use super::server::{CQ_ENTRIES, offered};
use crate::error::{BenchError, go_on};
use barewire_base::{Duration, Instant};
use barewire_engine::PeerPath;
use barewire_measure::{Histogram, stamp};
use barewire_roce::{ConnId, Connect, CqId, Data, Event, PathId, Pd, QpInit, Qpn, SendOp, SendWr, WcStatus};
use barewire_verbs::{Device, RdmaError};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest time that nothing comes back before the run is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Cycles between two looks at the flag that somebody interrupted.
const LOOK_EVERY: u64 = 1024;

/// What else runs in this thread: the server, when both ends share it.
pub(crate) type Other<'a> = &'a mut dyn FnMut(Instant) -> Result<(), BenchError>;

/// The way to the server. `other` runs meanwhile, where both ends share the thread.
pub(crate) fn resolve(
    device: &mut Device,
    server: IpAddr,
    idle: Idle,
    other: &mut dyn FnMut(Instant) -> Result<(), BenchError>,
) -> Result<PathId, BenchError> {
    let end = stamp() + PATIENCE;
    loop {
        let now = barewire_engine::now();
        match device.stack_mut().peer_path(now, server, None) {
            PeerPath::Ready(path) => return Ok(path),
            PeerPath::Pending if now < end => {
                device.stack_mut().poll(now)?;
                other(now)?;
                idle.rest(device.stack_mut(), now);
            }
            _ => return Err(RdmaError::Unreachable(server).into()),
        }
    }
}

/// What came of a client thread.
#[derive(Default)]
pub(crate) struct Counted {
    /// When it began to count.
    pub begin: Instant,
    pub connections: u64,
    pub failed: u64,
    /// From the first call of a connection until it can send.
    pub latency: Histogram,
    pub spent: Duration,
    pub tx_frames: u64,
}

/// A connection being opened or closed.
struct Slot {
    conn: ConnId,
    since: Instant,
}

/// One device that connects.
pub(crate) struct Client {
    device: Device,
    pd: Pd,
    shared_cq: CqId,
    own_cq: bool,
    service: u64,
    path: PathId,
    /// In the order in which they were asked for, which is nearly that in which they come back.
    opening: VecDeque<Slot>,
    closing: u32,
    /// Those that stay.
    open: Vec<ConnId>,
    asked: Vec<(ConnId, Qpn)>,
}

/// When a run of the client ends.
pub(crate) enum Until<'a> {
    /// Counts from the one time to the other, at which it ends: both are the same for all clients. `tell` hears when it counts.
    Window { from: Instant, to: Instant, tell: &'a dyn Fn(bool) },
    /// When so many are open.
    Open(usize),
    /// When all that was open is closed.
    Closed,
}

impl Client {
    /// Resolves the way to the server.
    pub(crate) fn new(
        mut device: Device,
        server: IpAddr,
        own_cq: bool,
        idle: Idle,
        other: Other<'_>,
    ) -> Result<Client, BenchError> {
        let verbs = device.verbs();
        let pd = verbs.alloc_pd();
        let shared_cq = verbs.create_cq(1 << 16)?;
        let path = resolve(&mut device, server, idle, other)?;
        Ok(Client {
            device,
            pd,
            shared_cq,
            own_cq,
            service: SERVICE_ID,
            path,
            opening: VecDeque::new(),
            closing: 0,
            open: Vec::new(),
            asked: Vec::new(),
        })
    }

    /// For a server that listens elsewhere.
    pub(crate) fn of_service(self, service: u64) -> Client {
        Client { service, ..self }
    }

    /// Connections that stay open.
    pub(crate) fn open_connections(&self) -> usize {
        self.open.len()
    }

    fn tx_frames(&self) -> u64 {
        self.device.stack().endpoint().counters().tx_frames.get()
    }

    fn ask(&mut self, now: Instant, n: usize) -> Result<(), BenchError> {
        let verbs = self.device.verbs();
        let to = Connect::new(self.path, self.service);
        self.asked.clear();
        if self.own_cq {
            for _ in 0..n {
                let cq = verbs.create_cq(CQ_ENTRIES)?;
                verbs.connect_many(now, 1, &QpInit::rc(self.pd, cq), &to, &mut self.asked)?;
            }
        } else {
            verbs.connect_many(now, n, &QpInit::rc(self.pd, self.shared_cq), &to, &mut self.asked)?;
        }
        self.opening.extend(self.asked.iter().map(|&(conn, _)| Slot { conn, since: now }));
        Ok(())
    }

    fn destroy(&mut self, now: Instant, qpn: Qpn) -> Result<(), BenchError> {
        let verbs = self.device.verbs();
        let cq = verbs.query_qp(qpn)?.send_cq;
        verbs.destroy_qp(now, qpn)?;
        if self.own_cq {
            verbs.destroy_cq(cq)?;
        }
        Ok(())
    }

    fn opened(&mut self, conn: ConnId) -> Option<Instant> {
        let at = self.opening.iter().position(|slot| slot.conn == conn)?;
        self.opening.remove(at).map(|slot| slot.since)
    }

    /// Opens connections, `window` at a time, closes each at once (`teardown`) or lets it stay, until it is time. What is in
    /// flight then is finished, and not counted.
    pub(crate) fn run(
        &mut self,
        window: u32,
        teardown: bool,
        until: &Until<'_>,
        progress: &AtomicU64,
        idle: Idle,
        other: Other<'_>,
    ) -> Result<Counted, BenchError> {
        let start = stamp();
        let mut counted = Counted { begin: start, ..Counted::default() };
        let mut frames = self.tx_frames();
        let (mut heard, mut cycles, mut ending) = (start, 0u64, false);
        let mut counting = !matches!(until, Until::Window { .. });
        loop {
            let now = stamp();
            if let Until::Window { from, tell, .. } = until
                && !(counting || ending)
                && now >= *from
            {
                // What is under way is finished within the window, and what is under way at its end is not.
                counting = true;
                counted.begin = start.max(*from);
                frames = self.tx_frames();
                tell(true);
            }
            let mut work = self.device.stack_mut().receive(now)?;
            let mut seen: Option<Instant> = None;
            while let Some(event) = self.device.stack_mut().poll_event() {
                work += 1;
                match event {
                    Event::Connected { conn, .. } => {
                        // One reading serves all that came in one burst.
                        let at = *seen.get_or_insert_with(stamp);
                        let since = self.opened(conn);
                        if counting && let Some(since) = since {
                            counted.latency.record(at.since(since).as_nanos());
                        }
                        if teardown {
                            self.closing += 1;
                            self.device.verbs().disconnect(now, conn)?;
                        } else {
                            self.open.push(conn);
                            counted.connections += u64::from(counting);
                            progress.fetch_add(u64::from(counting), Ordering::Relaxed);
                        }
                    }
                    Event::Disconnected { qpn, .. } => {
                        self.destroy(now, qpn)?;
                        self.closing = self.closing.saturating_sub(1);
                        counted.connections += u64::from(teardown && counting);
                        progress.fetch_add(u64::from(teardown && counting), Ordering::Relaxed);
                    }
                    Event::ConnectFailed { conn, .. } => {
                        self.opened(conn);
                        counted.failed += u64::from(counting || ending);
                    }
                    _ => {}
                }
            }
            let in_flight = self.opening.len() + self.closing as usize;
            let room = match until {
                _ if ending => 0,
                Until::Closed => 0,
                Until::Open(most) => (window as usize)
                    .saturating_sub(in_flight)
                    .min(most.saturating_sub(self.open.len() + self.opening.len())),
                _ => (window as usize).saturating_sub(in_flight),
            };
            if room > 0 {
                self.ask(now, room)?;
            }
            if matches!(until, Until::Closed) {
                for _ in in_flight..window as usize {
                    let Some(conn) = self.open.pop() else { break };
                    if self.device.verbs().disconnect(now, conn).is_ok() {
                        self.closing += 1;
                    }
                }
            }
            work += self.device.stack_mut().transmit(now)?;
            other(now)?;
            if !ending {
                ending = match until {
                    Until::Window { to, .. } => now >= *to,
                    Until::Open(most) => self.open.len() >= *most,
                    Until::Closed => self.open.is_empty(),
                };
                if ending {
                    counting = false;
                    counted.spent = match until {
                        Until::Window { to, tell, .. } => {
                            tell(false);
                            to.since(counted.begin)
                        }
                        _ => stamp().since(start),
                    };
                    counted.tx_frames = self.tx_frames() - frames;
                }
            }
            if ending && self.opening.is_empty() && self.closing == 0 {
                return Ok(counted);
            }
            if work > 0 {
                heard = now;
            } else {
                idle.rest(self.device.stack_mut(), now);
                if now.since(heard) > PATIENCE {
                    return Err(RdmaError::NoAnswer.into());
                }
            }
            cycles += 1;
            if cycles % LOOK_EVERY == 0 {
                go_on()?;
            }
        }
    }

    /// Polls until an event that is wanted has come.
    fn event(
        &mut self,
        idle: Idle,
        other: &mut dyn FnMut(Instant) -> Result<(), BenchError>,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<Event, BenchError> {
        let end = stamp() + PATIENCE;
        loop {
            let now = stamp();
            self.device.stack_mut().receive(now)?;
            while let Some(event) = self.device.stack_mut().poll_event() {
                if wanted(&event) {
                    return Ok(event);
                }
                if let Event::ConnectFailed { .. } = event {
                    return Err(RdmaError::NoAnswer.into());
                }
            }
            self.device.stack_mut().transmit(now)?;
            other(now)?;
            idle.rest(self.device.stack_mut(), now);
            if now > end {
                return Err(RdmaError::NoAnswer.into());
            }
        }
    }

    /// One connection after the other until `end`, each step timed, with one byte written over each; in the order of
    /// [`STEPS`](super::row::STEPS).
    pub(crate) fn steps(
        &mut self,
        end: Instant,
        idle: Idle,
        other: Other<'_>,
    ) -> Result<StepSpans, BenchError> {
        let mut spans: StepSpans = std::array::from_fn(|_| Histogram::new());
        while stamp() < end {
            go_on()?;
            let mut at = [stamp(); 7];
            self.asked.clear();
            self.ask(at[0], 1)?;
            self.opening.clear();
            let Some(&(conn, qpn)) = self.asked.first() else { break };
            at[1] = stamp();
            self.device.stack_mut().transmit(at[1])?;
            other(at[1])?;
            self.event(idle, other, |e| matches!(e, Event::Connected { conn: c, .. } if *c == conn))?;
            at[2] = stamp();
            let offer = offered(&self.device)?;
            self.device.stack_mut().transmit(at[2])?;
            at[3] = stamp();
            let to = SendOp::Write { addr: offer.addr, rkey: offer.rkey };
            self.device.verbs().post_send(qpn, &SendWr::new(1, to, Data::Inline(&[0x62])))?;
            let cq = self.device.verbs().query_qp(qpn)?.send_cq;
            let status = loop {
                let now = stamp();
                self.device.stack_mut().transmit(now)?;
                other(now)?;
                self.device.stack_mut().receive(now)?;
                if let Some(wc) = self.device.verbs().poll_cq_one(cq) {
                    break wc.status;
                }
                if now.since(at[3]) > PATIENCE {
                    return Err(RdmaError::TimedOut.into());
                }
                idle.rest(self.device.stack_mut(), now);
            };
            at[4] = stamp();
            if status != WcStatus::Success {
                return Err(RdmaError::Failed { wr_id: 1, status }.into());
            }
            self.device.verbs().disconnect(at[4], conn)?;
            self.device.stack_mut().transmit(at[4])?;
            other(at[4])?;
            self.event(idle, other, |e| matches!(e, Event::Disconnected { conn: c, .. } if *c == conn))?;
            at[5] = stamp();
            self.destroy(at[5], qpn)?;
            at[6] = stamp();
            for (span, pair) in spans.iter_mut().zip(at.windows(2)) {
                span.record(pair[1].since(pair[0]).as_nanos());
            }
        }
        Ok(spans)
    }
}
