//! Applications that outlive their daemon: it is killed or stopped under load, comes back, and no message is lost without a word, none
//! changes its place, and none comes twice but those of which the application was told that nobody knows.

mod common;

use barewire_client::security::{Peer, PrivateKey, REKEY_MIN, Security};
use barewire_client::{Client, ClientConfig, ConnectOptions, Event, FlowId, Inbound, SendError};
use barewire_daemon::{Config, Daemon};
use barewire_engine::{counters_path, now};
use common::child_daemon::ChildDaemon;
use common::*;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const MESSAGES: u64 = 18_000;
/// The daemon goes when so many messages were sent.
const GOES_AT: [u64; 2] = [1_500, 13_000];
/// Every tenth message asks for its fate.
const TOKENS: u64 = 10;
const UDP_PORT: u16 = 888;
/// Where the application that outlives its daemon listens.
const OWN_PORT: u16 = 700;

/// Takes messages until all numbers were there and the flow that brought the last one was closed; answers the first of all.
fn take_all(mut server: Client) -> Vec<(FlowId, u64)> {
    let (mut got, mut seen) = (Vec::new(), BTreeSet::new());
    loop {
        match next_real(&mut server) {
            Event::Message(m) => {
                let (flow, number) = (m.flow(), number_of(&server.to_vec(&m)));
                server.release(m);
                server.flush();
                if got.is_empty() {
                    server.send(flow, &message_of(number)).unwrap();
                }
                seen.insert(number);
                got.push((flow, number));
            }
            Event::Closed { .. } if seen.len() as u64 == MESSAGES => return got,
            _ => {}
        }
    }
}

/// The application of host 1.
struct Application {
    client: Client,
    flow: Option<FlowId>,
    next: u64,
    /// Told to be unconfirmed, and not sent again yet.
    again: VecDeque<Vec<u8>>,
    unconfirmed: BTreeSet<u64>,
    /// Tokens whose fate was told.
    told: BTreeSet<u64>,
    /// The first answer, which is read when the daemon that brought it is gone.
    held: Option<Inbound>,
    detached: usize,
    reattached: usize,
    listening: usize,
    /// What was announced and has to follow.
    to_come: (usize, usize),
    patience_ends: barewire_base::Instant,
}

impl Application {
    fn attach(socket: &Path) -> Application {
        let config =
            ClientConfig { socket: socket.to_owned(), reattach: true, ..ClientConfig::new("steady") };
        let mut client = Client::attach_with(&config).unwrap();
        client.listen(OWN_PORT, 9).unwrap();
        let mut application = Application {
            client,
            flow: None,
            next: 0,
            again: VecDeque::new(),
            unconfirmed: BTreeSet::new(),
            told: BTreeSet::new(),
            held: None,
            detached: 0,
            reattached: 0,
            listening: 0,
            to_come: (0, 0),
            patience_ends: now() + PATIENCE.into(),
        };
        application.connect();
        application
    }

    fn connect(&mut self) {
        self.client.connect(to(2, UDP_PORT), &ConnectOptions::default()).unwrap();
    }

    /// Sends one message, if there is one to send and a flow to send it on. False: events first.
    fn send(&mut self) -> bool {
        let Some(flow) = self.flow else { return false };
        let message = match self.again.front() {
            Some(message) => message.clone(),
            None if self.next < MESSAGES => message_of(self.next),
            None => return false,
        };
        let number = number_of(&message);
        let token = number.is_multiple_of(TOKENS).then_some(number);
        let sent = self.client.reserve(NUMBERED_LEN).and_then(|buf| {
            assert!(self.client.write(&buf, 0, &message));
            self.client.commit(flow, buf, token)
        });
        match sent {
            Ok(()) if self.again.is_empty() => self.next += 1,
            Ok(()) => drop(self.again.pop_front()),
            Err(SendError::WouldBlock) => return false,
            // An event says so, too.
            Err(SendError::DaemonGone | SendError::NoSuchFlow) => {
                self.flow = None;
                return false;
            }
            Err(e) => panic!("{e}"),
        }
        true
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Connected { flow, .. } => self.flow = Some(flow),
            // The other host may still be busy with the flow that was.
            Event::ConnectFailed { .. } => self.connect(),
            Event::Message(m) => {
                assert!(self.held.is_none(), "one answer");
                self.held = Some(m);
            }
            Event::Delivered { token, delivered, .. } => {
                assert!(delivered, "message {token}");
                assert!(self.told.insert(token), "message {token} twice");
            }
            Event::Detached { flows, unconfirmed } => {
                self.detached += 1;
                assert_eq!(self.to_come, (0, 0));
                self.to_come = (flows, unconfirmed);
                self.flow = None;
                assert!(self.client.is_detached());
                let refused = self.client.connect(to(2, UDP_PORT), &ConnectOptions::default());
                assert_eq!(refused, Err(SendError::DaemonGone));
            }
            Event::Unconfirmed { token, bytes, .. } => {
                let number = number_of(&bytes);
                assert_eq!(token, number.is_multiple_of(TOKENS).then_some(number));
                self.to_come.1 -= 1;
                self.unconfirmed.insert(number);
                self.again.push_back(bytes);
            }
            Event::Closed { .. } => {
                assert_eq!(self.to_come.1, 0, "messages are told of before their flow");
                self.to_come.0 -= 1;
            }
            Event::Reattached => {
                assert_eq!(self.to_come, (0, 0), "something was announced and did not come");
                self.reattached += 1;
                // What was sent before comes before what is sent from now on, in its order.
                let numbers: Vec<_> = self.again.iter().map(|m| number_of(m)).collect();
                assert!(numbers.is_sorted() && numbers.iter().all(|n| *n < self.next), "{numbers:?}");
                self.connect();
            }
            Event::Listening { token: 9, udp_port: OWN_PORT } => self.listening += 1,
            Event::Writable { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    /// Sends everything; `goes` makes the daemon go, `comes` starts it anew.
    fn run(&mut self, mut goes: impl FnMut(), mut comes: impl FnMut()) {
        let mut goes_at = GOES_AT.into_iter().peekable();
        loop {
            while self.send() {}
            self.client.flush();
            let is_there = self.detached == self.reattached && self.flow.is_some();
            // The answer has to come over the first daemon: one that is still under way would go with it.
            if is_there && self.held.is_some() && goes_at.next_if(|at| self.next >= *at).is_some() {
                goes();
                let before = self.detached;
                while self.detached == before || self.to_come != (0, 0) {
                    self.wait();
                }
                comes();
            } else if self.next == MESSAGES
                && self.again.is_empty()
                && self.client.sends_under_way() == 0
                && is_there
            {
                break;
            } else {
                self.wait();
            }
        }
        assert_eq!((self.detached, self.reattached), (GOES_AT.len(), GOES_AT.len()));
        while self.listening <= GOES_AT.len() {
            self.wait();
        }
    }

    /// The next event, if one comes soon: that a message without a token arrived is none.
    fn wait(&mut self) {
        assert!(now() < self.patience_ends, "it takes for ever");
        if let Some(event) = self.client.wait_event(Some(Duration::from_millis(10))).unwrap() {
            self.hear(event);
        }
    }
}

/// Runs the application against a server, and looks at what arrived.
fn outlives(here: &Daemon, socket: &Path, goes: impl FnMut(), comes: impl FnMut()) {
    let mut server = attach(here, "server");
    server.listen_wait(UDP_PORT, 0, PATIENCE).unwrap();
    let server = thread::spawn(move || take_all(server));
    let mut application = Application::attach(socket);
    application.run(goes, comes);
    // It came over the first daemon, two daemons ago.
    let held = application.held.take().expect("an answer to the first message");
    assert_eq!(application.client.to_vec(&held).len(), 0, "of the last daemon but one nothing is left");
    drop(held);
    application.client.close_and_wait(PATIENCE).unwrap();
    let got = server.join().unwrap();

    let all: BTreeSet<u64> = got.iter().map(|(_, number)| *number).collect();
    assert_eq!(all.len() as u64, MESSAGES, "a message is lost");
    let mut flows: Vec<FlowId> = got.iter().map(|(flow, _)| *flow).collect();
    flows.dedup();
    assert_eq!(flows.len(), GOES_AT.len() + 1, "one flow after the other");
    for flow in flows {
        let numbers: Vec<_> = got.iter().filter(|(f, _)| *f == flow).map(|(_, n)| *n).collect();
        assert!(numbers.windows(2).all(|w| w[0] < w[1]), "out of order");
    }
    let mut seen = BTreeSet::new();
    let twice: Vec<_> = got.iter().map(|(_, n)| *n).filter(|n| !seen.insert(*n)).collect();
    assert!(twice.iter().all(|n| application.unconfirmed.contains(n)), "twice without a word: {twice:?}");
    println!(
        "{} messages were unconfirmed when the daemon went, {} of them had arrived",
        application.unconfirmed.len(),
        twice.len()
    );
    assert!(!application.unconfirmed.is_empty(), "nothing was under way when the daemon went");
}

fn ports(dir: &Path, ours: u8, theirs: u8) -> String {
    format!("unix:{0}/{ours}.port,{0}/{theirs}.port", dir.display())
}

#[test]
fn a_daemon_that_is_killed_under_load_takes_no_message_along_without_a_word() {
    let dir = Folder::new("daemon");
    let here = Daemon::start(&config(dir.path(), &ports(dir.path(), 2, 1), 2)).unwrap();
    let name = format!("reattach-{}", std::process::id());
    let other = std::cell::RefCell::new(Some(ChildDaemon::start(dir.path(), &name)));
    let goes = || other.borrow_mut().take().unwrap().kill();
    let comes = || *other.borrow_mut() = Some(ChildDaemon::start(dir.path(), &name));
    outlives(&here, &dir.file("1.sock"), goes, comes);
    drop(other);
    here.stop().unwrap();
    let _ = std::fs::remove_file(counters_path(&name).unwrap());
}

/// Keys change as often as they may: every 8,192 packets.
fn encrypts(config: &mut Config, host: u8) {
    let key = |host: u8| PrivateKey::from_bytes([host; 32]);
    let mut security = Security::new(key(host));
    security.rekey = REKEY_MIN;
    let other = 3 - host;
    let addresses = vec![std::net::IpAddr::from(v4(other)).into()];
    assert!(security.trust(Peer { name: format!("host {other}"), key: key(other).public(), addresses }));
    config.transport.security = Some(Arc::new(security));
}

#[test]
fn keys_change_and_the_daemon_is_stopped_under_load() {
    let dir = Folder::new("daemon");
    let start = |ours: u8| {
        let mut config = config(dir.path(), &ports(dir.path(), ours, 3 - ours), ours);
        encrypts(&mut config, ours);
        Daemon::start(&config).unwrap()
    };
    let here = start(2);
    let there = std::cell::RefCell::new(Some(start(1)));
    let goes = || there.borrow_mut().take().unwrap().stop().unwrap();
    let comes = || *there.borrow_mut() = Some(start(1));
    outlives(&here, &dir.file("1.sock"), goes, comes);
    let rekeyed = counter(&here, "transport.packets_rx");
    assert!(rekeyed > MESSAGES, "{rekeyed} packets are too few for a change of keys");
    drop(there);
    here.stop().unwrap();
}

/// What came and was not read yet is there when the daemon is not, and when the next one is.
#[test]
fn a_message_that_was_not_read_outlives_the_daemon_that_brought_it() {
    let dir = Folder::new("daemon");
    let here = Daemon::start(&config(dir.path(), &ports(dir.path(), 2, 1), 2)).unwrap();
    let there = Daemon::start(&config(dir.path(), &ports(dir.path(), 1, 2), 1)).unwrap();
    let mut sender = attach(&here, "sender");
    let steady =
        ClientConfig { socket: there.socket().to_owned(), reattach: true, ..ClientConfig::new("steady") };
    let mut client = Client::attach_with(&steady).unwrap();
    let waker = client.waker().unwrap();
    client.listen_wait(OWN_PORT, 4, PATIENCE).unwrap();
    let flow = connect(&mut sender, to(1, OWN_PORT));
    sender.send(flow, &message_of(1)).unwrap();
    let old = accept(&mut client);
    let Event::Message(held) = next_real(&mut client) else { panic!("a message") };
    there.stop().unwrap();
    assert_eq!(next_real(&mut client), Event::Detached { flows: 1, unconfirmed: 0 });
    assert!(matches!(next_real(&mut client), Event::Closed { flow, .. } if flow == old));
    assert_eq!(number_of(&client.to_vec(&held)), 1);
    assert_eq!(client.send(old, b"lost"), Err(SendError::DaemonGone));
    // Nobody is there: a wait ends by its time, or by a ring.
    assert_eq!(client.wait_event(Some(Duration::from_millis(120))).unwrap(), None);
    waker.wake();
    assert_eq!(next_real(&mut client), Event::Woken);
    let there = Daemon::start(&config(dir.path(), &ports(dir.path(), 1, 2), 1)).unwrap();
    assert_eq!(next_real(&mut client), Event::Reattached);
    assert_eq!(next_real(&mut client), Event::Listening { token: 4, udp_port: OWN_PORT });
    assert_eq!(number_of(&client.to_vec(&held)), 1);
    client.release(held);
    waker.wake();
    assert_eq!(next_real(&mut client), Event::Woken, "the waker is the same");
    assert_eq!(
        client.send(old, b"lost"),
        Err(SendError::NoSuchFlow),
        "numbers of old flows name none of the new"
    );
    // The listener is there again.
    let flow = connect(&mut sender, to(1, OWN_PORT));
    sender.send(flow, &message_of(2)).unwrap();
    let new = accept(&mut client);
    assert_ne!(new, old);
    assert_eq!(number_of(&message(&mut client)), 2);
    drop(client);
    there.stop().unwrap();
    here.stop().unwrap();
}
