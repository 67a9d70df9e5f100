//! What the client library promises when things go wrong: late answers, peers that do not read, flows that have ended.

mod common;

use barewire_client::{
    CloseReason, CloseWaitError, ConnectFailure, ConnectOptions, ConnectWaitError, Embedded, EmbeddedConfig,
    Event, FlowId, Geometry, SendError,
};
use barewire_daemon::Daemon;
use common::*;
use std::time::Duration;

/// The flow that was accepted on the listener with this token.
fn accepted_on(server: &mut barewire_client::Client, token: u64) -> FlowId {
    loop {
        if let Event::Accepted { flow, token: t, .. } = next(server)
            && t == token
        {
            return flow;
        }
    }
}

#[test]
fn the_answer_to_an_attempt_that_was_given_up_is_not_taken_for_the_next_ones() {
    let dir = Folder::new("daemon");
    let port = format!("mem:{}", dir.path().display());
    let a = Daemon::start(&config(dir.path(), &port, 1)).unwrap();
    let mut client = attach(&a, "client");
    // Nobody is there yet: the attempt goes on in the daemon.
    for _ in 0..3 {
        let answer = client.connect_wait(to(2, 888), &ConnectOptions::default(), Duration::from_millis(50));
        assert!(matches!(answer, Err(ConnectWaitError::TimedOut)), "{answer:?}");
    }
    let b = Daemon::start(&config(dir.path(), &port, 2)).unwrap();
    let mut server = attach(&b, "server");
    server.listen_wait(888, 888, PATIENCE).unwrap();
    server.listen_wait(889, 889, PATIENCE).unwrap();
    let flow = client.connect_wait(to(2, 889), &ConnectOptions::default(), PATIENCE).unwrap();
    let back = accepted_on(&mut server, 889);
    client.send(flow, b"for 889").unwrap();
    loop {
        if let Event::Message(m) = next(&mut server) {
            assert_eq!((m.flow(), server.to_vec(&m)), (back, b"for 889".to_vec()));
            break server.release(m);
        }
    }
    // Those that were given up are ended unseen.
    for daemon in [&a, &b] {
        eventually("one flow is left", || counter(daemon, "transport.flows") == 1);
    }
    assert!(is_quiet(&mut client));
    drop((client, server));
    is_empty_again(&a);
    is_empty_again(&b);
}

#[test]
fn a_peer_that_does_not_read_holds_up_its_own_flow_only() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let mut sleeper = attach(&pair.b, "sleeper");
    let mut reader = attach(&pair.b, "reader");
    let (held_up, _) = flow(&mut client, &mut sleeper, 2, 888);
    let (read, back) = flow(&mut client, &mut reader, 2, 889);
    for len in [100usize, 100_000] {
        let (mut sent, mut seen, mut idle) = (0, 0, 0);
        while seen < 3000 {
            while client.send(held_up, &pattern(0, len)) == Ok(()) {}
            while sent < 3000 && client.send(read, &pattern(sent, len)) == Ok(()) {
                sent += 1;
            }
            while let Some(event) = client.next_event() {
                assert!(!matches!(event, Event::Closed { .. }), "{event:?}");
            }
            client.flush();
            match reader.wait_event(Some(Duration::from_millis(5))).unwrap() {
                Some(Event::Message(m)) => {
                    assert_eq!(m.flow(), back);
                    assert!(reader.to_vec(&m) == pattern(seen, len), "message {seen}");
                    reader.release(m);
                    (seen, idle) = (seen + 1, 0);
                }
                Some(other) => panic!("{other:?}"),
                // Ten seconds in which nothing came.
                None => idle += 1,
            }
            assert!(idle < 2000, "{seen} messages of {len} bytes came and {sent} were sent, then no more");
        }
    }
    drop((client, sleeper, reader));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn a_message_to_a_flow_that_is_gone_is_refused() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let mut server = attach(&pair.b, "server");
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    assert_eq!(client.send(FlowId::from_raw(12345), b"x"), Err(SendError::NoSuchFlow));
    client.close(flow).unwrap();
    assert_eq!(client.send(flow, b"x"), Err(SendError::Closing));
    assert!(matches!(next_real(&mut client), Event::Closed { .. }));
    assert_eq!(client.send(flow, b"x"), Err(SendError::NoSuchFlow));
    assert!(is_quiet(&mut client));
    assert_eq!(client.sends_under_way(), 0);
}

#[test]
fn what_an_embedded_endpoint_can_never_hold_is_too_large() {
    let dir = Folder::new("daemon");
    let mut endpoint =
        Embedded::open(&EmbeddedConfig::new(&format!("mem:{}", dir.path().display()), v4(1))).unwrap();
    assert_eq!(endpoint.reserve(20 << 20).unwrap_err(), SendError::TooLarge);
    assert_eq!(endpoint.reserve((16 << 20) + 1).unwrap_err(), SendError::TooLarge);
    let all = endpoint.reserve(16 << 20).unwrap();
    assert_eq!(endpoint.reserve(1).unwrap_err(), SendError::WouldBlock);
    endpoint.abandon(all);
    assert!(endpoint.reserve(1).is_ok());
}

#[test]
fn an_attempt_that_is_cancelled_says_so_once_and_leaves_nothing() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let mut server = attach(&pair.b, "server");
    server.listen_wait(888, 0, PATIENCE).unwrap();
    // To somebody who answers, so that cancelling and the answer cross in every way; and to nobody.
    for (round, to) in (0..200).map(|i| (i, to(if i % 4 == 0 { 99 } else { 2 }, 888))) {
        let id = client.connect(to, &ConnectOptions { token: round, ..Default::default() }).unwrap();
        spin_for(barewire_base::Duration::from_micros(round % 50 * 20));
        assert!(client.cancel(id));
        assert!(!client.cancel(id));
        match next(&mut client) {
            Event::ConnectFailed { token, reason: ConnectFailure::Cancelled, .. } => assert_eq!(token, round),
            other => panic!("{other:?}"),
        }
    }
    let id = client.connect(to(2, 888), &ConnectOptions::default()).unwrap();
    let Event::Connected { flow, .. } = next(&mut client) else { panic!() };
    assert!(!client.cancel(id), "it was answered");
    client.reset(flow).unwrap();
    assert!(matches!(next(&mut client), Event::Closed { .. }));
    assert!(is_quiet(&mut client));
    for daemon in [&pair.a, &pair.b] {
        eventually("no flow is left", || counter(daemon, "transport.flows") == 0);
    }
}

#[test]
fn what_is_dropped_is_given_back() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let mut server = attach_with(
        &pair.b,
        "server",
        Some(Geometry { sq_entries: 8, cq_entries: 64, send_bytes: 4096, recv_bytes: 64 << 10 }),
    );
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    // Twenty times the server's memory.
    let mut seen = 0;
    for i in 0..400 {
        send(&mut client, flow, &pattern(i, 3000), &mut |_, event| panic!("{event:?}"));
        while let Some(event) = server.wait_event(Some(Duration::from_millis(u64::from(seen < i)))).unwrap() {
            match event {
                // In its own thread, and in another.
                Event::Message(m) if seen % 2 == 0 => drop(m),
                Event::Message(m) => std::thread::spawn(move || drop(m)).join().unwrap(),
                other => panic!("{other:?}"),
            }
            seen += 1;
        }
    }
    while seen < 400 {
        assert!(matches!(next(&mut server), Event::Message(_)));
        seen += 1;
    }
    server.flush();
    eventually("its memory is back", || {
        server.flush();
        counter(&pair.b, "applications.recv_bytes_used") == 0
    });
    // Reservations, too.
    eventually("no message is under way", || is_quiet(&mut client) && client.sends_under_way() == 0);
    for _ in 0..100 {
        drop(client.reserve(1 << 20).unwrap());
        client.flush();
    }
    let all = client.reserve(64 << 20).unwrap();
    // What is one client's is not another's.
    assert!(!server.write(&all, 0, b"x"));
    assert_eq!(server.commit(flow, all, None), Err(SendError::NotOurs));
    client.flush();
    let all = client.reserve(64 << 20).expect("all that was dropped is free");
    client.abandon(all);
    client.send(flow, b"x").unwrap();
    let Event::Message(m) = next_real(&mut server) else { panic!() };
    assert_eq!((client.to_vec(&m), server.to_vec(&m)), (vec![], b"x".to_vec()));
    client.release(m);
    server.flush();
    eventually("a message released elsewhere went home", || {
        server.flush();
        counter(&pair.b, "applications.recv_bytes_used") == 0
    });
    drop((client, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn releases_reach_the_daemon_while_something_else_is_waited_for() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let geometry = Geometry { sq_entries: 8, cq_entries: 1024, send_bytes: 4096, recv_bytes: 1 << 20 };
    let mut server = attach_with(&pair.b, "server", Some(geometry));
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    let mut held = vec![];
    for i in 0..200 {
        client.send(flow, &pattern(i, 100)).unwrap();
        let Event::Message(m) = next(&mut server) else { panic!() };
        held.push(m);
    }
    // Far more than its ring of eight holds, and then a wait for nobody, which takes three seconds.
    let freed = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            held.into_iter().for_each(|m| server.release(m));
            let answer = server.connect_wait(to(99, 1), &ConnectOptions::default(), PATIENCE);
            assert!(
                matches!(answer, Err(ConnectWaitError::Failed(ConnectFailure::Unreachable))),
                "{answer:?}"
            );
        });
        let mut freed = false;
        while !waiting.is_finished() {
            freed |= counter(&pair.b, "applications.recv_bytes_used") == 0;
            std::thread::sleep(Duration::from_millis(5));
        }
        waiting.join().unwrap();
        freed
    });
    assert!(freed, "nothing was released before the answer came");
}

#[test]
fn closing_waits_until_everything_has_arrived() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let mut server = attach(&pair.b, "server");
    let (first, _) = flow(&mut client, &mut server, 2, 888);
    let second = connect(&mut client, to(2, 888));
    client.connect(to(99, 1), &ConnectOptions::default()).unwrap();
    for i in 0..300 {
        client.send(first, &pattern(i, 50_000)).unwrap();
        client.send(second, &pattern(i, 50_000)).unwrap();
    }
    let reader = std::thread::spawn(move || {
        let (mut seen, mut closed) = (0, 0);
        while closed < 2 {
            match next(&mut server) {
                Event::Message(m) => {
                    seen += 1;
                    server.release(m);
                }
                Event::Closed { reason: CloseReason::Peer, .. } => closed += 1,
                Event::Accepted { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        seen
    });
    client.close_and_wait(PATIENCE).unwrap();
    drop(client);
    assert_eq!(reader.join().unwrap(), 600);
    is_empty_again(&pair.a);

    // A peer that does not read keeps it waiting, and no longer than was said; one that resets is told of.
    let mut client = attach(&pair.a, "client");
    let mut sleeper = attach_with(
        &pair.b,
        "sleeper",
        Some(Geometry { sq_entries: 8, cq_entries: 64, send_bytes: 4096, recv_bytes: 64 << 10 }),
    );
    let (flow, back) = flow(&mut client, &mut sleeper, 2, 889);
    for i in 0..100 {
        client.send(flow, &pattern(i, 10_000)).unwrap();
    }
    let waited = client.close_and_wait(Duration::from_millis(100));
    assert!(matches!(waited, Err(CloseWaitError::TimedOut { open: 1 })), "{waited:?}");
    sleeper.reset(back).unwrap();
    let waited = client.close_and_wait(PATIENCE);
    assert!(matches!(waited, Err(CloseWaitError::Lost { lost }) if lost > 0), "{waited:?}");
    client.close_and_wait(Duration::ZERO).unwrap();
}

#[test]
fn a_wait_ends_when_another_thread_says_so() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let waker = client.waker().unwrap();
    waker.wake();
    assert_eq!(next(&mut client), Event::Woken, "rung before");
    assert!(is_quiet(&mut client));
    for _ in 0..100 {
        let waker = waker.clone();
        let ringing = std::thread::spawn(move || waker.wake());
        assert_eq!(client.wait_event(None).unwrap(), Some(Event::Woken));
        ringing.join().unwrap();
    }
    // A ring during another wait is for the next.
    waker.wake();
    client.listen_wait(888, 0, PATIENCE).unwrap();
    assert_eq!(next(&mut client), Event::Woken);
}

#[test]
fn a_listener_that_was_given_up_is_not_there() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let mut other = attach(&pair.a, "other");
    for port in 1..100 {
        let now = client.listen_wait(port, 0, Duration::ZERO);
        match now {
            Ok(()) => {}
            Err(ConnectWaitError::TimedOut) if port % 2 == 0 => {
                eventually("another may listen there", || {
                    client.flush();
                    assert_eq!(client.next_event(), None);
                    other.listen_wait(port, 0, PATIENCE).is_ok()
                });
            }
            // Again, while the first is perhaps in the way.
            Err(ConnectWaitError::TimedOut) => client.listen_wait(port, 0, PATIENCE).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_embedded_sender_hears_when_its_flow_may_go_on() {
    let dir = Folder::new("daemon");
    let open = |host| {
        let mut config = EmbeddedConfig::new(&format!("mem:{}", dir.path().display()), v4(host));
        (config.send_bytes, config.recv_bytes) = (1 << 20, 1 << 20);
        // One flow that is not read leaves the receiver's memory to the other.
        config.transport.recv_window_bytes = 128 << 10;
        Embedded::open(&config).unwrap()
    };
    let (mut a, mut b) = (open(1), open(2));
    b.listen(888, 0).unwrap();
    let held_up = a.connect(to(2, 888), &ConnectOptions::default()).unwrap();
    let read = a.connect(to(2, 888), &ConnectOptions { token: 1, ..Default::default() }).unwrap();
    let (mut accepted, mut held) = (vec![], vec![]);
    let (mut seen, mut refused, mut writable, mut sent) = (0, 0, 0, 0);
    let message = pattern(1, 20_000);
    for _ in 0..2_000_000 {
        if a.send(held_up, &message).is_ok() {
            sent += 1;
        }
        match a.send(read, &message) {
            Ok(()) => sent += 1,
            Err(SendError::WouldBlock) => refused += 1,
            Err(e) => panic!("{e}"),
        }
        a.poll().unwrap();
        b.poll().unwrap();
        while let Some(event) = a.next_event() {
            match event {
                Event::Writable { flow } => {
                    assert!(flow == Some(read) || flow == Some(held_up));
                    writable += u64::from(flow == Some(read));
                }
                Event::Connected { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        while let Some(event) = b.next_event() {
            match event {
                Event::Accepted { flow, .. } => accepted.push(flow),
                Event::Message(m) if m.flow() == accepted[0] => held.push(m),
                Event::Message(m) => {
                    assert!(b.message(&m) == message);
                    // Half of them by the way.
                    if seen % 2 == 0 {
                        b.release(m);
                    }
                    seen += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        if seen >= 500 && writable > 10 {
            break;
        }
    }
    println!("{sent} sent, {seen} read, {refused} refused, {writable} writable");
    assert!(seen >= 500 && writable > 10 && refused > 0);
    a.reset(held_up);
    assert_eq!(a.send(held_up, b"x"), Err(SendError::Closing));
    a.poll().unwrap();
    while a.next_event().is_some() {}
    assert_eq!(a.send(held_up, b"x"), Err(SendError::NoSuchFlow));
}

/// A name is as good as an address: the first of its addresses that answers.
#[test]
fn names_are_looked_up_and_each_address_is_tried() {
    let pair = pair();
    let (mut client, mut server) = (attach(&pair.a, "client"), attach(&pair.b, "server"));
    server.listen_wait(888, 0, PATIENCE).unwrap();
    let options = ConnectOptions { token: 5, ..ConnectOptions::default() };
    // The name is understood, and leads to this machine's own addresses, where no way of a daemon's leads.
    let answer = client.connect_to_wait("localhost:888", &options, PATIENCE);
    assert!(matches!(answer, Err(ConnectWaitError::Failed(ConnectFailure::Unreachable))), "{answer:?}");
    // As a name with several addresses: nobody listens at the first ones.
    let named = [barewire_client::look_up("localhost:888").unwrap(), vec![to(2, 9), to(2, 888)]].concat();
    let flow = client.connect_to_wait(&named[..], &options, PATIENCE).unwrap();
    let back = accept(&mut server);
    client.send(flow, b"by name").unwrap();
    assert_eq!(message(&mut server), b"by name");
    // One event comes of them all, and no other.
    client.connect_to(&named[..], &options).unwrap();
    match next(&mut client) {
        Event::Connected { flow, token: 5, remote, .. } => {
            assert_eq!(remote, to(2, 888));
            client.close(flow).unwrap();
        }
        other => panic!("{other:?}"),
    }
    let other = accept(&mut server);
    server.close(other).unwrap();
    assert!(matches!(next_real(&mut client), Event::Closed { .. }));
    assert!(matches!(next_real(&mut server), Event::Closed { .. }));
    // None of them answers: it is the last one that is told of.
    client.connect_to(&[to(2, 10), to(2, 9)][..], &options).unwrap();
    match next(&mut client) {
        Event::ConnectFailed { token: 5, reason: ConnectFailure::Refused, .. } => {}
        other => panic!("{other:?}"),
    }
    assert!(is_quiet(&mut client));
    // One that says nothing leaves the others their share of the time.
    let second = Duration::from_secs(1);
    let late = client.connect_to_wait(&[to(77, 888), to(2, 888)][..], &options, second).unwrap();
    let there = accept(&mut server);
    client.send(late, b"second").unwrap();
    assert_eq!(message(&mut server), b"second");
    client.reset(late).unwrap();
    assert!(matches!(next_real(&mut server), Event::Closed { flow, .. } if flow == there));
    let silent = client.connect_to_wait(&[to(77, 888), to(78, 888)][..], &options, second / 4);
    assert!(matches!(silent, Err(ConnectWaitError::TimedOut)), "{silent:?}");
    // From an address of IPv6, an address of IPv4 is not worth a try.
    let six = std::net::SocketAddr::from((v6(2), 888));
    let from = ConnectOptions { local: Some(v6(1).into()), ..options.clone() };
    let sixth = client.connect_to_wait(&[to(2, 888), six][..], &from, PATIENCE).unwrap();
    let Event::Accepted { remote, .. } = next(&mut server) else { panic!("no flow") };
    assert_eq!(remote.ip(), std::net::IpAddr::from(v6(1)));
    client.reset(sixth).unwrap();
    // What is no name at all is said at once.
    let wrong = client.connect_to_wait("10.0.0.2", &options, PATIENCE);
    assert!(matches!(wrong, Err(ConnectWaitError::Name(_))), "{wrong:?}");
    let nothing: &[std::net::SocketAddr] = &[];
    let wrong = client.connect_to(nothing, &options);
    assert!(matches!(wrong, Err(ConnectWaitError::Name(_))), "{wrong:?}");
    client.close(flow).unwrap();
    server.close(back).unwrap();
    drop((client, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}
