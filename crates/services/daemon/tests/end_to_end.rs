//! One client, one server, two daemons: everything that the library promises, once.

mod common;

use barewire_client::{CloseReason, ConnectFailure, ConnectOptions, ConnectWaitError, Event, SendError};
use common::*;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

#[test]
fn requests_of_every_size_are_answered() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    assert_eq!(client.addresses(), [v4(1).into(), std::net::IpAddr::from(v6(1))]);
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    let server = thread::spawn(move || echo(&mut server));
    let mut sizes = vec![1024; 1000];
    sizes.extend([0, 1, 63, 64, 65, 1399, 1400, 1401, 4096, 65_535, 1 << 20, 8 << 20, 64 << 20, 0]);
    for (i, &size) in sizes.iter().enumerate() {
        let bytes = pattern(i as u64, size);
        client.send(flow, &bytes).unwrap();
        let back = message(&mut client);
        assert!(back == bytes, "message {i} of {size} bytes came back otherwise");
    }
    client.close(flow).unwrap();
    assert_eq!(next_real(&mut client), Event::Closed { flow, reason: CloseReason::Local });
    assert_eq!(server.join().unwrap(), sizes.len() as u64);
    drop(client);
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
    println!("{} requests answered, the largest of {} bytes", sizes.len(), 64 << 20);
}

#[test]
fn a_message_may_be_built_in_place_or_of_pieces_and_its_fate_is_told() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (flow, back) = flow(&mut client, &mut server, 2, 888);

    let pieces = [pattern(1, 700), vec![], pattern(2, 3000), b"end".to_vec()];
    let slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
    client.send_vectored(flow, &slices).unwrap();
    assert_eq!(message(&mut server), pieces.concat());

    let buf = client.reserve(10).unwrap();
    assert!(client.write(&buf, 5, b"world"));
    assert!(client.write(&buf, 0, b"hello"));
    assert!(!client.write(&buf, 6, b"world"), "beyond its end");
    assert!(!client.write(&buf, usize::MAX, b"x"));
    client.commit(flow, buf, Some(5)).unwrap();
    client.flush();
    assert_eq!(next(&mut client), Event::Delivered { flow, token: 5, delivered: true });
    let Event::Message(m) = next(&mut server) else { panic!() };
    let mut part = [0xa5; 4];
    assert_eq!((server.read_at(&m, 7, &mut part), part), (3, *b"rld\xa5"));
    assert_eq!(server.read_at(&m, 11, &mut part), 0);
    server.release(m);

    let buf = client.reserve(64 << 20).unwrap();
    assert_eq!(client.reserve(1).unwrap_err(), SendError::WouldBlock);
    assert_eq!(client.send(flow, b"x"), Err(SendError::WouldBlock));
    client.abandon(buf);
    assert_eq!(client.reserve((64 << 20) + 1).unwrap_err(), SendError::TooLarge);

    // Messages behind a reset fail, and each says so once. A flow gets half of the memory while nobody else needs it.
    const MESSAGES: u64 = 32;
    for token in 0..MESSAGES {
        let buf = client.reserve(1 << 20).unwrap();
        client.commit(flow, buf, Some(token)).unwrap();
    }
    client.reset(flow).unwrap();
    let (mut told, mut closed) = (vec![], 0);
    while told.len() < MESSAGES as usize || closed < 1 {
        match next_real(&mut client) {
            Event::Delivered { token, .. } => told.push(token),
            Event::Closed { reason: CloseReason::LocalReset, .. } => closed += 1,
            other => panic!("{other:?}"),
        }
    }
    told.sort_unstable();
    assert_eq!(told, (0..MESSAGES).collect::<Vec<_>>());
    assert!(is_quiet(&mut client));
    assert_eq!(client.sends_under_way(), 0);
    loop {
        match next(&mut server) {
            Event::Message(m) => server.release(m),
            other => break assert_eq!(other, Event::Closed { flow: back, reason: CloseReason::Reset }),
        }
    }
}

#[test]
fn both_ends_hear_of_the_end_once() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (flow, back) = flow(&mut client, &mut server, 2, 888);
    client.send(flow, b"last words").unwrap();
    client.close(flow).unwrap();
    client.close(flow).unwrap();
    assert_eq!(message(&mut server), b"last words");
    assert_eq!(next(&mut server), Event::Closed { flow: back, reason: CloseReason::Peer });
    assert_eq!(next(&mut client), Event::Closed { flow, reason: CloseReason::Local });
    assert!(is_quiet(&mut server) && is_quiet(&mut client));
    // Afterwards it does not exist, which is no offence but a race.
    client.close(flow).unwrap();
    let buf = client.reserve(3).unwrap();
    assert_eq!(client.commit(flow, buf, Some(9)), Err(SendError::NoSuchFlow));
    assert!(is_quiet(&mut client));
    assert_eq!(counter(&pair.a, "applications.not_theirs"), 0);
    // A message that is released when its flow is long gone.
    let (flow, back) = {
        let flow = connect(&mut client, to(2, 888));
        (flow, accept(&mut server))
    };
    client.send(flow, &pattern(1, 5000)).unwrap();
    let Event::Message(m) = next(&mut server) else { panic!() };
    client.reset(flow).unwrap();
    assert_eq!(next(&mut server), Event::Closed { flow: back, reason: CloseReason::Reset });
    assert!(server.to_vec(&m) == pattern(1, 5000));
    eventually("flows are gone", || counter(&pair.b, "transport.flows") == 0);
    server.release(m);
    server.flush();
    eventually("its memory is back", || counter(&pair.b, "applications.recv_bytes_used") == 0);
    eventually("nothing is promised", || counter(&pair.b, "applications.promised") == 0);
    eventually("nothing is received", || counter(&pair.b, "transport.received_messages") == 0);
}

fn failure(result: Result<barewire_client::FlowId, ConnectWaitError>) -> ConnectFailure {
    match result {
        Err(ConnectWaitError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_connected_or_listened_on_is_said() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut other = attach(&pair.b, "other");
    let mut client = attach(&pair.a, "client");
    let options = ConnectOptions::default();
    let mut why = |to: SocketAddr, o: &ConnectOptions| failure(client.connect_wait(to, o, PATIENCE));

    assert_eq!(why(to(2, 888), &options), ConnectFailure::Refused);
    server.listen_wait(888, 0, PATIENCE).unwrap();
    assert!(matches!(
        other.listen_wait(888, 0, PATIENCE),
        Err(ConnectWaitError::Failed(ConnectFailure::Refused))
    ));
    assert!(other.listen_wait(0, 0, PATIENCE).is_err());
    // Not the owner of the listener: nothing happens.
    other.unlisten(888).unwrap();
    other.listen_wait(889, 0, PATIENCE).unwrap();

    // Nobody has the address; no way leads there; an address that none can have; a source that is not ours.
    assert_eq!(why(to(99, 888), &options), ConnectFailure::Unreachable);
    assert_eq!(why("192.0.2.1:888".parse().unwrap(), &options), ConnectFailure::Unreachable);
    assert_eq!(why("[fd11::1]:888".parse().unwrap(), &options), ConnectFailure::Unreachable);
    assert_eq!(why("0.0.0.0:888".parse().unwrap(), &options), ConnectFailure::Unreachable);
    assert_eq!(why(to(2, 0), &options), ConnectFailure::Unreachable);
    let elsewhere = ConnectOptions { local: Some(v4(7).into()), ..options.clone() };
    assert_eq!(why(to(2, 888), &elsewhere), ConnectFailure::Unreachable);
    let mixed = ConnectOptions { local: Some(v6(1).into()), ..options.clone() };
    assert_eq!(why(to(2, 888), &mixed), ConnectFailure::Unreachable);

    let flow = connect(&mut client, to(2, 888));
    let back = accept(&mut server);
    server.unlisten(888).unwrap();
    eventually("no listener is left", || {
        let options = ConnectOptions { token: 3, ..ConnectOptions::default() };
        match client.connect_wait(to(2, 888), &options, PATIENCE) {
            Err(ConnectWaitError::Failed(ConnectFailure::Refused)) => true,
            Ok(_) => false,
            other => panic!("{other:?}"),
        }
    });
    // What was open stays open.
    client.send(flow, b"still here").unwrap();
    loop {
        match next(&mut server) {
            Event::Message(m) => {
                assert_eq!((m.flow(), server.to_vec(&m)), (back, b"still here".to_vec()));
                break server.release(m);
            }
            Event::Accepted { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    other.listen_wait(888, 0, PATIENCE).unwrap();
    drop((client, server, other));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn over_ipv6_and_unordered() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    server.listen_wait(888, 4242, PATIENCE).unwrap();
    let options = ConnectOptions { ordered: false, local_udp_port: 5000, token: 9, ..Default::default() };
    let remote = SocketAddr::from((v6(2), 888));
    let flow = client.connect_wait(remote, &options, PATIENCE).unwrap();
    let Event::Accepted { token, local, remote, .. } = next(&mut server) else { panic!() };
    assert_eq!((token, local, remote), (4242, (v6(2), 888).into(), (v6(1), 5000).into()));
    let server = thread::spawn(move || echo(&mut server));
    for i in 0..100 {
        let bytes = pattern(i, 100 * i as usize);
        client.send(flow, &bytes).unwrap();
        assert_eq!(message(&mut client), bytes);
    }
    client.close(flow).unwrap();
    assert_eq!(server.join().unwrap(), 100);
}

#[test]
fn applications_of_one_daemon_reach_each_other() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    for (udp_port, address) in [(888, v4(1).into()), (889, std::net::IpAddr::from(v6(1)))] {
        let mut server = attach(&pair.a, "server");
        server.listen_wait(udp_port, 0, PATIENCE).unwrap();
        let flow = connect(&mut client, (address, udp_port).into());
        let Event::Accepted { local, remote, .. } = next(&mut server) else { panic!() };
        assert_eq!((local.ip(), local.port(), remote.ip()), (address, udp_port, address));
        let server = thread::spawn(move || echo(&mut server));
        for (i, size) in [0, 1, 1024, 1500, 100_000, 64 << 20].into_iter().enumerate() {
            let bytes = pattern(i as u64, size);
            client.send(flow, &bytes).unwrap();
            assert!(message(&mut client) == bytes, "{size} bytes");
        }
        for i in 0..1000 {
            let bytes = pattern(i, 1024);
            client.send(flow, &bytes).unwrap();
            assert!(message(&mut client) == bytes);
        }
        client.close(flow).unwrap();
        assert_eq!(next_real(&mut client), Event::Closed { flow, reason: CloseReason::Local });
        assert_eq!(server.join().unwrap(), 1006);
    }
    // Nobody listens; a port of one's own.
    let options = ConnectOptions::default();
    assert_eq!(failure(client.connect_wait(to(1, 7), &options, PATIENCE)), ConnectFailure::Refused);
    client.listen_wait(890, 0, PATIENCE).unwrap();
    let to_self = ConnectOptions { local_udp_port: 890, token: 5, ..ConnectOptions::default() };
    let flow = client.connect_wait(to(1, 890), &to_self, PATIENCE).unwrap();
    let back = accept(&mut client);
    client.send(flow, b"to myself").unwrap();
    assert_eq!(message(&mut client), b"to myself");
    client.send(back, b"and back").unwrap();
    assert_eq!(message(&mut client), b"and back");

    let looped = counter(&pair.a, "stack.looped");
    assert!(looped > 100_000, "{looped}");
    // Only to the other host does anything go by the port.
    let sent = counter(&pair.a, "port.tx_frames");
    assert!(sent < 10, "{sent} frames left the host");
    println!("{looped} frames looped, {sent} left");
    // And the other host is still reached.
    let mut server = attach(&pair.b, "server");
    let (flow, _) = common::flow(&mut client, &mut server, 2, 888);
    client.send(flow, b"abroad").unwrap();
    assert_eq!(message(&mut server), b"abroad");
    drop((client, server));
    is_empty_again(&pair.a);
}

#[test]
fn who_waits_is_told_that_the_daemon_stops() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (_, back) = flow(&mut client, &mut server, 2, 888);
    let (socket, page) = (pair.a.socket().to_owned(), pair.a.counters_path());
    assert!(socket.exists() && page.exists());
    let waiting = thread::spawn(move || client.wait_event(Some(PATIENCE)));
    let start = barewire_engine::now();
    pair.a.stop().unwrap();
    assert_eq!(next(&mut server), Event::Closed { flow: back, reason: CloseReason::Reset });
    println!("the peer knew after {}", barewire_engine::now().since(start));
    assert!(matches!(waiting.join().unwrap(), Err(barewire_client::WaitError::DaemonGone)));
    assert!(!socket.exists() && !page.exists());
    assert!(attach_to(&socket, "late", None).is_err());
    assert!(server.wait_event(Some(Duration::from_millis(20))).unwrap().is_none());
}

#[test]
fn who_leaves_when_it_has_heard_the_end_spoils_nothing() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    for i in 0..100 {
        let mut server = attach(&pair.b, "server");
        server.listen_wait(888, 0, PATIENCE).unwrap();
        let flow = connect(&mut client, to(2, 888));
        client.send(flow, &pattern(i, 3000)).unwrap();
        client.close(flow).unwrap();
        let server = thread::spawn(move || {
            loop {
                match next(&mut server) {
                    Event::Message(m) => server.release(m),
                    Event::Closed { reason, .. } => break reason,
                    _ => {}
                }
            }
        });
        assert_eq!(next_real(&mut client), Event::Closed { flow, reason: CloseReason::Local }, "round {i}");
        assert_eq!(server.join().unwrap(), CloseReason::Peer);
        eventually("the listener is gone", || counter(&pair.b, "applications.count") == 0);
    }
    drop(client);
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn an_event_loop_of_the_applications_own() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    let server = thread::spawn(move || echo(&mut server));
    let (mut sent, mut seen, mut slept) = (0u64, 0, 0);
    let count = 3000;
    while seen < count {
        // More than the memory holds at once, so that leave to go on is needed too.
        while sent < count && client.send(flow, &pattern(sent, 40_000)).is_ok() {
            sent += 1;
        }
        if client.arm() {
            let mut fds = [PollFd::from_borrowed_fd(client.event_fd(), PollFlags::IN)];
            let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&patience)).unwrap(), 1, "{sent} sent, {seen} seen");
            slept += 1;
        }
        client.disarm();
        while let Some(event) = client.next_event() {
            match event {
                Event::Message(m) => {
                    assert!(client.to_vec(&m) == pattern(seen, 40_000), "message {seen}");
                    client.release(m);
                    seen += 1;
                }
                Event::Writable { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    println!("{count} answers in an event loop that slept {slept} times");
    client.close(flow).unwrap();
    assert_eq!(server.join().unwrap(), count);
}

/// Over the kernel's own links: attach, talk, and stop.
#[test]
fn over_a_veth_pair() {
    use barewire_netns::{TwoHosts, TwoHostsConfig, is_root_capable};
    use barewire_testing::{Needs, have};
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    for scheme in ["packet", "xdp"] {
        let hosts = TwoHosts::create(&TwoHostsConfig { label: None, ..Default::default() }).unwrap();
        let dir = Folder::new("daemon");
        let start = |host: u8| {
            let (ns, eth) = if host == 1 { (&hosts.ns_a, &hosts.eth_a) } else { (&hosts.ns_b, &hosts.eth_b) };
            let mut config = config(dir.path(), &format!("{scheme}:{}", eth.name), host);
            config.interface.ipv4 = vec![(eth.v4, 24)];
            config.interface.ipv6 = vec![(eth.v6.unwrap(), 64)];
            ns.enter(|| barewire_daemon::Daemon::start(&config)).unwrap().unwrap()
        };
        let (a, b) = (start(1), start(2));
        let mut server = attach(&b, "server");
        let mut client = attach(&a, "client");
        server.listen_wait(888, 0, PATIENCE).unwrap();
        for (n, ip) in
            [hosts.eth_b.v4.into(), std::net::IpAddr::from(hosts.eth_b.v6.unwrap())].into_iter().enumerate()
        {
            let flow = connect(&mut client, (ip, 888).into());
            let back = accept(&mut server);
            for i in 0..200 {
                let bytes = pattern(i, (i as usize * 531) % 60_000);
                client.send(flow, &bytes).unwrap();
                assert!(message(&mut server) == bytes);
                server.send(back, &bytes).unwrap();
                assert!(message(&mut client) == bytes);
            }
            if n == 1 {
                let start = barewire_engine::now();
                drop(client);
                assert_eq!(next_real(&mut server), Event::Closed { flow: back, reason: CloseReason::Reset });
                println!(
                    "{scheme}: the peer of an application that left knew after {}",
                    barewire_engine::now().since(start)
                );
                client = attach(&a, "another");
            } else {
                client.close(flow).unwrap();
                assert!(matches!(next_real(&mut client), Event::Closed { reason: CloseReason::Local, .. }));
                assert!(matches!(next_real(&mut server), Event::Closed { reason: CloseReason::Peer, .. }));
            }
        }
        let flow = connect(&mut client, (hosts.eth_b.v4, 888).into());
        let back = accept(&mut server);
        client.send(flow, b"before the end").unwrap();
        assert_eq!(message(&mut server), b"before the end");
        let start = barewire_engine::now();
        a.stop().unwrap();
        assert_eq!(next_real(&mut server), Event::Closed { flow: back, reason: CloseReason::Reset });
        println!("{scheme}: the peer knew of the stop after {}", barewire_engine::now().since(start));
        drop(server);
        is_empty_again(&b);
    }
}
