//! Several applications on one pair of daemons: none can harm another, and one that does not read holds up nobody else.

mod common;

use barewire_channel::entry::send_refusal;
use barewire_channel::{AppChannel, Completion, Geometry, Request};
use barewire_client::{CloseReason, ConnectOptions, Event, SendError};
use barewire_engine::now;
use common::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn sixteen_applications_on_each_side() {
    const APPS: u16 = 16;
    const REQUESTS: u64 = 300;
    let pair = pair();
    thread::scope(|scope| {
        for app in 0..APPS {
            let (a, b) = (&pair.a, &pair.b);
            scope.spawn(move || {
                let mut server = attach(b, &format!("server {app}"));
                server.listen_wait(1000 + app, 0, PATIENCE).unwrap();
                let server = thread::spawn(move || (echo(&mut server), echo(&mut server), echo(&mut server)));
                let mut client = attach(a, &format!("client {app}"));
                let flows: Vec<_> = (0..3)
                    .map(|token| {
                        let options = ConnectOptions { token, ..ConnectOptions::default() };
                        client.connect_wait(to(2, 1000 + app), &options, PATIENCE).unwrap()
                    })
                    .collect();
                for i in 0..REQUESTS {
                    let flow = flows[i as usize % 3];
                    let bytes = pattern(u64::from(app) << 32 | i, 20 + (i as usize * 37) % 5000);
                    client.send(flow, &bytes).unwrap();
                    match next_real(&mut client) {
                        Event::Message(m) => {
                            assert_eq!(m.flow(), flow);
                            assert!(client.to_vec(&m) == bytes, "application {app}, message {i}");
                            client.release(m);
                        }
                        other => panic!("{other:?}"),
                    }
                }
                for flow in flows {
                    client.close(flow).unwrap();
                }
                for _ in 0..3 {
                    assert!(matches!(
                        next_real(&mut client),
                        Event::Closed { reason: CloseReason::Local, .. }
                    ));
                }
                let (x, y, z) = server.join().unwrap();
                assert_eq!(x + y + z, REQUESTS);
            });
        }
    });
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
    println!("{} applications, {} requests", 2 * APPS, u64::from(APPS) * REQUESTS);
}

#[test]
fn nobody_touches_what_is_anothers() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut victim = attach(&pair.a, "victim");
    let (flow, back) = flow(&mut victim, &mut server, 2, 888);
    // The victim holds a message, so that there is something to release.
    server.send(back, &pattern(1, 3000)).unwrap();
    let Event::Message(held) = next(&mut victim) else { panic!() };
    let used = || counter(&pair.a, "applications.recv_bytes_used");
    eventually("a message is held", || used() == 4096);

    let (_control, fds, _) = attach_raw(&pair.a, None);
    let mut forger = AppChannel::attach(fds).unwrap();
    let raw = flow.to_raw();
    let send_bytes = forger.geometry().send_bytes;
    let mut refused = 0;
    let forged = [
        Request::Send { flow: raw, offset: 0, len: 10, token: 1 },
        Request::Close { flow: raw },
        Request::Reset { flow: raw },
        Request::Release { flow: raw, offset: 0, len: 3000 },
        Request::Release { flow: raw, offset: 64, len: u32::MAX },
        Request::Release { flow: 0, offset: u32::MAX, len: 0 },
        Request::Unlisten { udp_port: 888 },
        // Beyond its own memory, and messages longer than there can be.
        Request::Send { flow: raw, offset: send_bytes, len: 1, token: 2 },
        Request::Send { flow: raw, offset: send_bytes - 10, len: 11, token: 3 },
        Request::Send { flow: raw, offset: u32::MAX, len: u32::MAX, token: 4 },
        Request::Send { flow: u64::MAX, offset: 0, len: u32::MAX, token: 5 },
        Request::Send { flow: u64::MAX, offset: 0, len: 0, token: 6 },
    ];
    for request in forged {
        assert!(forger.submit(&request));
        if let Request::Send { token, .. } = request {
            match completion(&mut forger) {
                Completion::SendRefused { token: t, code, .. } => {
                    let in_memory = [1, 6].contains(&token);
                    let why = if in_memory { send_refusal::NO_SUCH_FLOW } else { send_refusal::INVALID };
                    assert_eq!((t, code), (token, why));
                }
                other => panic!("{other:?}"),
            }
            refused += 1;
        }
    }
    // Its own flow, as a fence: what came before has been served.
    assert!(forger.submit(&Request::Connect {
        token: 7,
        local: None,
        local_udp_port: 0,
        remote: to(2, 888),
        ordered: true
    }));
    let own = loop {
        if let Completion::Connected { flow, .. } = completion(&mut forger) {
            break flow;
        }
    };
    let forged_back = accept(&mut server);
    // A message of its own, released three times, with a wrong length and with another's flow; and its flow, closed twice.
    server.send(forged_back, b"for the forger").unwrap();
    let Completion::Received { flow: of, offset, len } = completion(&mut forger) else { panic!() };
    assert_eq!((of, len), (own, 14));
    for request in [
        Request::Release { flow: own, offset, len: 15 },
        Request::Release { flow: raw, offset, len },
        Request::Release { flow: own, offset, len },
        Request::Release { flow: own, offset, len },
        Request::Close { flow: own },
        Request::Close { flow: own },
    ] {
        assert!(forger.submit(&request));
    }
    assert!(matches!(completion(&mut forger), Completion::Closed { .. }));
    assert_eq!(next(&mut server), Event::Closed { flow: forged_back, reason: CloseReason::Peer });

    // Of the victim's nothing has changed.
    assert_eq!(victim.to_vec(&held), pattern(1, 3000));
    assert!(is_quiet(&mut victim) && is_quiet(&mut server));
    victim.send(flow, b"I am well").unwrap();
    assert_eq!(message(&mut server), b"I am well");
    eventually("only the victim's message is held", || used() == 4096);
    victim.release(held);
    victim.flush();
    eventually("nothing is held", || used() == 0);
    eventually("offences are counted", || counter(&pair.a, "applications.not_theirs") > 0);
    let offences = counter(&pair.a, "applications.not_theirs");
    println!("{} forged requests, {refused} answered, {offences} counted", 12);
    // A send, a close and a reset of another's flow; three releases of nothing; four sends from beyond its memory; a release of
    // a wrong length, and two of what was released.
    assert_eq!(offences, 3 + 3 + 4 + 1 + 2);
    drop((forger, _control));
    drop((victim, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn who_does_not_read_holds_up_its_own_senders_only() {
    const LEN: usize = 100_000;
    let pair = pair();
    let mut sleeper = attach(&pair.b, "sleeper");
    let mut sender = attach(&pair.a, "sender");
    let (flow, _) = flow(&mut sender, &mut sleeper, 2, 888);

    // Others at work meanwhile.
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (busy, _) = common::flow(&mut client, &mut server, 2, 889);
    let (sent, longest) = thread::scope(|scope| {
        scope.spawn(move || echo(&mut server));
        let (stop, answered) = (&stop, &answered);
        let client = scope.spawn(move || {
            let mut longest = barewire_base::Duration::ZERO;
            let mut i = 0;
            while !stop.load(Ordering::Relaxed) {
                i += 1;
                let bytes = pattern(i, 1024);
                let start = now();
                client.send(busy, &bytes).unwrap();
                assert!(message(&mut client) == bytes);
                longest = longest.max(now().since(start));
                answered.fetch_add(1, Ordering::Relaxed);
            }
            client.close(busy).unwrap();
            longest
        });

        let mut sent = 0;
        while sent < 2000 {
            match sender.send(flow, &pattern(sent, LEN)) {
                Ok(()) => sent += 1,
                Err(SendError::WouldBlock) => {
                    // Blocked for good as soon as nothing moves for a while.
                    if sender.wait_event(Some(Duration::from_millis(200))).unwrap().is_none() {
                        break;
                    }
                }
                Err(e) => panic!("{e}"),
            }
        }
        assert!((200..2000).contains(&sent), "{sent} messages until it was blocked");
        // The others go on at the rate of their own.
        let before = answered.load(Ordering::Relaxed);
        let start = now();
        eventually("others have 1,000 answers more", || answered.load(Ordering::Relaxed) - before >= 1000);
        println!(
            "{sent} messages of {LEN} bytes held up; others had 1,000 answers in {}",
            now().since(start)
        );
        stop.store(true, Ordering::Relaxed);
        (sent, client.join().unwrap())
    });
    println!("the others' slowest answer took {longest}");

    // And when it reads, everything is there, once and in order.
    for i in 0..sent {
        assert!(message(&mut sleeper) == pattern(i, LEN), "message {i}");
    }
    assert!(is_quiet(&mut sleeper));
    while sender.sends_under_way() > 0 {
        let _ = sender.wait_event(Some(Duration::from_millis(1))).unwrap();
    }
    drop((sender, sleeper));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn who_holds_all_it_can_leaves_room_for_others() {
    // Tables of messages so small that one application could fill them.
    let pair = pair_with(|c| {
        c.transport.recv_messages_max = 64;
        c.transport.send_messages_max = 64;
    });
    let mut hoarder = attach(&pair.b, "hoarder");
    let mut sender = attach(&pair.a, "sender");
    let (flow, _) = flow(&mut sender, &mut hoarder, 2, 888);
    let mut held = Vec::new();
    for i in 0..300 {
        while sender.send(flow, &pattern(i, 100)).is_err() {
            assert!(sender.wait_event(Some(PATIENCE)).unwrap().is_some());
        }
        if i % 16 == 15 {
            while let Some(Event::Message(m)) = hoarder.wait_event(Some(Duration::from_millis(5))).unwrap() {
                held.push(m);
            }
        }
    }
    while held.len() < 16 {
        match hoarder.wait_event(Some(PATIENCE)).unwrap().expect("more messages") {
            Event::Message(m) => held.push(m),
            other => panic!("{other:?}"),
        }
    }
    assert!((16..64).contains(&held.len()), "{} messages are held", held.len());
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (flow, _) = common::flow(&mut client, &mut server, 2, 889);
    let server = thread::spawn(move || echo(&mut server));
    for i in 0..200 {
        let bytes = pattern(i, 3000);
        client.send(flow, &bytes).unwrap();
        assert!(message(&mut client) == bytes);
    }
    client.close(flow).unwrap();
    assert_eq!(server.join().unwrap(), 200);
    println!("{} messages are held, {} wait, and others were served", held.len(), sender.sends_under_way());
    let mut seen = 0;
    while seen < 300 {
        let m = match held.is_empty() {
            false => held.remove(0),
            true => match next(&mut hoarder) {
                Event::Message(m) => m,
                other => panic!("{other:?}"),
            },
        };
        assert!(hoarder.to_vec(&m) == pattern(seen, 100), "message {seen}");
        hoarder.release(m);
        seen += 1;
    }
    drop((sender, hoarder, client));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn an_application_gets_what_it_asks_for_within_its_quota() {
    let pair = pair_with(|c| {
        c.applications_max = 2;
        c.channel = Geometry { sq_entries: 64, cq_entries: 256, send_bytes: 1 << 20, recv_bytes: 1 << 20 };
    });
    let small = Geometry { sq_entries: 8, cq_entries: 16, send_bytes: 4096, recv_bytes: 8192 };
    let refused = |g: Geometry| match attach_to(pair.a.socket(), "greedy", Some(g)) {
        Err(barewire_client::AttachError::Refused { code, message, .. }) => (code, message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{g:?} was granted"),
    };
    assert_eq!(refused(Geometry { send_bytes: 2 << 20, ..small }).0, 3);
    assert_eq!(
        refused(Geometry { cq_entries: 8, ..small }),
        (3, "completions: 8 asked for, 16 needed".into())
    );
    assert_eq!(refused(Geometry { sq_entries: 7, ..small }).0, 3);
    // Numbers are used again at once.
    for _ in 0..100 {
        let one = attach_with(&pair.a, "one", Some(small));
        let two = attach_with(&pair.a, "two", None);
        assert_eq!(refused(small).0, 4);
        drop(one);
        let mut again = None;
        eventually("a place is free", || {
            again = attach_to(pair.a.socket(), "again", Some(small)).ok();
            again.is_some()
        });
        let mut again = again.unwrap();
        again.listen_wait(888, 0, PATIENCE).unwrap();
        drop((two, again));
        eventually("both places are free", || counter(&pair.a, "applications.count") == 0);
    }
    is_empty_again(&pair.a);
}
