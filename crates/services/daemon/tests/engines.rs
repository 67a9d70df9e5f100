//! Several engines on one interface: whichever queue a frame comes in on, it reaches its flow.

mod common;
use barewire_client::{CloseReason, ConnectOptions, Event};
use barewire_daemon::Daemon;
use barewire_netns::{LinkConfig, TwoHosts, TwoHostsConfig, is_root_capable};
use barewire_testing::{Needs, have};
use common::*;
use std::net::SocketAddr;

const MESSAGES: u64 = 200;

/// The engines of either daemon, and the link between their hosts.
struct Shape {
    engines: u8,
    mtu: u16,
    vlan: Option<u16>,
    /// Bytes of a message.
    len: u64,
    /// The port of a host's interface.
    port: fn(host: u8, interface: &str) -> String,
}

/// Dealt out in turns: two of three frames come to an engine that does not own their flow.
const DEALT: Shape = Shape {
    engines: 3,
    mtu: 1500,
    vlan: None,
    len: 3_000,
    port: |host, interface| format!("packet:{interface}?fanout={host}&fanout_mode=round_robin"),
};

#[test]
fn frames_dealt_out_at_random_all_arrive() {
    if have(Needs::Root, is_root_capable()).is_some() {
        all_arrive(&DEALT);
    }
}

#[test]
fn long_frames_and_tagged_ones_arrive_too() {
    if have(Needs::Root, is_root_capable()).is_some() {
        all_arrive(&Shape { mtu: 9000, vlan: Some(7), len: 20_000, ..DEALT });
    }
}

/// A queue of `xdp:` for each engine, one XDP program for all. A veth's frame comes in on the queue on which it was sent, so what one
/// engine says to the next one comes to the wrong one, always.
#[test]
fn each_engine_has_a_queue_of_an_interface_that_loses_frames() {
    if have(Needs::Xdp, barewire_netns::is_root_capable()).is_none() {
        return;
    }
    for engines in [1, 2, 4] {
        let port = |host, interface: &str| format!("fault+xdp:{interface}?loss=0.05&seed={host}");
        all_arrive(&Shape { engines, port, ..DEALT });
    }
}

#[test]
fn more_engines_than_queues_are_refused_in_words() {
    if have(Needs::Xdp, is_root_capable()).is_none() {
        return;
    }
    let hosts = TwoHosts::create(&TwoHostsConfig { label: None, ..TwoHostsConfig::default() }).unwrap();
    let dir = Folder::new("daemon");
    let mut config = config(dir.path(), &format!("xdp:{}", hosts.eth_a.name), 1);
    config.engines = 2;
    let why = match hosts.ns_a.enter(|| Daemon::start(&config)).unwrap() {
        Ok(_) => panic!("one queue for two engines"),
        Err(e) => e.to_string(),
    };
    assert!(why.contains("2 engines on 1 receive queues") && why.contains("hint: more queues"), "{why}");
}

/// Echoes of messages, and conversations from engine to engine.
fn all_arrive(shape: &Shape) {
    let Shape { engines, mtu, vlan, len, port } = *shape;
    let link = LinkConfig { mtu: u32::from(mtu), queues: u32::from(engines), ..LinkConfig::default() };
    let hosts = TwoHosts::create(&TwoHostsConfig { label: None, link, ..TwoHostsConfig::default() }).unwrap();
    let dir = Folder::new("daemon");
    let start = |host: u8| {
        let (ns, eth) = if host == 1 { (&hosts.ns_a, &hosts.eth_a) } else { (&hosts.ns_b, &hosts.eth_b) };
        let mut config = config(dir.path(), &port(host, &eth.name), host);
        config.interface.ipv4 = vec![(eth.v4, 24)];
        config.engines = engines;
        (config.interface.vlan, config.interface.mtu) = (vlan, mtu);
        if mtu > 1500 {
            config.pool.chunk_len = 16_384;
        }
        ns.enter(|| Daemon::start(&config)).unwrap().unwrap()
    };
    let (a, b) = (start(1), start(2));

    // One application on each engine of either daemon.
    let mut servers: Vec<_> = (0..engines).map(|i| attach(&b, &format!("server {i}"))).collect();
    for (i, server) in servers.iter_mut().enumerate() {
        server.listen_wait(900 + i as u16, 0, PATIENCE).unwrap();
        assert!(server.listen_wait(900, 0, PATIENCE).is_err(), "a port has one listener over all engines");
    }
    let echo = std::thread::spawn(move || {
        let mut left = u64::from(engines) * MESSAGES;
        while left > 0 {
            for server in &mut servers {
                while let Some(event) = server.next_event() {
                    if let Event::Message(message) = event {
                        let (flow, bytes) = (message.flow(), server.to_vec(&message));
                        server.release(message);
                        server.send(flow, &bytes).unwrap();
                        left -= 1;
                    }
                }
                server.flush();
            }
            std::thread::yield_now();
        }
        servers
    });
    let mut clients: Vec<_> = (0..engines).map(|i| attach(&a, &format!("client {i}"))).collect();
    // The server on the next engine: over queues that follow their sender, frames come in on another's.
    let remote = |i: usize| SocketAddr::from((hosts.eth_b.v4, 900 + (i as u16 + 1) % u16::from(engines)));
    for (i, client) in clients.iter_mut().enumerate() {
        let flow = client.connect_wait(remote(i), &ConnectOptions::default(), PATIENCE).unwrap();
        for n in 0..MESSAGES {
            let message: Vec<u8> = (0..len).map(|b| (b ^ n) as u8).collect();
            client.send(flow, &message).unwrap();
            let reply = loop {
                match client.wait_event(Some(PATIENCE)).unwrap() {
                    Some(Event::Message(reply)) => break reply,
                    Some(_) => {}
                    None => panic!("message {n} of client {i} was not answered"),
                }
            };
            assert_eq!(client.to_vec(&reply), message);
            client.release(reply);
        }
    }
    let servers = echo.join().unwrap();

    // From engine to engine within one host: nothing goes out, and frames change hands all the same.
    let mut other = attach(&b, "neighbour");
    let flow = other.connect_wait(remote(1), &ConnectOptions::default(), PATIENCE).unwrap();
    other.send(flow, b"next door").unwrap();
    drop(servers);
    let ended = loop {
        match other.wait_event(Some(PATIENCE)).unwrap() {
            Some(Event::Closed { reason, .. }) => break reason,
            Some(_) => {}
            None => panic!("the neighbour's end went unnoticed"),
        }
    };
    assert_eq!(
        ended,
        CloseReason::Reset,
        "an application that goes resets its flows, and its peers are told"
    );
    println!(
        "{engines} engines: {} echoes of {len} B dealt out in turns; neighbour: {ended}",
        u64::from(engines) * MESSAGES
    );
    drop(clients);
    if engines > 1 {
        let forwarded: u64 = (0..engines).map(|e| counter(&b, &format!("{e}.stack.forwarded"))).sum();
        assert!(forwarded > MESSAGES, "only {forwarded} frames changed hands");
    }
    a.stop().unwrap();
    b.stop().unwrap();
}
