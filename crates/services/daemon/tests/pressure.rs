//! Everything that can be full is made full: nothing acknowledged is lost, and nothing hangs.

mod common;

use barewire_channel::entry::listen_failure;
use barewire_channel::{AppChannel, Completion, Geometry, Request};
use barewire_client::{Client, CloseReason, Event, FlowId, SendError};
use common::*;
use std::thread;
use std::time::Duration;

const SMALL: Geometry =
    Geometry { sq_entries: 8, cq_entries: 16, send_bytes: 64 << 10, recv_bytes: 64 << 10 };

/// Sends `count` messages and takes as many, each with its number; both ends do it at once.
fn both_ways(client: &mut Client, flow: FlowId, count: u64, len: usize) {
    let (mut sent, mut seen) = (0, 0);
    while sent < count || seen < count || client.sends_under_way() > 0 {
        while sent < count {
            match client.send(flow, &pattern(sent, len)) {
                Ok(()) => sent += 1,
                Err(SendError::WouldBlock) => break,
                Err(e) => panic!("{e}"),
            }
        }
        // Bounded, because the last acknowledgements are no events.
        match client.wait_event(Some(Duration::from_millis(20))).unwrap() {
            Some(Event::Message(m)) => {
                assert!(client.to_vec(&m) == pattern(seen, len), "message {seen}");
                client.release(m);
                seen += 1;
            }
            Some(Event::Writable { .. }) | None => {}
            Some(other) => panic!("{other:?} after {sent} sent and {seen} seen"),
        }
    }
}

fn flood(
    name: &str,
    geometry: Geometry,
    count: u64,
    len: usize,
    change: impl Fn(&mut barewire_daemon::Config),
) {
    let pair = pair_with(change);
    let mut client = attach_with(&pair.a, "client", Some(geometry));
    let mut server = attach_with(&pair.b, "server", Some(geometry));
    let (flow, back) = flow(&mut client, &mut server, 2, 888);
    let start = barewire_engine::now();
    thread::scope(|scope| {
        scope.spawn(|| both_ways(&mut client, flow, count, len));
        scope.spawn(|| both_ways(&mut server, back, count, len));
    });
    println!("{name}: {count} messages of {len} bytes each way in {}", barewire_engine::now().since(start));
    client.close(flow).unwrap();
    assert_eq!(next_real(&mut client), Event::Closed { flow, reason: CloseReason::Local });
    assert_eq!(next_real(&mut server), Event::Closed { flow: back, reason: CloseReason::Peer });
    eventually("nothing is promised", || counter(&pair.a, "applications.promised") == 0);
    eventually("nothing is promised", || counter(&pair.b, "applications.promised") == 0);
    drop((client, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn two_floods_against_each_other() {
    let default = Geometry::DEFAULT;
    flood("default channels", default, 20_000, 100, |_| {});
    flood("large messages", default, 300, 1 << 20, |_| {});
    flood("the smallest rings", SMALL, 3000, 100, |_| {});
    flood("little memory", SMALL, 1000, 30_000, |_| {});
    flood(
        "one message at a time",
        Geometry { send_bytes: 4096, recv_bytes: 4096, ..SMALL },
        500,
        4096,
        |_| {},
    );
    flood("small tables", default, 3000, 5000, |c| {
        c.transport.send_messages_max = 4;
        c.transport.recv_messages_max = 4;
    });
    flood("tables of one", default, 1000, 100, |c| {
        c.transport.send_messages_max = 1;
        c.transport.recv_messages_max = 1;
    });
    flood("a short cable and few frames", default, 3000, 3000, |c| {
        c.interface.port = format!("{}?slots=2", c.interface.port);
        c.pool.frames = 64;
    });
}

/// What is small and what is lost together: a message that did not come needs what those behind it would take.
#[test]
fn two_floods_in_little_room_on_a_cable_that_loses() {
    let lossy = |c: &mut barewire_daemon::Config| {
        c.interface.port = format!("fault+{}?loss=0.02&reorder=0.02&seed=7", c.interface.port)
    };
    flood("the smallest rings, with loss", SMALL, 2000, 100, lossy);
    flood("little memory, with loss", SMALL, 500, 30_000, lossy);
    flood("one message at a time, with loss", Geometry { recv_bytes: 4096, ..SMALL }, 200, 4096, lossy);
    flood("small tables, with loss", Geometry::DEFAULT, 1000, 5000, |c| {
        lossy(c);
        c.transport.send_messages_max = 4;
        c.transport.recv_messages_max = 4;
    });
}

#[test]
fn a_message_that_its_receiver_can_never_hold_ends_its_flow() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let mut server = attach_with(&pair.b, "server", Some(SMALL));
    let (flow, back) = flow(&mut client, &mut server, 2, 888);
    client.send(flow, &pattern(1, 64 << 10)).unwrap();
    assert!(message(&mut server) == pattern(1, 64 << 10));
    client.send(flow, &pattern(2, (64 << 10) + 1)).unwrap();
    assert_eq!(next(&mut client), Event::Closed { flow, reason: CloseReason::MessageTooLarge });
    assert_eq!(next(&mut server), Event::Closed { flow: back, reason: CloseReason::MessageTooLarge });
    drop((client, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn who_never_takes_completions_is_held_up_and_loses_none() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    server.listen_wait(888, 0, PATIENCE).unwrap();
    let (control, fds, _) = attach_raw(&pair.a, Some(SMALL));
    let mut lazy = AppChannel::attach(fds).unwrap();
    let connect =
        Request::Connect { token: 1, local: None, local_udp_port: 0, remote: to(2, 888), ordered: true };
    assert!(lazy.submit(&connect));
    let flow = loop {
        if let Completion::Connected { flow, .. } = completion(&mut lazy) {
            break flow;
        }
    };
    accept(&mut server);

    // Without ever looking at what was completed, until nothing is taken any more.
    let mut submitted = 0u32;
    let mut idle = 0;
    let cycles = || counter(&pair.a, "engine.0.cycles");
    let mut stuck_at = (0, cycles());
    // For a while, that is: in which the daemon has had its turns.
    while idle < 200 || (submitted < 16 && cycles() < stuck_at.1 + 20 && idle < 20_000) {
        if stuck_at.0 != submitted {
            stuck_at = (submitted, cycles());
        }
        let at = submitted % 64 * 1024;
        let _ = lazy.send_memory().write(at as usize, &submitted.to_le_bytes());
        let send = Request::Send { flow, offset: at, len: 4, token: submitted.into() };
        if lazy.submit(&send) {
            (submitted, idle) = (submitted + 1, 0);
        } else {
            idle += 1;
            thread::sleep(Duration::from_millis(1));
        }
        lazy.flush();
    }
    // The rings, and what the daemon lets wait.
    assert!((16..64).contains(&submitted), "{submitted} were taken");
    // The daemon sleeps meanwhile, however full the ring of requests.
    let before = counter(&pair.a, "engine.0.cycles");
    thread::sleep(Duration::from_millis(300));
    let cycles = counter(&pair.a, "engine.0.cycles") - before;
    println!("{submitted} sends taken; {cycles} cycles in 0.3 s of being stuck");
    assert!(cycles < 1000, "{cycles} cycles while nothing could be done");

    // Others are served.
    let mut other = attach(&pair.a, "other");
    let other_flow = connect_to(&mut other);
    assert!(matches!(next(&mut server), Event::Message(_) | Event::Accepted { .. }));
    other.send(other_flow, b"hello").unwrap();

    // Now it looks: each is there once.
    let mut told = vec![];
    while told.len() < submitted as usize {
        match completion(&mut lazy) {
            Completion::Sent { token, delivered: true, .. } => told.push(token as u32),
            other => panic!("{other:?}"),
        }
    }
    told.sort_unstable();
    assert_eq!(told, (0..submitted).collect::<Vec<_>>());
    drop((lazy, control, other, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

fn connect_to(client: &mut Client) -> FlowId {
    connect(client, to(2, 888))
}

#[test]
fn a_flow_may_be_reset_though_its_messages_wait() {
    let pair = pair();
    let mut sleeper = attach(&pair.b, "sleeper");
    let mut client = attach(&pair.a, "client");
    let (flow, back) = flow(&mut client, &mut sleeper, 2, 888);
    let (other, _) = {
        let flow = connect(&mut client, to(2, 888));
        (flow, accept(&mut sleeper))
    };
    // Until it is refused; the sleeper reads none.
    let mut sent = 0;
    while client.send(flow, &pattern(sent, 10_000)) == Ok(()) {
        sent += 1;
    }
    assert!(sent > 100, "{sent}");
    client.reset(flow).unwrap();
    loop {
        match next(&mut client) {
            Event::Closed { flow: f, reason } => {
                break assert_eq!((f, reason), (flow, CloseReason::LocalReset));
            }
            event => assert!(matches!(event, Event::Writable { .. }), "{event:?}"),
        }
    }
    client.send(other, b"the other flow").unwrap();
    loop {
        match next(&mut sleeper) {
            Event::Message(m) if m.flow() == back => sleeper.release(m),
            Event::Closed { flow, .. } => assert_eq!(flow, back),
            Event::Message(m) => {
                assert_eq!(sleeper.to_vec(&m), b"the other flow");
                break sleeper.release(m);
            }
            event => panic!("{event:?}"),
        }
    }
    drop((client, sleeper));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn releases_never_wait_for_the_ring() {
    let pair = pair();
    let mut client = attach(&pair.a, "client");
    let geometry = Geometry { cq_entries: 1024, ..SMALL };
    let mut server = attach_with(&pair.b, "server", Some(Geometry { recv_bytes: 1 << 20, ..geometry }));
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    for i in 0..600 {
        client.send(flow, &pattern(i, 100)).unwrap();
    }
    let mut held = vec![];
    while held.len() < 600 {
        let Event::Message(m) = next(&mut server) else { panic!() };
        held.push(m);
    }
    // Far more than the ring of eight holds, in one go.
    for (i, m) in held.into_iter().enumerate() {
        assert!(server.to_vec(&m) == pattern(i as u64, 100));
        server.release(m);
    }
    // A wait brings them to the daemon, though no event comes.
    let waiting = thread::spawn(move || {
        let event = server.wait_event(Some(PATIENCE)).unwrap();
        (event.map(|e| matches!(e, Event::Message(_))), server)
    });
    eventually("all memory is back", || counter(&pair.b, "applications.recv_bytes_used") == 0);
    client.send(flow, b"wake").unwrap();
    assert_eq!(waiting.join().unwrap().0, Some(true));
}

#[test]
fn a_thousand_flows_are_reset_at_once() {
    const FLOWS: u64 = 1000;
    let pair = pair_with(|c| c.transport.keepalive = barewire_base::Duration::from_secs(1000));
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    server.listen_wait(888, 0, PATIENCE).unwrap();
    for token in 0..FLOWS {
        client.connect(to(2, 888), &barewire_client::ConnectOptions { token, ..Default::default() }).unwrap();
        assert!(matches!(next(&mut client), Event::Connected { token: t, .. } if t == token));
        accept(&mut server);
    }
    drop(client);
    for _ in 0..FLOWS {
        assert!(matches!(next(&mut server), Event::Closed { reason: CloseReason::Reset, .. }));
    }
    println!("{FLOWS} resets heard");
    drop(server);
    is_empty_again(&pair.b);
}

/// Connects `count` times and says how often it was told what, in the order of tokens.
fn connects(client: &mut Client, to: std::net::SocketAddr, count: u64) -> (Vec<FlowId>, Vec<u64>) {
    let (mut flows, mut failed, mut told) = (vec![], vec![], vec![]);
    let mut asked = 0;
    while told.len() < count as usize {
        while asked < count {
            let options = barewire_client::ConnectOptions { token: asked, ..Default::default() };
            if client.connect(to, &options).is_err() {
                break;
            }
            asked += 1;
        }
        match next_real(client) {
            Event::Connected { flow, token, .. } => {
                flows.push(flow);
                told.push(token);
            }
            Event::ConnectFailed { token, .. } => {
                failed.push(token);
                told.push(token);
            }
            other => panic!("{other:?}"),
        }
    }
    told.sort_unstable();
    assert_eq!(told, (0..count).collect::<Vec<_>>());
    (flows, failed)
}

#[test]
fn more_flows_than_there_is_room_for() {
    // At the server's table, at the client's ring of completions, at the listener's, at the client's table.
    let small = Some(Geometry { cq_entries: 32, ..SMALL });
    for (what, geometry_a, geometry_b, flows_a, flows_b, room) in [
        ("the server's table", None, None, 1024, 10, 10),
        ("the client's table", None, None, 10, 1024, 10),
        ("the client's completions", small, None, 1024, 1024, 16),
        ("the listener's completions", None, small, 1024, 1024, 16),
    ] {
        let pair = pair_with(|c| {
            c.transport.flows_max = if c.interface.ipv4[0].0 == v4(1) { flows_a } else { flows_b }
        });
        let mut client = attach_with(&pair.a, "client", geometry_a);
        let mut server = attach_with(&pair.b, "server", geometry_b);
        server.listen_wait(888, 0, PATIENCE).unwrap();
        for round in 0..3 {
            let (connected, wanted) = std::sync::mpsc::channel();
            let reader = thread::spawn(move || {
                // Takes what comes, so that only the limit in question limits; until as many have come as have connected.
                let (mut accepted, mut expected) = (0, None);
                let end = barewire_engine::now() + PATIENCE.into();
                while expected != Some(accepted) && barewire_engine::now() < end {
                    if let Some(event) = server.wait_event(Some(Duration::from_millis(20))).unwrap() {
                        accepted += usize::from(matches!(event, Event::Accepted { .. }));
                    }
                    expected = expected.or_else(|| wanted.try_recv().ok());
                }
                (server, accepted)
            });
            let (flows, failed) = connects(&mut client, to(2, 888), 60);
            connected.send(flows.len()).unwrap();
            let accepted;
            (server, accepted) = reader.join().unwrap();
            assert_eq!(accepted, flows.len(), "{what}");
            println!("{what}, round {round}: {} connected, {} refused", flows.len(), failed.len());
            assert!(flows.len() <= room && flows.len() >= room / 2, "{what}: {}", flows.len());
            let promised = |daemon| counter(daemon, "applications.promised") as usize;
            eventually("one completion is promised for each flow", || promised(&pair.a) == flows.len());
            eventually("one completion is promised for each flow", || promised(&pair.b) == flows.len());
            for &flow in &flows {
                client.send(flow, b"it works").unwrap();
                assert_eq!(message(&mut server), b"it works");
                client.close(flow).unwrap();
                assert!(matches!(next_real(&mut client), Event::Closed { reason: CloseReason::Local, .. }));
                assert!(matches!(next_real(&mut server), Event::Closed { reason: CloseReason::Peer, .. }));
            }
            for daemon in [&pair.a, &pair.b] {
                eventually("nothing is promised", || promised(daemon) == 0);
                eventually("no flow is left", || counter(daemon, "transport.flows") == 0);
            }
        }
    }
}

#[test]
fn requests_that_wait_are_all_served_in_the_end() {
    let pair = pair();
    let mut client = attach_with(&pair.a, "client", Some(SMALL));
    // Nobody has that address: each waits for as long as it takes to find out, and eight fit at once.
    let (flows, failed) = connects(&mut client, to(99, 1), 100);
    assert_eq!((flows.len(), failed.len()), (0, 100));
    // And messages for flows that do not exist, which only a library unlike ours sends, without taking completions meanwhile.
    let (control, fds, _) = attach_raw(&pair.a, Some(SMALL));
    let mut raw = AppChannel::attach(fds).unwrap();
    let (mut token, mut told) = (0, vec![]);
    while told.len() < 200 {
        while token < 200 && raw.submit(&Request::Send { flow: 12345, offset: 0, len: 10, token }) {
            token += 1;
        }
        match completion(&mut raw) {
            Completion::SendRefused { token, .. } => told.push(token),
            other => panic!("{other:?}"),
        }
    }
    drop((raw, control));
    assert_eq!(told, (0..200).collect::<Vec<_>>());
    drop(client);
    is_empty_again(&pair.a);
}

/// One application cannot have every port; what it gives up is there again.
#[test]
fn nobody_listens_on_every_port() {
    let pair = pair();
    let (control, fds, _) = attach_raw(&pair.a, None);
    let mut greedy = AppChannel::attach(fds).unwrap();
    let mut ask = |request: &Request| {
        assert!(greedy.submit(request));
        greedy.flush();
        completion(&mut greedy)
    };
    let listen = |udp_port| Request::Listen { token: 0, udp_port, local: None };
    for udp_port in 1..=1024 {
        assert_eq!(ask(&listen(udp_port)), Completion::Listening { token: 0, udp_port });
    }
    let code = listen_failure::LIMIT;
    assert_eq!(ask(&listen(2000)), Completion::ListenFailed { token: 0, udp_port: 2000, code });
    assert!(greedy.submit(&Request::Unlisten { udp_port: 7 }));
    assert!(greedy.submit(&Request::Unlisten { udp_port: 7 }));
    assert!(greedy.submit(&listen(2000)));
    greedy.flush();
    assert_eq!(completion(&mut greedy), Completion::Listening { token: 0, udp_port: 2000 });
    let mut other = attach(&pair.a, "other");
    other.listen_wait(7, 0, PATIENCE).unwrap();
    drop((control, greedy, other));
    is_empty_again(&pair.a);
}

/// A request that has no room holds up those behind it, but not what gives room back: that may be what it waits for.
#[test]
fn a_stalled_request_lets_releases_pass() {
    let pair = pair();
    let mut client = attach(&pair.b, "client");
    let (control, fds, _) = attach_raw(&pair.a, Some(SMALL));
    let mut lazy = AppChannel::attach(fds).unwrap();
    assert!(lazy.submit(&Request::Listen { token: 1, udp_port: 888, local: None }));
    lazy.flush();
    assert!(matches!(completion(&mut lazy), Completion::Listening { .. }));
    // Each flow has a completion promised for its end: six, of sixteen.
    let flows: Vec<FlowId> = (0..6)
        .map(|_| {
            let flow = connect(&mut client, to(1, 888));
            assert!(matches!(completion(&mut lazy), Completion::Accepted { .. }));
            flow
        })
        .collect();
    // Its memory is full of one message, which it has and keeps; the next one waits for room.
    client.send(flows[0], &pattern(1, 60_000)).unwrap();
    let Completion::Received { flow, offset, len } = completion(&mut lazy) else { panic!("a message") };
    client.send(flows[1], &pattern(2, 100)).unwrap();
    eventually("the second message is refused", || counter(&pair.a, "transport.drop.no_credit") > 0);
    // Eight completions that it does not take: two places are left, and to connect takes three.
    for i in 0..8u16 {
        while !lazy.submit(&Request::Listen { token: 2, udp_port: 900 + i, local: None }) {
            lazy.flush();
        }
        lazy.flush();
    }
    let listening = || counter(&pair.a, "transport.listeners") == 9;
    eventually("all listen", listening);
    let connect =
        Request::Connect { token: 3, local: None, local_udp_port: 0, remote: to(2, 999), ordered: true };
    assert!(lazy.submit(&connect));
    assert!(lazy.submit(&Request::Release { flow, offset, len }));
    lazy.flush();
    eventually("the second message has the room of the first", || {
        counter(&pair.a, "transport.messages_received") == 2
    });
    // It takes them, and everything that waited happens, in order.
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(Completion::ConnectFailed { token: 3, .. })) {
        seen.push(completion(&mut lazy));
    }
    assert!(seen[..8].iter().all(|c| matches!(c, Completion::Listening { .. })), "{seen:?}");
    assert!(matches!(seen[8], Completion::Received { len: 100, .. }), "{seen:?}");
    drop((control, lazy, client));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}
