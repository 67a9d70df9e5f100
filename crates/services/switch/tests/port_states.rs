//! Whether ports work: what is told when they come, go, fail and are well again.

mod common;

use barewire_base::{Duration as Span, Instant};
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_port::{Port, PortCaps, PortCounters, PortError, PortUri};
use barewire_switch::control::{Notification, Switch};
use barewire_switch::datapath::Output;
use barewire_switch::ports::Ports;
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Server, ServerConfig};
use barewire_testing::{Needs, have};
use common::*;
use std::cell::Cell;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::Receiver;

/// A port that fails as often as it is told to, and else does what another does.
struct Flaky {
    inner: Box<dyn Port>,
    failures: Rc<Cell<u32>>,
}

impl Port for Flaky {
    fn caps(&self) -> &PortCaps {
        self.inner.caps()
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        if self.failures.get() > 0 {
            self.failures.set(self.failures.get() - 1);
            let source = std::io::Error::from(std::io::ErrorKind::NetworkDown);
            return Err(PortError::Down { port: "flaky".to_owned(), source });
        }
        self.inner.rx_burst(now, burst)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.inner.tx_burst(now, burst)
    }

    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }
}

/// Ports 7, which fails as often as told, and 8, which does not.
struct Bed {
    ports: Ports,
    failures: Rc<Cell<u32>>,
    pool: Pool,
    now: Instant,
}

impl Bed {
    fn new(name: &str) -> Bed {
        let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).expect("frames");
        let failures = Rc::new(Cell::new(0));
        let mut bed = Bed { ports: Ports::new(None), failures, pool, now: Instant::ZERO };
        let steady = bed.open(&format!("mem:{name}-8"));
        bed.add_flaky(name);
        bed.ports.add_open(8, "steady".to_owned(), steady);
        bed
    }

    fn open(&self, uri: &str) -> Box<dyn Port> {
        barewire_engine::open_port(&uri.parse::<PortUri>().expect("a URI"), &self.pool).expect("a port")
    }

    fn add_flaky(&mut self, name: &str) {
        let inner = self.open(&format!("mem:{name}-7"));
        let port = Flaky { inner, failures: Rc::clone(&self.failures) };
        self.ports.add_open(7, "flaky".to_owned(), Box::new(port));
    }

    /// Receive from all, a second later: what is told then.
    fn look(&mut self) -> Vec<(u32, bool)> {
        self.now += Span::from_secs(1);
        let mut burst = Burst::new();
        for at in 0..self.ports.slots().len() {
            self.ports.receive(at, self.now, &mut burst);
            burst.clear();
        }
        self.ports.flush(self.now);
        self.ports.changes().collect()
    }

    fn ups(&self) -> Vec<(u32, bool)> {
        self.ports.slots().iter().map(|slot| (slot.number(), slot.is_up())).collect()
    }
}

/// Whoever watches a port by its number has to know that it is another one.
#[test]
fn ports_that_come_and_go_are_told() {
    let mut bed = Bed::new("states-told");
    assert_eq!(bed.look(), [(7, true), (8, true)]);
    assert_eq!(bed.look(), []);
    bed.failures.set(1);
    assert_eq!(bed.look(), [(7, false)]);
    assert!(bed.ports.remove(7));
    assert_eq!(bed.look(), [(7, false)]);
    bed.add_flaky("states-told");
    assert_eq!(bed.look(), [(7, true)]);
    assert_eq!(bed.ups(), [(8, true), (7, true)]);
    assert!(!bed.ports.remove(9));
    assert_eq!(bed.look(), []);
}

/// A port that fails is down until it shows that it works; each change is told once. A socket whose interface went down
/// fails once, and is silent from then on.
#[test]
fn a_port_that_failed_is_down_until_it_is_seen_to_work() {
    let name = "states-failed";
    let mut bed = Bed::new(name);
    bed.look();
    let mut far = bed.open(&format!("mem:{name}-7"));
    let mut burst = Burst::new();
    for failures in [1, 5] {
        bed.failures.set(failures);
        assert_eq!(bed.look(), [(7, false)]);
        for _ in 0..100 {
            assert_eq!(bed.look(), [], "silence is no sign of life");
        }
        assert_eq!(bed.ups(), [(7, false), (8, true)]);
        burst.push(bed.pool.alloc_from(&ethernet(1, 2, 60)).expect("a frame")).expect("room");
        far.tx_burst(bed.now, &mut burst).expect("memory");
        assert_eq!(bed.look(), [(7, true)], "a frame came");
    }
    bed.failures.set(1);
    assert_eq!(bed.look(), [(7, false)]);
    let frame = bed.pool.alloc_from(&ethernet(1, 2, 60)).expect("a frame");
    bed.ports.push(7, frame);
    assert_eq!(bed.look(), [(7, true)], "a frame went out");
    // One that nobody takes is dropped, which is no sign of life.
    bed.failures.set(1);
    assert_eq!(bed.look(), [(7, false)]);
    far.rx_burst(bed.now, &mut burst).expect("memory");
    burst.clear();
    drop(far);
    let frame = bed.pool.alloc_from(&ethernet(1, 2, 60)).expect("a frame");
    bed.ports.push(7, frame);
    assert_eq!(bed.look(), []);
}

/// Wait until this is told of ports.
fn hear(heard: &Receiver<Notification>, wanted: (u32, bool), what: &str) {
    let mut told = Vec::new();
    while !told.contains(&wanted) {
        match heard.recv_timeout(PATIENCE) {
            Ok(Notification::Port { port, up }) => told.push((port, up)),
            Ok(_) => {}
            Err(_) => panic!("{what}: {wanted:?} is not told, but {told:?}"),
        }
    }
}

#[test]
fn subscribers_hear_of_ports_that_come_and_go() {
    let name = "states-heard";
    let server =
        Server::start(config(name, &[1, 2], 64), Some(ready(STAMP_1, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let heard = switch.subscribe(64);
    switch.remove_port(2).expect("it is there");
    switch.add_port(2, &uri(name, 2, 64)).expect("it may come again");
    let news: Vec<Notification> = heard.try_iter().collect();
    let told = |up| Notification::Port { port: 2, up };
    assert_eq!(news, [told(false), told(true)], "and nothing of the start");
    server.stop().expect("the engine is well");
}

/// The same with an interface: its own state says whether the port is up.
#[test]
fn an_interface_that_is_down_stays_down_until_it_is_up() {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    for uri in ["packet:sw1", "packet:sw1?tx=0", "trace+packet:sw1?trace=/dev/null"] {
        let space = Namespace::anonymous().expect("a namespace");
        make(&space);
        space.enter(|| an_interface(&space, uri)).expect("the namespace");
    }
}

fn make(space: &Namespace) {
    let link = LinkConfig { offloads: false, ..LinkConfig::default() };
    VethPair::create(space, "sw1", space, "h1", &link).expect("a wire");
    for name in ["sw1", "h1"] {
        space.set_up(name).expect("up");
    }
    for name in ["sw1", "h1"] {
        space.wait_running(name).expect("it runs");
    }
}

/// In the namespace of the calling thread.
fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {words}");
}

fn is_up(switch: &Switch, port: u32) -> bool {
    switch.ports().iter().find(|info| info.port == port).expect("it is there").up
}

fn an_interface(space: &Namespace, uri_1: &str) {
    let name = format!("states-{}", uri_1.len());
    let config =
        ServerConfig { ports: vec![(1, uri_1.to_owned()), (2, uri(&name, 2, 64))], ..config(&name, &[], 64) };
    let server = Server::start(config, Some(ready(STAMP_1, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let heard = switch.subscribe(1024);
    let mut output = Wire::open(&uri(&name, 2, 64));
    // A packet from the wire gets through.
    let mut passes = || {
        let mut input = Wire::open("packet:h1");
        let (patience, mut came) = (Patience::new(), false);
        while !came {
            input.send_now(&ethernet(0x0200_0000_0001, 0x77, 60));
            output.receive(|packet| came |= packet[14..20] == [0; 6] && packet.len() == 60);
            patience.wait("nothing comes through");
        }
    };
    passes();
    for _ in 0..2 {
        ip("link set sw1 down");
        hear(&heard, (1, false), uri_1);
        // Longer than the switch takes to look again.
        let end = until(std::time::Duration::from_millis(2500));
        while now() < end {
            assert!(!is_up(switch, 1), "{uri_1}: the interface is down");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(heard.try_iter().all(|news| !matches!(news, Notification::Port { .. })), "{uri_1}");
        ip("link set sw1 up");
        hear(&heard, (1, true), uri_1);
        assert!(is_up(switch, 1));
        passes();
    }
    // One that is made anew under its name is another one: the port stands on it from then on.
    space.delete_link("sw1").expect("it is there");
    hear(&heard, (1, false), uri_1);
    make(space);
    hear(&heard, (1, true), uri_1);
    passes();
    server.stop().expect("the engine is well");
}
