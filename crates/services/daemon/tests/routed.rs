//! Two daemons with a kernel's router between them: its far link carries less than the interfaces at the ends, and more again; its
//! MAC address becomes another. Flows go on.

#![allow(clippy::disallowed_methods, reason = "tests give up by the clock")]

mod common;

use barewire_base::Duration as Span;
use barewire_client::{Client, ConnectOptions, Event, FlowId};
use barewire_daemon::Daemon;
use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_testing::{Needs, have};
use common::*;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

const UDP_PORT: u16 = 888;

fn ip(at: &Namespace, args: &str) {
    let run = || Command::new("ip").args(args.split(' ')).output().unwrap();
    let out = at.enter(run).unwrap();
    assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Host `n` of its own network, with a router.
fn start(dir: &Folder, at: &Namespace, scheme: &str, n: u8) -> Daemon {
    let mut config = config(dir.path(), &format!("{scheme}:eth0"), n);
    config.interface.gateway4 = Some(Ipv4Addr::new(10, 0, n, 254));
    config.interface.ipv4 = vec![(Ipv4Addr::new(10, 0, n, n), 24)];
    config.interface.ipv6.clear();
    config.transport.mtu_raise = Span::from_millis(300);
    at.enter(|| Daemon::start(&config)).unwrap().unwrap()
}

/// Sends messages and takes their echoes; how long that took.
fn rounds(client: &mut Client, flow: FlowId, count: u64, len: usize) -> Duration {
    let begin = Instant::now();
    for i in 0..count {
        let sent = pattern(i, len);
        send(client, flow, &sent, &mut |_, event| panic!("{event:?}"));
        assert!(message(client) == sent, "an echo is not what was sent");
    }
    begin.elapsed()
}

fn goes_on(scheme: &str) {
    if have(Needs::Root, is_root_capable()).is_none() {
        return;
    }
    let dir = Folder::new("daemon");
    let [a, router, b] = [(); 3].map(|()| Namespace::anonymous().unwrap());
    VethPair::create(&a, "eth0", &router, "near", &LinkConfig::default()).unwrap();
    VethPair::create(&b, "eth0", &router, "far", &LinkConfig::default()).unwrap();
    for (at, name) in [(&a, "eth0"), (&b, "eth0"), (&router, "near"), (&router, "far")] {
        at.set_up(name).unwrap();
    }
    ip(&router, "addr add 10.0.1.254/24 dev near");
    ip(&router, "addr add 10.0.2.254/24 dev far");
    router.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
    // It carries no more either way, and says nothing of it.
    ip(&router, "link set far mtu 1400");
    let daemons = [start(&dir, &a, scheme, 1), start(&dir, &b, scheme, 2)];
    let mut server = attach(&daemons[1], "server");
    server.listen_wait(UDP_PORT, 0, PATIENCE).unwrap();
    let echo = std::thread::spawn(move || echo(&mut server));
    let mut client = attach(&daemons[0], "client");
    let to = (Ipv4Addr::new(10, 0, 2, 2), UDP_PORT).into();
    let flow = client.connect_wait(to, &ConnectOptions::default(), PATIENCE).unwrap();

    let took = rounds(&mut client, flow, 1, 50_000);
    println!("{scheme}: the first message over the narrow link and back took {took:?}");
    rounds(&mut client, flow, 300, 50_000);
    for daemon in &daemons {
        assert!(counter(daemon, "transport.mtu_black_holes") >= 1);
        assert!(counter(daemon, "transport.pieces_rx") > 0);
    }
    // It widens: pieces are no longer needed.
    ip(&router, "link set far mtu 1500");
    eventually("segments are whole again", || {
        let before = daemons.each_ref().map(|daemon| counter(daemon, "transport.pieces_tx"));
        rounds(&mut client, flow, 20, 50_000);
        before == daemons.each_ref().map(|daemon| counter(daemon, "transport.pieces_tx"))
    });
    // The router gets another card, and then the server does.
    for (at, name, mac) in [(&router, "near", "02:00:00:00:00:77"), (&router, "far", "02:00:00:00:00:78")] {
        let moved = || daemons.iter().map(|daemon| counter(daemon, "host.neighbours_moved")).sum::<u64>();
        let before = moved();
        ip(at, &format!("link set {name} address {mac}"));
        let took = rounds(&mut client, flow, 1, 5_000);
        println!("{scheme}: {name} has another MAC, a message and back took {took:?}");
        eventually("the new MAC is counted", || {
            rounds(&mut client, flow, 1, 100);
            moved() > before
        });
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
    rounds(&mut client, flow, 50, 50_000);
    client.close(flow).unwrap();
    loop {
        if let Event::Closed { flow: of, .. } = next_real(&mut client) {
            assert_eq!(of, flow);
            break;
        }
    }
    assert!(echo.join().unwrap() > 350);
    drop(client);
    for daemon in &daemons {
        is_empty_again(daemon);
    }
    daemons.into_iter().for_each(|daemon| daemon.stop().unwrap());
}

#[test]
fn flows_go_on_behind_a_router_over_packet() {
    goes_on("packet");
}

#[test]
fn flows_go_on_behind_a_router_over_xdp() {
    goes_on("xdp");
}
