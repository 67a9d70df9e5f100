//! A host in virtual time that opens RDMA connections, or accepts them: the stack of an application that has nothing but RDMA, on a
//! port whose wire is the world.

use super::port::{Queues, WorldPort};
use super::station::{StationConfig, host_config};
use barewire_base::{Duration, Instant, Prng};
use barewire_engine::{PeerPath, RdmaStack};
use barewire_frame::{Frame, Pool};
use barewire_host::Host;
use barewire_measure::Histogram;
use barewire_roce::{
    CONNECTIONS_MAX, Config, ConnId, Connect, CqId, Endpoint, Event, Mtu, PathId, Pd, QpInit, Qpn, RejReason,
    Terms,
};
use barewire_sim::Node;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;

/// The service that every server listens on.
const SERVICE: u64 = 50;
/// Connections of all hosts of a world, those that are remembered for a while included: what bounds its memory.
const CONNECTIONS_ALL: usize = 1 << 22;
/// After what time a host looks again that found no frame, or no room for a connection. Not zero, or time would stand still.
const AGAIN: Duration = Duration::from_micros(10);

/// A host as a client.
struct Client {
    server: IpAddr,
    start: Instant,
    end: Instant,
    window: usize,
    path: Option<PathId>,
    /// There is no way to the server.
    lost: bool,
    /// When it asked for the first one.
    began: Option<Instant>,
    /// In the order in which they were asked for, which is nearly that in which they come back.
    opening: VecDeque<(ConnId, Instant)>,
    closing: VecDeque<ConnId>,
    asked: Vec<(ConnId, Qpn)>,
    /// Not to ask before: a limit was reached.
    rests_until: Option<Instant>,
}

/// What a host has done as a client.
#[derive(Default)]
pub(super) struct Counted {
    /// Connections that opened.
    pub(super) opened: u64,
    /// Those that did not.
    pub(super) failed: u64,
    /// Opened and closed again.
    pub(super) completed: u64,
    /// Of these, while it still asked for more.
    in_time: u64,
    /// Times that it could not ask though its window had room.
    pub(super) held: u64,
}

/// The node.
pub(super) struct Connector {
    stack: RdmaStack,
    queues: Rc<RefCell<Queues>>,
    pd: Pd,
    cq: CqId,
    client: Option<Client>,
    counted: Counted,
    /// From asking for a connection until it can send.
    set_up: Histogram,
    /// When it last worked.
    worked: Instant,
}

impl Connector {
    pub(super) fn new(config: StationConfig<'_>, pool: Pool) -> Result<Connector, String> {
        let StationConfig { host, role, .. } = &config;
        let interface = host.interfaces.first().ok_or("has no interface")?;
        let window = config.workload.window as usize;
        let flows = role.server as usize + usize::from(role.client.is_some());
        // Each is remembered for a while after its end. A server of many remembers for all of them.
        let ends = 2 * config.clients.max(1);
        let most = (CONNECTIONS_ALL / ends * flows.max(1)).max(2 * window * flows).min(CONNECTIONS_MAX);
        let first = interface.addresses.first().map(|(a, _)| *a).ok_or("has no address")?;
        let roce = Config {
            addresses: interface.addresses.iter().map(|(a, _)| *a).collect(),
            mtu: Mtu::for_ethernet(config.mtu.into()).ok_or("its link is too narrow for RDMA")?,
            connections_max: most,
            ..Config::new(interface.mac, first)
        };
        let mut secret = [0; 16];
        Prng::new(config.secret_seed).fill(&mut secret);
        let mut endpoint = Endpoint::new(roce, secret).map_err(|e| e.to_string())?;
        if endpoint.frame_len_max() > pool.frame_max() {
            return Err("its frames do not fit the pool".to_owned());
        }
        let pd = endpoint.alloc_pd();
        // Nothing is sent over them: one for all.
        let cq = endpoint.create_cq(1 << 12).map_err(|e| e.to_string())?;
        if role.server > 0 {
            endpoint.listen(SERVICE, u32::MAX).map_err(|e| e.to_string())?;
        }
        let client = role.client.map(|(server, start, end)| Client {
            server: server.ip(),
            start,
            end,
            window,
            path: None,
            lost: false,
            began: None,
            opening: VecDeque::with_capacity(window),
            closing: VecDeque::with_capacity(window),
            asked: Vec::with_capacity(window),
            rests_until: None,
        });
        let queues = Rc::new(RefCell::new(Queues::default()));
        let port = WorldPort::new(config.mtu.into(), Rc::clone(&queues));
        let host = Host::new(host_config(&config)?);
        Ok(Connector {
            stack: RdmaStack::new(Box::new(port), pool, host, endpoint),
            queues,
            pd,
            cq,
            client,
            counted: Counted::default(),
            set_up: Histogram::new(),
            worked: Instant::ZERO,
        })
    }

    /// What it did as a client.
    pub(super) fn counted(&self) -> &Counted {
        &self.counted
    }

    /// From asking for a connection until it can send.
    pub(super) fn set_up(&self) -> &Histogram {
        &self.set_up
    }

    /// Connections opened and closed per second, from the first one until it was to end.
    pub(super) fn rate_per_s(&self) -> f64 {
        match self.client.as_ref().map(|client| (client.began, client.end)) {
            Some((Some(began), end)) if began < end => {
                self.counted.in_time as f64 / end.since(began).as_secs_f64()
            }
            _ => 0.0,
        }
    }

    /// Messages of the connection manager that it sent again.
    pub(super) fn resent(&self) -> u64 {
        self.stack.endpoint().counters().cm_resent.get()
    }

    /// Refusals that it sent: for want of room, or of a connection that it does not know.
    pub(super) fn refused(&self) -> u64 {
        self.stack.endpoint().counters().rej_sent.get()
    }

    /// Asks for as many connections as the window has room for.
    fn ask(&mut self, now: Instant) {
        let Some(client) = &mut self.client else { return };
        if client.lost || now < client.start || now >= client.end {
            return;
        }
        if client.rests_until.is_some_and(|until| now < until) {
            return;
        }
        client.rests_until = None;
        let path = match client.path {
            Some(path) => path,
            None => match self.stack.peer_path(now, client.server, None) {
                PeerPath::Ready(path) => path,
                PeerPath::Pending => return,
                PeerPath::Unreachable => {
                    client.lost = true;
                    self.counted.failed += 1;
                    return;
                }
            },
        };
        client.path = Some(path);
        client.began.get_or_insert(now);
        let room = client.window.saturating_sub(client.opening.len() + client.closing.len());
        if room == 0 {
            return;
        }
        client.asked.clear();
        let (init, to) = (QpInit::rc(self.pd, self.cq), Connect::new(path, SERVICE));
        let asked = self.stack.endpoint_mut().connect_many(now, room, &init, &to, &mut client.asked);
        if asked.ok() != Some(room) {
            self.counted.held += 1;
            client.rests_until = Some(now + AGAIN);
        }
        client.opening.extend(client.asked.iter().map(|&(conn, _)| (conn, now)));
    }

    fn handle(&mut self, now: Instant, event: Event) {
        let endpoint = self.stack.endpoint_mut();
        match event {
            Event::ConnectRequest { conn, .. } => {
                let Ok(qpn) = endpoint.create_qp(&QpInit::rc(self.pd, self.cq)) else {
                    // The peer may have taken it back meanwhile: then there is nobody to refuse.
                    let _ = endpoint.reject(conn, RejReason::NO_RESOURCES, &[]);
                    return;
                };
                if endpoint.accept(now, conn, qpn, &Terms::default()).is_err() {
                    let _ = endpoint.destroy_qp(now, qpn);
                }
            }
            Event::Connected { conn, qpn } => {
                let Some(client) = &mut self.client else { return };
                if let Some(at) = client.opening.iter().position(|(c, _)| *c == conn)
                    && let Some((_, since)) = client.opening.remove(at)
                {
                    self.set_up.record(now.since(since).as_nanos());
                    self.counted.opened += 1;
                }
                match endpoint.disconnect(now, conn) {
                    Ok(()) => client.closing.push_back(conn),
                    // It is gone already.
                    Err(_) => _ = endpoint.destroy_qp(now, qpn),
                }
            }
            Event::Disconnected { conn, qpn, .. } => {
                let _ = endpoint.destroy_qp(now, qpn);
                // Of a server's there is nothing to count.
                let Some(client) = &mut self.client else { return };
                if let Some(at) = client.closing.iter().position(|c| *c == conn) {
                    client.closing.remove(at);
                    self.counted.completed += 1;
                    self.counted.in_time += u64::from(now <= client.end);
                }
            }
            Event::ConnectFailed { conn, qpn, .. } => {
                let _ = endpoint.destroy_qp(now, qpn);
                let Some(client) = &mut self.client else { return };
                if let Some(at) = client.opening.iter().position(|(c, _)| *c == conn) {
                    client.opening.remove(at);
                    self.counted.failed += 1;
                }
            }
            _ => {}
        }
    }

    /// Works until nothing moves: a host takes no time.
    fn work(&mut self, now: Instant) {
        self.worked = now;
        // A port of this world is never down.
        while self.stack.receive(now).is_ok_and(|n| n > 0) {}
        loop {
            while let Some(event) = self.stack.poll_event() {
                self.handle(now, event);
            }
            self.ask(now);
            if !self.stack.transmit(now).is_ok_and(|n| n > 0) {
                break;
            }
        }
    }
}

impl Node for Connector {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.queues.borrow_mut().arrived.push_back(frame);
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.work(now);
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Frame> {
        self.queues.borrow_mut().leaving.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let client = self.client.as_ref();
        let start = client.map(|client| client.start).filter(|start| self.worked < *start);
        let rest = client.and_then(|client| client.rests_until);
        let due = [start, rest, self.stack.next_deadline()].into_iter().flatten().min()?;
        // What was due and could not be done found no frame: others have to give theirs back first.
        Some(if due <= self.worked { self.worked + AGAIN } else { due })
    }
}
