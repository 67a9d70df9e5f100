//! Several engines on one interface: whichever queue a frame comes in on, it reaches its flow.

mod common;
use barewire_client::{CloseReason, ConnectOptions, Event};
use barewire_daemon::Daemon;
use barewire_lab::{LinkConfig, TwoHosts, TwoHostsConfig, is_root_capable};
use barewire_testing::{Needs, have};
use common::*;
use std::net::SocketAddr;

const ENGINES: u8 = 3;
const MESSAGES: u64 = 200;

#[test]
fn frames_dealt_out_at_random_all_arrive() {
    if have(Needs::Root, is_root_capable()).is_some() {
        dealt_out(1500, None, 3_000);
    }
}

#[test]
fn long_frames_and_tagged_ones_arrive_too() {
    if have(Needs::Root, is_root_capable()).is_some() {
        dealt_out(9000, Some(7), 20_000);
    }
}

/// Echoes of messages of `len` bytes, and conversations from engine to engine, over a link with this MTU.
fn dealt_out(mtu: u16, vlan: Option<u16>, len: u64) {
    let link = LinkConfig { mtu: u32::from(mtu), ..LinkConfig::default() };
    let hosts = TwoHosts::create(&TwoHostsConfig { label: None, link, ..TwoHostsConfig::default() }).unwrap();
    let dir = Dir::new();
    let start = |host: u8| {
        let (ns, eth) = if host == 1 { (&hosts.ns_a, &hosts.eth_a) } else { (&hosts.ns_b, &hosts.eth_b) };
        // Dealt out in turns: two of three frames come to an engine that does not own their flow.
        let port = format!("packet:{}?fanout={host}&fanout_mode=round_robin", eth.name);
        let mut config = config(&dir.0, &port, host);
        config.ipv4 = vec![(eth.v4, 24)];
        config.engines = ENGINES;
        (config.vlan, config.transport.mtu) = (vlan, mtu);
        if mtu > 1500 {
            config.pool.chunk_len = 16_384;
        }
        ns.enter(|| Daemon::start(&config)).unwrap().unwrap()
    };
    let (a, b) = (start(1), start(2));

    // One application on each engine of either daemon.
    let mut servers: Vec<_> = (0..ENGINES).map(|i| attach(&b, &format!("server {i}"))).collect();
    for (i, server) in servers.iter_mut().enumerate() {
        server.listen_wait(900 + i as u16, 0, PATIENCE).unwrap();
        assert!(server.listen_wait(900, 0, PATIENCE).is_err(), "a port has one listener over all engines");
    }
    let echo = std::thread::spawn(move || {
        let mut left = u64::from(ENGINES) * MESSAGES;
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
    let mut clients: Vec<_> = (0..ENGINES).map(|i| attach(&a, &format!("client {i}"))).collect();
    let remote = |i: usize| SocketAddr::from((hosts.eth_b.v4, 900 + i as u16));
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
        "{ENGINES} engines: {} echoes of {len} B dealt out in turns; neighbour: {ended}",
        u64::from(ENGINES) * MESSAGES
    );
    drop(clients);
    let forwarded: u64 = (0..ENGINES).map(|e| counter(&b, &format!("{e}.stack.forwarded"))).sum();
    assert!(forwarded > MESSAGES, "only {forwarded} frames changed hands");
    a.stop().unwrap();
    b.stop().unwrap();
}
