//! A daemon with two interfaces, and what happens to one of them: down and up, deleted and made again, another MAC address, another
//! MTU. The other's flows go on, and those of this one go on when it is back; with one engine and with two, which share both interfaces.

mod common;

use barewire_client::{Client, ConnectOptions, FlowId};
use barewire_daemon::{Config, Daemon, PortSettings};
use barewire_engine::{now, open_port};
use barewire_frame::{Pool, PoolConfig};
use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_testing::{Needs, have};
use common::echo::{Server, rounds};
use common::*;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const UDP_PORT: u16 = 888;

fn host(net: u8, n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, net, 0, n)
}

struct Rig {
    middle: Daemon,
    ends: [Daemon; 2],
    /// Of the one with two interfaces.
    engines: u64,
    namespaces: [Namespace; 3],
    _dir: Folder,
}

/// How the daemon with two interfaces is made.
#[derive(Clone, Copy)]
struct Shape {
    scheme: &'static str,
    engines: u8,
    /// What follows the interface's name, for each.
    options: [&'static str; 2],
}

impl Shape {
    const fn of(scheme: &'static str, engines: u8) -> Shape {
        Shape { scheme, engines, options: [""; 2] }
    }

    fn port(&self, number: usize) -> String {
        format!("{}:eth{number}{}", self.scheme, self.options[number])
    }
}

fn named(dir: &Folder, port: &str, address: Ipv4Addr) -> Config {
    let mut config = Config::new(port, address, 24);
    config.name = format!("{}-{address}", dir.path().file_name().unwrap().to_string_lossy());
    config.socket = dir.file(format!("{address}.sock"));
    config
}

impl Rig {
    fn new(shape: Shape) -> Option<Rig> {
        Rig::with(shape, |_| ())
    }

    /// With something done to the interfaces before the daemon starts that has two.
    fn with(shape: Shape, before: impl FnOnce(&Namespace)) -> Option<Rig> {
        have(Needs::Root, is_root_capable())?;
        let dir = Folder::new("daemon");
        let namespaces = [(); 3].map(|()| Namespace::anonymous().unwrap());
        let [middle, left, right] = &namespaces;
        wire(middle, "eth0", left, shape.engines);
        wire(middle, "eth1", right, shape.engines);
        before(middle);
        let mut config = named(&dir, &shape.port(0), host(1, 1));
        config.ports = vec![PortSettings::new(&shape.port(1), host(2, 1), 24)];
        config.engines = shape.engines;
        let start = |at: &Namespace, config: &Config| at.enter(|| Daemon::start(config)).unwrap().unwrap();
        Some(Rig {
            middle: start(middle, &config),
            ends: [(left, 1), (right, 2)]
                .map(|(end, net)| start(end, &named(&dir, "packet:eth0", host(net, 2)))),
            engines: shape.engines.into(),
            namespaces,
            _dir: dir,
        })
    }

    /// Runs `ip` beside the daemon with two interfaces.
    fn ip(&self, args: &str) {
        ip(&self.namespaces[0], args);
    }

    /// What its engines counted together.
    fn count(&self, name: &str) -> u64 {
        sum(&self.middle, name)
    }
}

fn ip(at: &Namespace, args: &str) {
    let run = || Command::new("ip").args(args.split(' ')).output().unwrap();
    let out = at.enter(run).unwrap();
    assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
}

fn wire(middle: &Namespace, name: &str, end: &Namespace, queues: u8) {
    let link = LinkConfig { queues: queues.into(), ..LinkConfig::default() };
    VethPair::create(middle, name, end, "eth0", &link).unwrap();
    end.set_up("eth0").unwrap();
    middle.set_up(name).unwrap();
}

fn connect_to(client: &mut Client, net: u8) -> FlowId {
    let to = (host(net, 2), UDP_PORT).into();
    client.connect_wait(to, &ConnectOptions::default(), PATIENCE).unwrap()
}

fn one_interface_suffers(shape: Shape) {
    let Some(rig) = Rig::new(shape) else { return };
    let Shape { scheme, engines, .. } = shape;
    let servers = [&rig.ends[0], &rig.ends[1]].map(|daemon| Server::at(daemon, UDP_PORT));
    // With two engines, each has one of these.
    let (mut left, mut right) = (attach(&rig.middle, "left"), attach(&rig.middle, "right"));
    let (to_left, to_right) = (connect_to(&mut left, 1), connect_to(&mut right, 2));
    rounds(&mut left, to_left, 30, 5_000);
    rounds(&mut right, to_right, 30, 5_000);

    println!("{scheme}: eth1 is down");
    rig.ip("link set eth1 down");
    eventually("it is counted", || rig.count("port.1.link_downs") == rig.engines);
    right.send(to_right, &pattern(1, 5_000)).unwrap();
    rounds(&mut left, to_left, 100, 5_000);
    eventually("frames are lost there", || rig.count("port.1.drop.port_down") > 0);
    rig.ip("link set eth1 up");
    assert_eq!(message(&mut right), pattern(1, 5_000));
    rounds(&mut right, to_right, 30, 5_000);

    println!("{scheme}: eth1 has another MAC address");
    rig.ip("link set eth1 address 02:00:01:02:03:04");
    eventually("it is counted", || rig.count("port.1.mac_changes") == rig.engines);
    rounds(&mut left, to_left, 30, 5_000);
    rounds(&mut right, to_right, 30, 5_000);

    println!("{scheme}: eth1 is made again");
    rig.namespaces[0].delete_link("eth1").unwrap();
    right.send(to_right, &pattern(2, 5_000)).unwrap();
    rounds(&mut left, to_left, 30, 5_000);
    wire(&rig.namespaces[0], "eth1", &rig.namespaces[2], engines);
    assert_eq!(message(&mut right), pattern(2, 5_000));
    eventually("it is counted", || rig.count("port.1.reopened") == rig.engines);
    rounds(&mut right, to_right, 30, 5_000);

    println!("{scheme}: eth1 has a smaller MTU");
    rig.ip("link set eth1 mtu 1300");
    let mtu = || attach(&rig.middle, "asks for the MTU").mtu();
    eventually("it is told", || mtu() == 1300);
    rounds(&mut left, to_left, 30, 50_000);
    rounds(&mut right, to_right, 30, 50_000);

    // The first port has seen nothing of all this, and nobody spins.
    for name in ["link_downs", "mac_changes", "reopened", "mtu_changes", "drop.port_down"] {
        assert_eq!(rig.count(&format!("port.{name}")), 0, "{name}");
    }
    let cycles = || counter(&rig.middle, "engine.0.cycles");
    let before = cycles();
    std::thread::sleep(Duration::from_millis(300));
    assert!(cycles() - before < 30_000);
    drop((left, right, servers));
    is_empty_again(&rig.middle);
}

/// Takes an interface for itself, as another program would, until it is dropped.
struct Taken {
    let_go: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Taken {
    fn new(at: &Namespace, uri: &'static str) -> Taken {
        let ((let_go, until), (taken, is_taken)) = (channel::<()>(), channel());
        let thread = at.enter(|| {
            std::thread::spawn(move || {
                let pool = Pool::new(PoolConfig::default()).unwrap();
                let _port = open_port(&uri.parse().unwrap(), &pool).unwrap();
                taken.send(()).unwrap();
                let _ = until.recv();
            })
        });
        is_taken.recv().unwrap();
        Taken { let_go: Some(let_go), thread: Some(thread.unwrap()) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.let_go.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// When it comes back, another program has its XDP hook: the port waits for that, and the engine does not.
#[test]
fn a_port_that_cannot_be_opened_yet_holds_up_nobody() {
    let Some(rig) = Rig::new(Shape::of("xdp", 1)) else { return };
    let servers = [&rig.ends[0], &rig.ends[1]].map(|daemon| Server::at(daemon, UDP_PORT));
    let (mut left, mut right) = (attach(&rig.middle, "left"), attach(&rig.middle, "right"));
    let (to_left, to_right) = (connect_to(&mut left, 1), connect_to(&mut right, 2));
    rounds(&mut right, to_right, 10, 5_000);
    rig.namespaces[0].delete_link("eth1").unwrap();
    wire(&rig.namespaces[0], "other", &rig.namespaces[2], 1);
    let taken = Taken::new(&rig.namespaces[0], "xdp:other");
    rig.ip("link set other down");
    rig.ip("link set other name eth1");
    rig.ip("link set eth1 up");
    let (begin, mut longest) = (now(), Duration::ZERO);
    while Duration::from(now().since(begin)) < Duration::from_millis(1_500) {
        let start = now();
        rounds(&mut left, to_left, 5, 5_000);
        longest = longest.max(now().since(start).into());
    }
    println!("five rounds took {longest:?} at most");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert_eq!(rig.count("port.1.reopened"), 0);
    drop(taken);
    eventually("it is open again", || rig.count("port.1.reopened") == 1);
    drop((left, right));
    let mut right = attach(&rig.middle, "right");
    let to_right = connect_to(&mut right, 2);
    rounds(&mut right, to_right, 10, 5_000);
    drop((right, servers));
    is_empty_again(&rig.middle);
}

/// The second interface is down or not there when the daemon starts, comes later, and has an MTU for a while that is too small.
fn one_interface_comes_late(shape: Shape, is_there: bool) {
    let scheme = shape.scheme;
    let before = |middle: &Namespace| {
        ip(middle, "link set eth1 down");
        if !is_there {
            ip(middle, "link set eth1 name later");
        }
    };
    let Some(rig) = Rig::with(shape, before) else { return };
    let servers = [&rig.ends[0], &rig.ends[1]].map(|daemon| Server::at(daemon, UDP_PORT));
    let mut left = attach(&rig.middle, "left");
    let to_left = connect_to(&mut left, 1);
    rounds(&mut left, to_left, 30, 5_000);
    if !is_there {
        rig.ip("link set later name eth1");
    }
    assert_eq!(rig.count("port.1.reopened"), 0);
    rig.ip("link set eth1 up");
    eventually("it is open", || rig.count("port.1.reopened") == rig.engines);
    let mut right = attach(&rig.middle, "right");
    let to_right = connect_to(&mut right, 2);
    rounds(&mut right, to_right, 30, 5_000);

    println!("{scheme}: no message fits");
    rig.ip("link set eth1 mtu 100");
    eventually("it is counted", || rig.count("port.1.mtu_changes") == rig.engines);
    // Longer than what lasts only a moment.
    std::thread::sleep(Duration::from_millis(1_300));
    right.send(to_right, &pattern(1, 5_000)).unwrap();
    rounds(&mut left, to_left, 30, 5_000);
    eventually("what is sent is lost", || rig.count("stack.drop.port_down") > 0);
    rig.ip("link set eth1 mtu 1500");
    assert_eq!(message(&mut right), pattern(1, 5_000));
    rounds(&mut right, to_right, 30, 5_000);
    assert_eq!(rig.count("port.reopened"), 0);
    drop((left, right, servers));
    is_empty_again(&rig.middle);
}

#[test]
fn packet_late() {
    one_interface_comes_late(Shape::of("packet", 1), false);
}

#[test]
fn packet_with_engines_late() {
    one_interface_comes_late(Shape::of("packet", 2), false);
}

#[test]
fn xdp_late() {
    one_interface_comes_late(Shape::of("xdp", 1), true);
}

#[test]
fn xdp_with_engines_late() {
    one_interface_comes_late(Shape::of("xdp", 2), false);
}

#[test]
fn packet() {
    one_interface_suffers(Shape::of("packet", 1));
}

#[test]
fn packet_with_engines() {
    one_interface_suffers(DEALT);
}

#[test]
fn xdp() {
    one_interface_suffers(Shape::of("xdp", 1));
}

#[test]
fn xdp_with_engines() {
    one_interface_suffers(Shape::of("xdp", 2));
}

/// Two engines that share both interfaces; each frame comes in at one or the other in turns, whosever it is.
const DEALT: Shape = Shape {
    scheme: "packet",
    engines: 2,
    options: ["?fanout=1&fanout_mode=round_robin", "?fanout=2&fanout_mode=round_robin"],
};

/// Applications of both engines over both interfaces, as clients and as servers, and with each other.
fn engines_share_both(shape: Shape) {
    let Some(rig) = Rig::new(shape) else { return };
    let servers = [&rig.ends[0], &rig.ends[1]].map(|daemon| Server::at(daemon, UDP_PORT));
    // The engines have them in turns.
    let mut clients = [0, 1].map(|i| attach(&rig.middle, &format!("client {i}")));
    let served = [0, 1].map(|i| Server::at(&rig.middle, 900 + i));
    let mut flows = Vec::new();
    for (i, client) in clients.iter_mut().enumerate() {
        for net in [1, 2] {
            let flow = connect_to(client, net);
            rounds(client, flow, 60, 5_000);
            flows.push((i, flow));
        }
    }
    for (end, net) in [(&rig.ends[0], 1), (&rig.ends[1], 2)] {
        let mut client = attach(end, "client");
        for udp_port in [900, 901] {
            let to = (host(net, 1), udp_port).into();
            let flow = client.connect_wait(to, &ConnectOptions::default(), PATIENCE).unwrap();
            rounds(&mut client, flow, 60, 5_000);
        }
    }
    // From engine to engine, by the address of either port.
    for client in &mut clients {
        for to in [(1, 900), (1, 901), (2, 900), (2, 901)] {
            let to = (host(to.0, 1), to.1).into();
            let flow = client.connect_wait(to, &ConnectOptions::default(), PATIENCE).unwrap();
            rounds(client, flow, 5, 5_000);
        }
    }
    for engine in 0..rig.engines {
        for name in ["port.tx_frames", "port.1.tx_frames", "stack.forwarded"] {
            let count = counter(&rig.middle, &format!("{engine}.{name}"));
            assert!(count > 50, "{engine}.{name} is {count}");
        }
    }
    // Who has moved says so on its own wire, and one engine hears it there.
    for (net, end) in [(1, 1), (2, 2)] {
        ip(&rig.namespaces[end], &format!("link set eth0 address 02:00:01:02:04:0{net}"));
        for &(i, flow) in &flows {
            rounds(&mut clients[i], flow, 20, 5_000);
        }
    }
    drop((clients, served, servers));
    is_empty_again(&rig.middle);
}

#[test]
fn engines_share_both_interfaces_over_packet() {
    engines_share_both(DEALT);
}

#[test]
fn engines_share_both_interfaces_over_xdp() {
    engines_share_both(Shape::of("xdp", 2));
}
