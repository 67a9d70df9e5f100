//! RDMA for applications that share the port: who owns which object, what each may have, and what each is told.
//!
//! ```text
//! ring of requests --> serve    the object must be the application's own, its quota must allow it
//!                  --> endpoint (barewire_roce)
//! endpoint's events, completion queues --> tell --> ring of completions, as far as it has room
//! ```
//! The endpoint knows nothing of applications. Its objects are in [`objects`], under numbers that applications know them by; one
//! that names another's object is answered as if there were none, and counted. Keys of memory are checked by the endpoint,
//! against protection domains, which are one application's each.
//!
//! A completion that finds no room in its application's ring stays in its completion queue, which its owner made as long as it
//! liked within its quota; an event waits here. Nobody else waits for either.

mod deliver;
mod objects;
mod serve;

pub(crate) use self::objects::OBJECTS_MAX;

use self::objects::{Miss, Object, Objects};
use crate::agent::Offences;
use crate::applications::Applications;
use barewire_base::{Counter, Instant};
use barewire_channel::rdma::{self as entry, Stage};
use barewire_engine::Rdma as Net;
use barewire_roce::{ConnId, ConnectError, CqId, ListenerId, Qpn, RejReason, SrqId, VerbError};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// What one application may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Protection domains.
    pub domains: u32,
    /// Memory regions.
    pub regions: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Entries of all its completion queues together.
    pub completions: u32,
    /// Shared receive queues.
    pub shared_receive_queues: u32,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Send requests that all its queue pairs have room for together; receive requests likewise.
    pub requests: u32,
    /// Listeners.
    pub listeners: u32,
    /// Connections, in whatever state.
    pub connections: u32,
}

impl Quotas {
    /// Objects of one application, at most.
    pub(crate) fn objects(&self) -> u64 {
        [
            self.domains,
            self.regions,
            self.completion_queues,
            self.shared_receive_queues,
            self.queue_pairs,
            self.listeners,
            self.connections,
        ]
        .into_iter()
        .map(u64::from)
        .sum()
    }
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas {
            domains: 64,
            regions: 1024,
            completion_queues: 256,
            completions: 1 << 18,
            shared_receive_queues: 64,
            queue_pairs: 1024,
            requests: 1 << 18,
            listeners: 64,
            connections: 1024,
        }
    }
}

/// What one application has.
#[derive(Default)]
struct Used {
    domains: u32,
    regions: u32,
    completion_queues: u32,
    completions: u32,
    shared_receive_queues: u32,
    queue_pairs: u32,
    sends: u32,
    recvs: u32,
    listeners: u32,
    connections: u32,
}

/// An event that waits for room in the ring.
struct Waiting {
    what: entry::Completion,
    /// Private data that goes before it.
    private: Vec<u8>,
}

#[derive(Default)]
struct App {
    used: Used,
    stage: Stage,
    /// More was staged than any request takes.
    overflowed: bool,
    /// Completion queues that have something, each once.
    ready: VecDeque<u32>,
    events: VecDeque<Waiting>,
}

/// A connection whose peer's address is being resolved.
struct Resolving {
    conn: u32,
    until: Instant,
    local: Option<IpAddr>,
    remote: IpAddr,
    service_id: u64,
    src_port: u16,
    mtu: u8,
    private: Vec<u8>,
}

/// What is counted here.
#[derive(Default)]
pub(crate) struct RdmaCounters {
    /// Requests of applications that were refused, posts included.
    pub refused: Counter,
    /// Of those, for a quota.
    pub over_quota: Counter,
    /// Peers that wanted a connection and were sent away, because the application has as many as it may, or is gone.
    pub turned_away: Counter,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug)]
struct RequestRefusal {
    code: u16,
    what: u16,
    limit: u32,
}

impl From<u16> for RequestRefusal {
    fn from(code: u16) -> RequestRefusal {
        RequestRefusal { code, what: 0, limit: 0 }
    }
}

impl From<VerbError> for RequestRefusal {
    fn from(e: VerbError) -> RequestRefusal {
        match e {
            VerbError::Unknown => entry::code::UNKNOWN,
            VerbError::Busy => entry::code::BUSY,
            VerbError::Limit => entry::code::LIMIT,
            VerbError::QueueFull => entry::code::QUEUE_FULL,
            VerbError::State(_) => entry::code::STATE,
            VerbError::CqError => entry::code::CQ_ERROR,
            VerbError::CqTooSmall => entry::code::CQ_TOO_SMALL,
            _ => entry::code::INVALID,
        }
        .into()
    }
}

impl From<ConnectError> for RequestRefusal {
    fn from(e: ConnectError) -> RequestRefusal {
        match e {
            ConnectError::Verb(e) => return e.into(),
            ConnectError::QueuePair => entry::code::QUEUE_PAIR,
            ConnectError::State => entry::code::STATE,
            ConnectError::Limit => entry::code::LIMIT,
            ConnectError::PrivateData => entry::code::PRIVATE_DATA,
            ConnectError::InUse => entry::code::IN_USE,
            _ => entry::code::INVALID,
        }
        .into()
    }
}

/// The RDMA half of the daemon's agent.
pub(crate) struct Rdma {
    quotas: Quotas,
    objects: Objects,
    apps: Vec<App>,
    by_cq: HashMap<CqId, u32>,
    by_srq: HashMap<SrqId, u32>,
    by_qp: HashMap<Qpn, u32>,
    by_listener: HashMap<ListenerId, u32>,
    by_conn: HashMap<ConnId, u32>,
    resolving: Vec<Resolving>,
    /// Some application has events or completions that were not handed over.
    undelivered: bool,
    pub counters: RdmaCounters,
}

impl Rdma {
    /// For up to `applications`.
    pub(crate) fn new(quotas: Quotas, applications: usize) -> Rdma {
        Rdma {
            quotas,
            objects: Objects::default(),
            apps: (0..applications).map(|_| App::default()).collect(),
            by_cq: HashMap::new(),
            by_srq: HashMap::new(),
            by_qp: HashMap::new(),
            by_listener: HashMap::new(),
            by_conn: HashMap::new(),
            resolving: Vec::new(),
            undelivered: false,
            counters: RdmaCounters::default(),
        }
    }

    /// Objects of all applications.
    pub(crate) fn objects(&self) -> usize {
        self.objects.live()
    }

    /// Completion queues and events that wait for room in a ring.
    pub(crate) fn waiting(&self) -> usize {
        self.apps.iter().map(|app| app.ready.len() + app.events.len()).sum()
    }

    /// Takes everything of an application's down: connections are closed, listeners and memory are gone.
    pub(crate) fn drop_application(&mut self, net: &mut Net<'_>, number: u32, now: Instant) {
        let all = self.objects.of(number);
        // Users before what they use: queue pairs, then queues; everything before its domain.
        for pass in 0..3 {
            for &object in &all {
                let Some((_, &mut found)) = self.objects.find(object) else {
                    // A connection, gone with its queue pair.
                    continue;
                };
                let mine = match found {
                    Object::Qp { .. } | Object::Listener { .. } | Object::Conn { qp: 0, .. } => 0,
                    Object::Pd { .. } => 2,
                    _ => 1,
                };
                if mine == pass {
                    match found {
                        Object::Conn { conn: Some(conn), .. } => {
                            let _ = net.endpoint.reject(conn, RejReason::NO_RESOURCES, &[]);
                            self.forget_conn(object);
                        }
                        _ => {
                            // Nothing uses it any more, so nothing can refuse.
                            let _ = self.destroy(net, number, object, found, now);
                        }
                    }
                }
            }
        }
        debug_assert!(self.objects.of(number).is_empty());
        if let Some(app) = self.apps.get_mut(number as usize) {
            *app = App::default();
        }
    }

    /// Forgets a connection that the endpoint has no more, or never had.
    fn forget_conn(&mut self, number: u32) {
        let Some((owner, _)) = self.objects.find(number) else {
            return;
        };
        let Some(Object::Conn { conn, qp }) = self.objects.remove(number) else {
            return;
        };
        match conn {
            Some(conn) => {
                self.by_conn.remove(&conn);
            }
            None => self.resolving.retain(|r| r.conn != number),
        }
        if let Some((_, Object::Qp { conn, .. })) = self.objects.find(qp)
            && *conn == number
        {
            *conn = 0;
        }
        self.apps[owner as usize].used.connections -= 1;
    }

    /// When somebody's patience with address resolution ends.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.resolving.iter().map(|r| r.until).min()
    }

    fn get(&mut self, number: u32, object: u32, offences: &Offences) -> Result<&mut Object, RequestRefusal> {
        self.objects.get(number, object).map_err(|miss| {
            if miss == Miss::NotTheirs {
                offences.not_theirs.add(1);
            }
            entry::code::UNKNOWN.into()
        })
    }
}

/// What the modules below pass around.
struct RequestContext<'a, 'b> {
    net: &'a mut Net<'b>,
    applications: &'a mut Applications,
    offences: &'a Offences,
    number: u32,
    now: Instant,
}
