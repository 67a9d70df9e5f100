//! What the client library promises when things go wrong: late answers, peers that do not read, flows that have ended.

mod common;

use barewire_client::{
    ConnectOptions, ConnectWaitError, Embedded, EmbeddedConfig, Event, FlowId, SendError,
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
    let dir = Dir::new();
    let port = format!("mem:{}", dir.0.display());
    let a = Daemon::start(&config(&dir.0, &port, 1)).unwrap();
    let mut client = attach(&a, "client");
    // Nobody is there yet: the attempt goes on in the daemon.
    for _ in 0..3 {
        let answer = client.connect_wait(to(2, 888), &ConnectOptions::default(), Duration::from_millis(50));
        assert!(matches!(answer, Err(ConnectWaitError::TimedOut)), "{answer:?}");
    }
    let b = Daemon::start(&config(&dir.0, &port, 2)).unwrap();
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
    let dir = Dir::new();
    let mut endpoint =
        Embedded::open(&EmbeddedConfig::new(&format!("mem:{}", dir.0.display()), v4(1))).unwrap();
    assert_eq!(endpoint.reserve(20 << 20).unwrap_err(), SendError::TooLarge);
    assert_eq!(endpoint.reserve((16 << 20) + 1).unwrap_err(), SendError::TooLarge);
    let all = endpoint.reserve(16 << 20).unwrap();
    assert_eq!(endpoint.reserve(1).unwrap_err(), SendError::WouldBlock);
    endpoint.abandon(all);
    assert!(endpoint.reserve(1).is_ok());
}
