//! The client library as a state machine: random calls on three clients of two daemons, plain or encrypted, each answer held against a model,
//! and at the end nothing may be left over. Every run prints its seed; `BAREWIRE_SEED=n` plays that one alone.

mod common;

use barewire_base::Prng;
use barewire_client::{
    Client, CloseReason, ConnectFailure, ConnectId, ConnectOptions, ConnectWaitError, Event, FlowId,
    Geometry, Inbound, SendBuf, SendError,
};
use common::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Small enough that everything is full now and then.
const GEOMETRY: Geometry =
    Geometry { sq_entries: 16, cq_entries: 64, send_bytes: 64 << 10, recv_bytes: 64 << 10 };
const STEPS: u64 = 600;
const SEEDS: u64 = 24;
/// Messages that a client holds without giving them back.
const HELD_MAX: usize = 6;
/// Bytes of a message before its pattern: who sent it, on which flow, the how-manieth.
const HEAD: usize = 24;

#[derive(Default)]
struct FlowModel {
    /// The peer asked for it.
    accepted: bool,
    /// Messages that were taken, and which of them were said to have arrived.
    sent: u64,
    delivered: Vec<u64>,
    /// We asked for its end.
    closed: bool,
    reset: bool,
    ended: Option<CloseReason>,
    /// Who sends to us on it, and how many messages of that came.
    peer: Option<(usize, FlowId)>,
    received: u64,
}

#[derive(Default)]
struct Model {
    flows: HashMap<FlowId, FlowModel>,
    /// Attempts that were not answered: whether they were cancelled.
    attempts: HashMap<u64, (ConnectId, bool)>,
    /// Tokens of messages: flow and number.
    tokens: HashMap<u64, (FlowId, u64)>,
    refused: HashSet<Option<FlowId>>,
    held: Vec<Inbound>,
    reserved: Vec<SendBuf>,
}

struct Walk {
    prng: Prng,
    clients: Vec<Client>,
    models: Vec<Model>,
    next_token: u64,
    /// How long an attempt is waited for at most: some succeed, and some do not.
    wait_us: u64,
    counts: HashMap<&'static str, u64>,
}

/// Where clients listen: the first on host 1, the others on host 2. Clients of one host have no business with each other.
fn address(client: usize) -> std::net::SocketAddr {
    to(if client == 0 { 1 } else { 2 }, 1000 + client as u16)
}

fn bytes_of(client: usize, flow: FlowId, number: u64, len: usize) -> Vec<u8> {
    let head = [client as u64, flow.to_raw(), number].map(u64::to_le_bytes).concat();
    [head, pattern(number ^ flow.to_raw() << 8 ^ client as u64, len)].concat()
}

impl Walk {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn below(&mut self, n: usize) -> usize {
        self.prng.below(n.max(1) as u64) as usize
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn elsewhere(&mut self, c: usize) -> std::net::SocketAddr {
        address(if c == 0 { 1 + self.below(self.clients.len() - 1) } else { 0 })
    }

    /// A flow of a client, of any state; now and then one that never was.
    fn flow(&mut self, c: usize) -> FlowId {
        let mut flows: Vec<_> = self.models[c].flows.keys().copied().collect();
        flows.sort();
        match self.below(20) {
            0 => FlowId::from_raw(self.prng.next_u64()),
            _ if flows.is_empty() => FlowId::from_raw(1),
            // The latest ones live.
            n if n < 15 => flows[flows.len() - 1 - self.below(flows.len().min(4))],
            _ => flows[self.below(flows.len())],
        }
    }

    /// Whether the answer to a send is one that may be given.
    fn check_send(&mut self, c: usize, flow: FlowId, answer: Result<(), SendError>) -> bool {
        let model = &mut self.models[c];
        let of = model.flows.get(&flow);
        match answer {
            Ok(()) => assert!(of.is_some_and(|f| !f.closed && f.ended.is_none()), "{flow:?} took a message"),
            Err(SendError::WouldBlock) => {
                assert!(of.is_some_and(|f| !f.closed && f.ended.is_none()), "{flow:?} will never take one");
                model.refused.insert(Some(flow));
            }
            Err(SendError::Closing) => assert!(of.is_some_and(|f| f.closed), "{flow:?} was not closed"),
            // Its end may be among the events that wait.
            Err(SendError::NoSuchFlow) => {}
            Err(e) => panic!("{e}"),
        }
        self.count(match answer {
            Ok(()) => "sent",
            Err(SendError::WouldBlock) => "refused: full",
            Err(_) => "refused: no flow",
        });
        answer.is_ok()
    }

    fn call(&mut self, c: usize) {
        let what = self.below(100);
        match what {
            0..=39 => {
                let flow = self.flow(c);
                let len = [0, 10, 1000, 9000, 20_000][self.below(5)];
                let number = self.models[c].flows.get(&flow).map_or(0, |f| f.sent);
                let bytes = bytes_of(c, flow, number, len);
                let mut token = None;
                let answer = match self.below(3) {
                    0 => self.clients[c].send(flow, &bytes),
                    1 => {
                        let at = self.below(bytes.len());
                        let pieces = [&bytes[..at], &bytes[at..]].map(std::io::IoSlice::new);
                        self.clients[c].send_vectored(flow, &pieces)
                    }
                    _ => match self.clients[c].reserve(bytes.len()) {
                        Ok(buf) => {
                            assert!(self.clients[c].write(&buf, 0, &bytes));
                            token = Some(self.token());
                            self.clients[c].commit(flow, buf, token)
                        }
                        Err(e) => {
                            assert_eq!(e, SendError::WouldBlock);
                            self.models[c].refused.insert(None);
                            return;
                        }
                    },
                };
                if self.check_send(c, flow, answer) {
                    let model = &mut self.models[c];
                    model.flows.get_mut(&flow).unwrap().sent += 1;
                    if let Some(token) = token {
                        model.tokens.insert(token, (flow, number));
                    }
                }
            }
            40..=43 => {
                let (remote, token) = (self.elsewhere(c), self.token());
                // Now and then to a port where nobody listens.
                let remote = if self.prng.chance(0.1) { (remote.ip(), 9).into() } else { remote };
                let ordered = true;
                match self.clients[c]
                    .connect(remote, &ConnectOptions { token, ordered, ..Default::default() })
                {
                    Ok(id) => drop(self.models[c].attempts.insert(token, (id, false))),
                    Err(e) => {
                        assert_eq!(e, SendError::WouldBlock);
                        self.models[c].refused.insert(None);
                    }
                }
            }
            44..=46 => {
                let remote = self.elsewhere(c);
                let timeout = Duration::from_micros(self.prng.below(self.wait_us));
                match self.clients[c].connect_wait(remote, &ConnectOptions::default(), timeout) {
                    Ok(flow) => {
                        self.count("connected at once");
                        assert!(self.models[c].flows.insert(flow, FlowModel::default()).is_none());
                    }
                    // Whatever becomes of it, nobody hears of it again.
                    Err(ConnectWaitError::TimedOut) => self.count("given up"),
                    Err(ConnectWaitError::Failed(ConnectFailure::TableFull)) => {}
                    Err(ConnectWaitError::WouldBlock) => drop(self.models[c].refused.insert(None)),
                    Err(e) => panic!("{e}"),
                }
            }
            47..=49 => {
                let mut open: Vec<_> = self.models[c].attempts.iter().map(|(t, a)| (*t, a.0)).collect();
                open.sort();
                if !open.is_empty() {
                    let (token, id) = open[self.below(open.len())];
                    let done = self.clients[c].cancel(id);
                    let cancelled = &mut self.models[c].attempts.get_mut(&token).unwrap().1;
                    // False for one that was cancelled before, or whose answer waits to be taken.
                    *cancelled |= done;
                    self.count("cancelled");
                }
            }
            50..=52 => {
                let flow = self.flow(c);
                match self.clients[c].close(flow) {
                    Ok(()) => drop(self.models[c].flows.get_mut(&flow).map(|f| f.closed = true)),
                    Err(e) => {
                        assert_eq!(e, SendError::WouldBlock);
                        self.models[c].refused.insert(None);
                    }
                }
            }
            53 => {
                let flow = self.flow(c);
                if self.clients[c].reset(flow).is_ok() {
                    if let Some(f) = self.models[c].flows.get_mut(&flow) {
                        (f.closed, f.reset) = (true, true);
                    }
                } else {
                    self.models[c].refused.insert(None);
                }
            }
            54..=56 => {
                // Reservations that are kept for a while, given back, or forgotten.
                let len = self.below(20_000);
                match self.below(3) {
                    0 => match self.clients[c].reserve(len) {
                        Ok(buf) if self.models[c].reserved.len() < 2 => self.models[c].reserved.push(buf),
                        Ok(buf) => drop(buf),
                        Err(e) => {
                            assert_eq!(e, SendError::WouldBlock);
                            self.models[c].refused.insert(None);
                        }
                    },
                    1 => drop(self.models[c].reserved.pop()),
                    _ => {
                        if let Some(buf) = self.models[c].reserved.pop() {
                            // Any client may be handed it; it goes home.
                            let other = self.below(self.clients.len());
                            self.clients[other].abandon(buf);
                        }
                    }
                }
                assert_eq!(self.clients[c].reserve(65_537).unwrap_err(), SendError::TooLarge);
            }
            57..=64 => self.let_go(c),
            65..=69 => self.clients[c].flush(),
            70..=79 => {
                let timeout = Duration::from_micros(self.prng.below(1500));
                if let Some(event) = self.clients[c].wait_event(Some(timeout)).unwrap() {
                    self.take(c, event);
                }
            }
            _ => {
                for _ in 0..self.below(12) {
                    match self.clients[c].next_event() {
                        Some(event) => self.take(c, event),
                        None => break,
                    }
                }
            }
        }
        assert!(self.clients[c].sends_under_way() <= GEOMETRY.sends_max());
    }

    /// Gives one held message back, one way or another.
    fn let_go(&mut self, c: usize) {
        if !self.models[c].held.is_empty() {
            let at = self.below(self.models[c].held.len());
            let message = self.models[c].held.swap_remove(at);
            match self.below(3) {
                0 => drop(message),
                // Whoever releases it, it goes home.
                1 => {
                    let other = self.below(self.clients.len());
                    self.clients[other].release(message);
                }
                _ => self.clients[c].release(message),
            }
        }
    }

    fn take(&mut self, c: usize, event: Event) {
        match event {
            Event::Connected { flow, token, remote, .. } => {
                let (_, cancelled) = self.models[c].attempts.remove(&token).expect("an attempt that is open");
                assert!(!cancelled, "it was cancelled, and connected to {remote}");
                assert!(
                    self.models[c].flows.insert(flow, FlowModel::default()).is_none(),
                    "{flow:?} opens twice"
                );
                self.count("connected");
            }
            Event::ConnectFailed { token, reason, .. } => {
                let (_, cancelled) = self.models[c].attempts.remove(&token).expect("an attempt that is open");
                assert_eq!(cancelled, reason == ConnectFailure::Cancelled, "{reason:?}");
            }
            Event::Accepted { flow, .. } => {
                let accepted = FlowModel { accepted: true, ..FlowModel::default() };
                assert!(self.models[c].flows.insert(flow, accepted).is_none(), "{flow:?} opens twice");
            }
            Event::Message(message) => {
                let bytes = self.clients[c].to_vec(&message);
                let of = self.models[c].flows.get_mut(&message.flow()).expect("a flow that is open");
                assert!(of.ended.is_none(), "a message after the end of {:?}", message.flow());
                let word = |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().unwrap());
                let from = (word(0) as usize, FlowId::from_raw(word(1)));
                assert_eq!(*of.peer.get_or_insert(from), from, "a message of another flow");
                assert_eq!(word(2), of.received, "out of turn on {:?}", message.flow());
                of.received += 1;
                assert!(bytes == bytes_of(from.0, from.1, word(2), bytes.len() - HEAD), "other bytes");
                self.count("received");
                self.models[c].held.push(message);
                while self.models[c].held.len() > HELD_MAX {
                    self.let_go(c);
                }
            }
            Event::Delivered { flow, token, delivered } => {
                let model = &mut self.models[c];
                let (of, number) = model.tokens.remove(&token).expect("a token that is open");
                assert_eq!(of, flow);
                if delivered {
                    model.flows.get_mut(&flow).expect("its flow").delivered.push(number);
                }
                self.count(if delivered { "delivered" } else { "undelivered" });
            }
            Event::Closed { flow, reason } => {
                let of = self.models[c].flows.get_mut(&flow).expect("a flow that is open");
                assert_eq!(of.ended.replace(reason), None, "{flow:?} ends twice");
                assert!(of.closed || reason != CloseReason::Local, "nobody closed it");
                assert!(of.reset || reason != CloseReason::LocalReset, "nobody reset it");
                self.count("ended");
            }
            Event::Writable { flow } => {
                assert!(self.models[c].refused.remove(&flow), "{flow:?} was not refused");
                self.count("writable");
            }
            other => panic!("{other:?}"),
        }
    }

    /// Takes all there is, and holds nothing.
    fn drain(&mut self) -> bool {
        let mut any = false;
        for c in 0..self.clients.len() {
            self.models[c].reserved.clear();
            while let Some(event) = self.clients[c].next_event() {
                any = true;
                self.take(c, event);
            }
            while !self.models[c].held.is_empty() {
                self.let_go(c);
            }
            self.clients[c].flush();
        }
        any
    }
}

fn walk(seed: u64, is_secure: bool) -> HashMap<&'static str, u64> {
    println!("seed {seed}{}", if is_secure { ", encrypted" } else { "" });
    let pair = pair_with(|c| {
        if is_secure {
            secure_host(c);
        }
        if seed % 3 == 1 {
            c.interface.port =
                format!("fault+{}?loss=0.02&reorder=0.01&duplicate=0.01&seed={seed}", c.interface.port);
        }
        if seed % 3 == 2 {
            // What several share is short, too.
            c.transport.send_messages_max = 24;
            c.transport.recv_messages_max = 24;
            c.transport.flows_max = 16;
        }
    });
    let clients = vec![
        attach_with(&pair.a, "zero", Some(GEOMETRY)),
        attach_with(&pair.b, "one", Some(GEOMETRY)),
        attach_with(&pair.b, "two", Some(GEOMETRY)),
    ];
    let mut w = Walk {
        prng: Prng::new(seed),
        models: clients.iter().map(|_| Model::default()).collect(),
        clients,
        next_token: 0,
        wait_us: if is_secure { 15_000 } else { 3000 },
        counts: HashMap::new(),
    };
    for c in 0..w.clients.len() {
        w.clients[c].listen_wait(1000 + c as u16, 0, PATIENCE).unwrap();
    }
    for _ in 0..STEPS {
        let c = w.below(w.clients.len());
        w.call(c);
    }

    // Everybody reads on, attempts are answered, and what was refused and has room again is told.
    eventually("every attempt is answered, and every refusal taken back", || {
        w.drain();
        w.models.iter().all(|m| m.attempts.is_empty() && m.refused.is_empty())
    });
    // Then all flows are closed by both ends or one, and all end.
    for c in 0..w.clients.len() {
        let open: Vec<_> =
            w.models[c].flows.iter().filter(|(_, f)| f.ended.is_none()).map(|(f, _)| *f).collect();
        for flow in open {
            while w.clients[c].close(flow).is_err() {
                w.models[c].refused.insert(None);
                w.drain();
            }
            w.models[c].flows.get_mut(&flow).unwrap().closed = true;
        }
    }
    eventually("every flow has ended, and every fate is told", || {
        w.drain();
        w.models.iter().all(|m| m.tokens.is_empty() && m.flows.values().all(|f| f.ended.is_some()))
            && w.clients.iter().all(|c| c.sends_under_way() == 0)
    });
    let clean = |reason: Option<CloseReason>| matches!(reason, Some(CloseReason::Local | CloseReason::Peer));
    for (c, model) in w.models.iter().enumerate() {
        for (id, flow) in &model.flows {
            // Where did its messages arrive?
            let there = w.models.iter().flat_map(|m| m.flows.values()).find(|f| f.peer == Some((c, *id)));
            let received = there.map_or(0, |f| f.received);
            assert!(received <= flow.sent);
            // What was closed here first arrives whole; and of what was said to have arrived, all was handed over. A peer that has given
            // its attempt up takes what comes on it and throws it away, so of a flow that it asked for nothing need be seen.
            let seen = there.map_or(!flow.accepted, |f| clean(f.ended));
            if flow.ended == Some(CloseReason::Local) && seen {
                assert_eq!(received, flow.sent, "{id:?} of client {c}: {:?}", flow.ended);
            }
            if clean(flow.ended) && there.is_none_or(|f| clean(f.ended)) {
                assert!(flow.delivered.iter().all(|n| *n < received), "{id:?} of client {c}");
            }
        }
    }
    // The memory to send from is whole again, also what was dropped of it.
    for client in &mut w.clients {
        client.flush();
        assert!(is_quiet(client));
        drop(client.reserve(64 << 10).expect("all of it"));
        client.close_and_wait(PATIENCE).unwrap();
    }
    for daemon in [&pair.a, &pair.b] {
        for gauge in ["transport.flows", "applications.recv_bytes_used", "applications.promised"] {
            let end = barewire_engine::now() + PATIENCE.into();
            while counter(daemon, gauge) != 0 {
                std::thread::sleep(Duration::from_millis(5));
                let mut left: Vec<_> = counters(daemon).into_iter().filter(|(_, n)| *n > 0).collect();
                left.sort();
                assert!(barewire_engine::now() < end, "seed {seed}: {gauge} is left over: {left:?}");
            }
        }
        assert_eq!(counter(daemon, "applications.bad_entries"), 0);
        assert_eq!(counter(daemon, "applications.not_theirs"), 0);
        assert_eq!(counter(daemon, "transport.flows_encrypted") > 0, is_secure);
    }
    drop(w.clients);
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
    w.counts
}

#[test]
fn random_calls_against_a_model() {
    walks(0, false);
}

#[test]
fn random_calls_against_a_model_where_flows_are_encrypted() {
    walks(SEEDS, true);
}

fn walks(first: u64, is_secure: bool) {
    if let Some(seed) = std::env::var("BAREWIRE_SEED").ok().and_then(|s| s.parse().ok()) {
        println!("{:?}", walk(seed, is_secure));
        return;
    }
    let mut all: HashMap<&'static str, u64> = HashMap::new();
    for seed in first..first + SEEDS {
        for (what, n) in walk(seed, is_secure) {
            *all.entry(what).or_default() += n;
        }
    }
    println!("{all:?}");
    // The walk goes everywhere.
    for what in [
        "sent",
        "received",
        "refused: full",
        "refused: no flow",
        "writable",
        "delivered",
        "undelivered",
        "connected",
        "connected at once",
        "given up",
        "cancelled",
        "ended",
    ] {
        assert!(all.get(what).is_some_and(|n| *n > 0), "never: {what}");
    }
}
