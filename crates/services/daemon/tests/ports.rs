//! A daemon with two ports between two daemons with one: flows choose by route, listeners by address, and neither port holds up the
//! other's flows.

mod common;

use barewire_client::{
    Client, ClientConfig, ConnectFailure, ConnectOptions, ConnectWaitError, Embedded, EmbeddedConfig, Event,
    FlowId,
};
use barewire_daemon::{Config, Daemon, DaemonError, PortSettings};
use barewire_engine::now;
use barewire_verbs::context::{self as rdma_context, ConnectTo, ContextError};
use common::echo::{Server, rounds};
use common::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const UDP_PORT: u16 = 888;

/// A host on network `net`.
fn host(net: u8, n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, net, 0, n)
}

fn at(net: u8, n: u8) -> SocketAddr {
    (host(net, n), UDP_PORT).into()
}

fn cable(dir: &Folder, net: u8) -> String {
    format!("mem:{}-{net}", dir.path().display())
}

/// A cable whose ends may be plugged in again: of host `n`, who is 1 or 2.
fn socket(dir: &Folder, net: u8, n: u8) -> String {
    let end = |n: u8| format!("{}/{net}-{n}.port", dir.path().display());
    format!("unix:{},{}", end(n), end(3 - n))
}

fn named(dir: &Folder, port: &str, address: Ipv4Addr) -> Config {
    let mut config = Config::new(port, address, 24);
    config.name = format!("{}-{address}", dir.path().file_name().unwrap().to_string_lossy());
    config.socket = dir.file(format!("{address}.sock"));
    config
}

/// Host 2 of a network.
fn end(dir: &Folder, net: u8) -> Daemon {
    Daemon::start(&named(dir, &cable(dir, net), host(net, 2))).unwrap()
}

/// The same at a cable that may be plugged in again.
fn socket_end(dir: &Folder, net: u8) -> Daemon {
    Daemon::start(&named(dir, &socket(dir, net, 2), host(net, 2))).unwrap()
}

fn between_sockets(dir: &Folder) -> Config {
    let mut config = named(dir, &socket(dir, 1, 1), host(1, 1));
    config.ports = vec![PortSettings::new(&socket(dir, 2, 1), host(2, 1), 24)];
    config
}

/// The one with two ports, host 1 of networks 1 and 2, as a configuration.
fn between(dir: &Folder) -> Config {
    let mut config = named(dir, &cable(dir, 1), host(1, 1));
    config.ports = vec![PortSettings::new(&cable(dir, 2), host(2, 1), 24)];
    config
}

fn connect_from(
    client: &mut Client,
    local: Option<IpAddr>,
    to: SocketAddr,
) -> Result<FlowId, ConnectFailure> {
    let options = ConnectOptions { local, ..ConnectOptions::default() };
    match client.connect_wait(to, &options, PATIENCE) {
        Ok(flow) => Ok(flow),
        Err(ConnectWaitError::Failed(why)) => Err(why),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn messages_go_both_ways_over_both_ports() {
    let dir = Folder::new("daemon");
    let (middle, left, right) = (Daemon::start(&between(&dir)).unwrap(), end(&dir, 1), end(&dir, 2));
    let servers = [&middle, &left, &right].map(|daemon| Server::at(daemon, UDP_PORT));
    let mut client = attach(&middle, "client");
    let ours: Vec<IpAddr> = [host(1, 1), host(2, 1)].map(IpAddr::from).to_vec();
    assert_eq!(client.addresses(), ours);
    for (net, daemon) in [(1, &left), (2, &right)] {
        let flow = connect_from(&mut client, None, at(net, 2)).unwrap();
        rounds(&mut client, flow, 50, 5_000);
        let mut other = attach(daemon, "other");
        let back = connect_from(&mut other, None, at(net, 1)).unwrap();
        rounds(&mut other, back, 50, 5_000);
        // The local address says which port: from the other one's there is no way.
        let local = IpAddr::from(host(net, 1));
        connect_from(&mut client, Some(local), at(net, 2)).unwrap();
        let failed = connect_from(&mut client, Some(local), at(3 - net, 2));
        assert_eq!(failed, Err(ConnectFailure::Unreachable));
    }
    assert_eq!(connect_from(&mut client, None, at(3, 2)), Err(ConnectFailure::Unreachable));
    // Both addresses are here.
    for net in [1, 2] {
        let flow = connect_from(&mut client, None, at(net, 1)).unwrap();
        rounds(&mut client, flow, 5, 5_000);
    }
    eventually("frames are counted port by port", || {
        let of = counters(&middle);
        let frames = ["port.tx_frames", "port.rx_frames", "port.1.tx_frames", "port.1.rx_frames"];
        frames.iter().all(|name| of[*name] >= 200)
    });
    for name in ["host.neighbours_resolved", "host.1.neighbours_resolved"] {
        assert!(counter(&middle, name) >= 1, "{name}");
    }
    drop(client);
    drop(servers);
    for daemon in [middle, left, right] {
        is_empty_again(&daemon);
        daemon.stop().unwrap();
    }
}

#[test]
fn a_daemon_that_sleeps_wakes_for_either_port() {
    let dir = Folder::new("daemon");
    let (middle, left, right) = (Daemon::start(&between(&dir)).unwrap(), end(&dir, 1), end(&dir, 2));
    let _server = Server::at(&middle, UDP_PORT);
    for (net, daemon) in [(1, &left), (2, &right)] {
        let mut client = attach(daemon, "client");
        let flow = connect_from(&mut client, None, at(net, 1)).unwrap();
        let mut times = Vec::new();
        for i in 0..30 {
            std::thread::sleep(Duration::from_millis(15));
            let start = now();
            client.send(flow, &pattern(i, 100)).unwrap();
            assert_eq!(message(&mut client), pattern(i, 100));
            times.push(now().since(start));
        }
        times.sort_unstable();
        println!("network {net}: there and back through everybody's sleep: median {}", times[15]);
        // A lost wake-up waits for a time-out of the client's, and then for the engine's next timer.
        assert!(times[15] < barewire_base::Duration::from_millis(20), "{times:?}");
    }
    eventually("it sleeps", || counter(&middle, "engine.0.parks") > 30);
}

#[test]
fn a_listener_is_on_all_ports_or_on_one() {
    let dir = Folder::new("daemon");
    let (middle, left, right) = (Daemon::start(&between(&dir)).unwrap(), end(&dir, 1), end(&dir, 2));
    let mut one = attach(&middle, "at one address");
    one.listen_on_wait(host(2, 1).into(), UDP_PORT, 0, PATIENCE).unwrap();
    let mut other = attach(&middle, "other");
    for refused in [
        other.listen_wait(UDP_PORT, 0, PATIENCE),
        other.listen_on_wait(host(2, 1).into(), UDP_PORT, 0, PATIENCE),
        other.listen_on_wait(host(2, 2).into(), UDP_PORT + 1, 0, PATIENCE),
    ] {
        assert!(matches!(refused, Err(ConnectWaitError::Failed(ConnectFailure::Refused))), "{refused:?}");
    }
    let (mut from_left, mut from_right) = (attach(&left, "left"), attach(&right, "right"));
    assert_eq!(connect_from(&mut from_left, None, at(1, 1)), Err(ConnectFailure::Refused));
    connect_from(&mut from_right, None, at(2, 1)).unwrap();
    assert!(matches!(accept(&mut one), FlowId { .. }));
    // The other address of that UDP port is another application's.
    other.listen_on_wait(host(1, 1).into(), UDP_PORT, 0, PATIENCE).unwrap();
    connect_from(&mut from_left, None, at(1, 1)).unwrap();
    accept(&mut other);
    other.unlisten(UDP_PORT).unwrap();
    eventually("it does not listen any more", || counter(&middle, "transport.listeners") == 1);
    assert_eq!(connect_from(&mut from_left, None, at(1, 1)), Err(ConnectFailure::Refused));
    drop(one);
    eventually("nor does the one", || counter(&middle, "transport.listeners") == 0);
    // An unspecified address is every address.
    other.listen_on_wait(Ipv4Addr::UNSPECIFIED.into(), UDP_PORT, 0, PATIENCE).unwrap();
    connect_from(&mut from_left, None, at(1, 1)).unwrap();
    connect_from(&mut from_right, None, at(2, 1)).unwrap();
}

#[test]
fn a_listener_is_at_its_address_again_after_the_daemon() {
    let dir = Folder::new("daemon");
    let middle = Daemon::start(&between_sockets(&dir)).unwrap();
    let (left, right) = (socket_end(&dir, 1), socket_end(&dir, 2));
    let mut config = ClientConfig::new("stays");
    (config.socket, config.reattach) = (middle.socket().to_owned(), true);
    let mut client = Client::attach_with(&config).unwrap();
    client.listen_on_wait(host(2, 1).into(), UDP_PORT, 7, PATIENCE).unwrap();
    middle.stop().unwrap();
    let _middle = Daemon::start(&between_sockets(&dir)).unwrap();
    loop {
        match next(&mut client) {
            Event::Listening { token: 7, udp_port: UDP_PORT } => break,
            Event::Detached { .. } | Event::Reattached => {}
            event => panic!("{event:?}"),
        }
    }
    let (mut from_left, mut from_right) = (attach(&left, "left"), attach(&right, "right"));
    assert_eq!(connect_from(&mut from_left, None, at(1, 1)), Err(ConnectFailure::Refused));
    connect_from(&mut from_right, None, at(2, 1)).unwrap();
}

/// A second listener on the same UDP port is refused, and the first one is where it was, also at the next daemon.
#[test]
fn a_listener_that_is_refused_moves_no_other() {
    let dir = Folder::new("daemon");
    let middle = Daemon::start(&between_sockets(&dir)).unwrap();
    let mut config = ClientConfig::new("stays");
    (config.socket, config.reattach) = (middle.socket().to_owned(), true);
    let mut client = Client::attach_with(&config).unwrap();
    client.listen_on(host(1, 1).into(), UDP_PORT, 7).unwrap();
    client.listen_on(host(2, 1).into(), UDP_PORT, 8).unwrap();
    assert!(matches!(next(&mut client), Event::Listening { token: 7, .. }));
    assert!(matches!(next(&mut client), Event::ListenFailed { token: 8, .. }));
    // Taken back before anybody has answered: nothing that a later daemon should hear of.
    client.listen(UDP_PORT + 1, 9).unwrap();
    client.unlisten(UDP_PORT + 1).unwrap();
    assert!(matches!(next(&mut client), Event::Listening { token: 9, .. }));
    middle.stop().unwrap();
    let middle = Daemon::start(&between_sockets(&dir)).unwrap();
    loop {
        match next(&mut client) {
            Event::Listening { token: 7, udp_port: UDP_PORT } => break,
            Event::Detached { .. } | Event::Reattached => {}
            event => panic!("{event:?}"),
        }
    }
    let mut other = attach(&middle, "other");
    connect_from(&mut other, None, at(1, 1)).unwrap();
    assert_eq!(connect_from(&mut other, None, at(2, 1)), Err(ConnectFailure::Refused));
    let free = SocketAddr::from((host(1, 1), UDP_PORT + 1));
    assert_eq!(connect_from(&mut other, None, free), Err(ConnectFailure::Refused));
}

/// A peer that stops reading: its cable fills up with what is sent again and again, and the other port goes on.
#[test]
fn a_port_whose_peer_does_not_read_holds_up_nobody_else() {
    let dir = Folder::new("daemon");
    let mut config = between(&dir);
    config.ports[0].port += "?slots=8";
    let (middle, left) = (Daemon::start(&config).unwrap(), end(&dir, 1));
    let mut right = Embedded::open(&EmbeddedConfig::new(&cable(&dir, 2), host(2, 2))).unwrap();
    right.listen(UDP_PORT, 0).unwrap();
    let _server = Server::at(&left, UDP_PORT);
    let _stuck = stuck(&middle, &mut right);
    eventually("its cable is full", || counter(&middle, "port.1.tx_full") > 0);
    let mut client = attach(&middle, "client");
    let flow = connect_from(&mut client, None, at(1, 2)).unwrap();
    let (full, begin) = (counter(&middle, "port.1.tx_full"), now());
    rounds(&mut client, flow, 300, 5_000);
    println!("300 messages there and back in {}", now().since(begin));
    eventually("the other cable is full still", || counter(&middle, "port.1.tx_full") > full);
    assert_eq!(counter(&middle, "port.tx_full"), 0);
    sleeps_most_of_the_time(&middle);
}

/// An application whose peer, `right`, does not read from now on. What is under way to it is more than its cable holds.
fn stuck(middle: &Daemon, right: &mut Embedded) -> Client {
    let mut stuck = attach(middle, "stuck");
    for token in 0..20 {
        stuck.connect(at(2, 2), &ConnectOptions { token, ..ConnectOptions::default() }).unwrap();
    }
    let mut flows = Vec::new();
    eventually("it is connected", || {
        right.poll().unwrap();
        while let Some(event) = stuck.next_event() {
            match event {
                Event::Connected { flow, .. } => flows.push(flow),
                event => panic!("{event:?}"),
            }
        }
        flows.len() == 20
    });
    for flow in flows {
        stuck.send(flow, &pattern(1, 50_000)).unwrap();
    }
    stuck
}

/// An engine with nothing to do but to ask a full port again does not keep a core busy with that.
fn sleeps_most_of_the_time(daemon: &Daemon) {
    let seen = || (counter(daemon, "engine.0.cycles"), counter(daemon, "engine.0.parks"));
    eventually("it sleeps between two attempts", || {
        let before = seen();
        std::thread::sleep(Duration::from_millis(300));
        let after = seen();
        let (cycles, parks) = (after.0 - before.0, after.1 - before.1);
        println!("{cycles} cycles and {parks} sleeps in 300 ms");
        cycles < 20 * parks && parks > 30
    });
}

#[test]
fn an_engine_whose_only_port_is_full_sleeps() {
    let dir = Folder::new("daemon");
    let middle = Daemon::start(&named(&dir, &format!("{}?slots=8", cable(&dir, 2)), host(2, 1))).unwrap();
    let mut right = Embedded::open(&EmbeddedConfig::new(&cable(&dir, 2), host(2, 2))).unwrap();
    right.listen(UDP_PORT, 0).unwrap();
    let _stuck = stuck(&middle, &mut right);
    eventually("its cable is full", || counter(&middle, "port.tx_full") > 0);
    sleeps_most_of_the_time(&middle);
}

/// The daemon at one cable's end goes and comes back: that wire is cut, and the other is not.
#[test]
fn a_wire_that_is_cut_is_no_matter_of_the_others() {
    let dir = Folder::new("daemon");
    let middle = Daemon::start(&between_sockets(&dir)).unwrap();
    let (left, mut right) = (socket_end(&dir, 1), socket_end(&dir, 2));
    let _server = Server::at(&left, UDP_PORT);
    let mut client = attach(&middle, "client");
    let to_left = connect_from(&mut client, None, at(1, 2)).unwrap();
    // Announcements, before anybody was there.
    let before = counter(&middle, "port.drop.port_down");
    for round in 0..3 {
        let server = Server::at(&right, UDP_PORT);
        let mut over = attach(&middle, "over the cut wire");
        let to_right = connect_from(&mut over, None, at(2, 2)).unwrap();
        rounds(&mut over, to_right, 20, 5_000);
        let lost = counter(&middle, "port.1.drop.port_down");
        drop(right);
        drop(server);
        // Nobody is there to take it.
        over.connect(at(2, 2), &ConnectOptions::default()).unwrap();
        eventually("frames are lost on the cut wire", || counter(&middle, "port.1.drop.port_down") > lost);
        rounds(&mut client, to_left, 50, 5_000);
        right = socket_end(&dir, 2);
        println!("round {round}: cut and back");
    }
    assert_eq!(counter(&middle, "port.drop.port_down"), before);
    let _server = Server::at(&right, UDP_PORT);
    connect_from(&mut client, None, at(2, 2)).unwrap();
}

#[test]
fn the_least_mtu_is_told_and_each_port_has_its_own() {
    let dir = Folder::new("daemon");
    let mut config = between(&dir);
    config.ports[0].mtu = 900;
    let (middle, left, right) = (Daemon::start(&config).unwrap(), end(&dir, 1), end(&dir, 2));
    let _servers = [&left, &right].map(|daemon| Server::at(daemon, UDP_PORT));
    let mut client = attach(&middle, "client");
    assert_eq!(client.mtu(), 900);
    for net in [1, 2] {
        let flow = connect_from(&mut client, None, at(net, 2)).unwrap();
        rounds(&mut client, flow, 20, 100_000);
    }
    eventually("all is counted", || counter(&middle, "transport.messages_under_way") == 0);
    let of = counters(&middle);
    let longest = |port: &str| of[&format!("{port}.tx_bytes")] / of[&format!("{port}.tx_frames")];
    // Acknowledgements are among them.
    let (wide, narrow) = (longest("port"), longest("port.1"));
    assert!(wide > 914 && narrow <= 914, "{wide} and {narrow} bytes a frame");
}

#[test]
fn rdma_is_on_the_first_port() {
    let dir = Folder::new("daemon");
    let mut config = between(&dir);
    config.rdma.enabled = true;
    let middle = Daemon::start(&config).unwrap();
    let mut left = named(&dir, &cable(&dir, 1), host(1, 2));
    left.rdma.enabled = true;
    let (left, _right) = (Daemon::start(&left).unwrap(), end(&dir, 2));
    let (mut a, mut b) = (rdma::End::new(&middle, "a", 4096), rdma::End::new(&left, "b", 4096));
    let to = |net: u8, local| ConnectTo { local, ..ConnectTo::new(host(net, 2).into(), 50) };
    for to in [to(1, Some(host(2, 1).into())), to(2, Some(host(2, 1).into())), to(2, None)] {
        let failed = a.context.connect(a.qp, &to, PATIENCE);
        assert!(matches!(failed, Err(ContextError::Unreachable)), "{failed:?}");
    }
    let listener = b.context.listen(50, 16).unwrap();
    a.context.start_connect(a.qp, &to(1, None), PATIENCE).unwrap();
    let request = b.context.get_request(listener, PATIENCE).unwrap();
    b.context.accept(&request, b.qp, &[]).unwrap();
    let event = a.context.wait_event(PATIENCE).unwrap();
    assert!(matches!(event, rdma_context::Event::Connected { .. }), "{event:?}");
}

#[test]
fn what_cannot_be_served_together_is_refused() {
    let dir = Folder::new("daemon");
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = between(&dir);
        change(&mut config);
        match Daemon::start(&config) {
            Err(e @ DaemonError::Config(_)) => e.to_string(),
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("it started"),
        }
    };
    let engines = refused(&|c| c.engines = 2);
    // Memory ports have one socket.
    assert!(engines.contains("daemon.engines") && engines.contains("several sockets can share"), "{engines}");
    let twice = refused(&|c| c.ports[0].ipv4.push((host(1, 1), 32)));
    assert!(twice.contains("10.1.0.1") && twice.contains("has this address, too"), "{twice}");
    let network = refused(&|c| c.ports[0].ipv4.push((host(1, 7), 24)));
    assert!(network.contains("10.1.0.0/24") && network.contains("longer prefix"), "{network}");
}
