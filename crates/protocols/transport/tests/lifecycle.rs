//! How flows begin and end, and what applications are told.

mod common;
use barewire_sim::{Direction, LinkConfig, World};
use barewire_transport::*;
use common::*;
use std::net::SocketAddr;

fn wire() -> LinkConfig {
    LinkConfig { rate_bps: Some(1_000_000_000), ..LinkConfig::perfect(us(50)) }
}

fn small() -> Config {
    Config { flows_max: 16, ..Config::default() }
}

#[test]
fn closing_lets_everything_queued_arrive_both_ways() {
    for both in [false, true] {
        let mut p = pair(1, wire(), &small());
        let (flow, peer) = p.open();
        for i in 0..40 {
            p.a().send(flow, &message(i, 50_000), i).unwrap();
            p.b().send(peer, &message(i, 70_000), i).unwrap();
        }
        let now = p.world.now();
        assert!(p.a().endpoint.close(now, flow));
        if both {
            assert!(p.b().endpoint.close(now, peer));
        }
        assert_eq!(p.a().send(flow, b"late", 99), Err(SendError::Closing));
        p.run(secs(1));
        assert_eq!((p.a().inbox.len(), p.b().inbox.len()), (40, 40));
        assert!(p.a().sent.len() == 40 && p.a().sent.iter().all(|s| s.1));
        assert!(p.b().sent.len() == 40 && p.b().sent.iter().all(|s| s.1));
        assert_eq!(p.a().closes(), [CloseReason::Local]);
        assert_eq!(p.b().closes(), [if both { CloseReason::Local } else { CloseReason::Peer }]);
        assert_eq!(p.a().send(flow, b"late", 99), Err(SendError::NoSuchFlow));
        p.assert_clean();
    }
}

/// A flow that both ends have closed keeps its place for the time to linger, however young it is.
#[test]
fn a_short_flow_lingers_no_longer_than_it_has_to() {
    for trust in [None, Some(Trust::Known), Some(Trust::Anywhere)] {
        let run = || {
            let mut p = pair(21, wire(), &small());
            let (flow, _) = p.open();
            p.b().echo = true;
            p.a().send(flow, b"question", 1).unwrap();
            let (a, b) = (p.a, p.b);
            p.world.run_while(secs(1), |w| w.node::<Station>(a).received == 0).unwrap_done();
            let now = p.world.now();
            assert!(p.a().endpoint.close(now, flow));
            let kept = |e: &Endpoint<_>| e.flows_used() + e.lingering();
            let used = move |w: &World| [a, b].map(|n| kept(&w.node::<Station>(n).endpoint));
            p.world.run_while(secs(1), |w| used(w) != [0, 0]).unwrap_done();
            let took = p.world.now().since(now);
            assert!(took >= ms(50) && took < ms(56), "{took} {trust:?}");
            p.assert_clean();
        };
        match trust {
            Some(trust) => secured(trust, run),
            None => run(),
        }
    }
}

/// Who lingers keeps no place from others: there are more short flows in a while than places for as long as each lingers.
#[test]
fn flows_that_linger_leave_their_places_to_others() {
    let mut p = pair(22, wire(), &small());
    let (local, remote) = (SocketAddr::new(ip(1, false), 0), SocketAddr::new(ip(2, false), PORT));
    let (mut asked, end) = (0, p.world.now() + ms(500));
    while p.world.now() < end {
        let now = p.world.now();
        if let Ok(flow) = p.a().endpoint.connect(now, 0, local, remote, true, asked) {
            p.a().send(flow, b"question", asked).unwrap();
            assert!(p.a().endpoint.close(now, flow));
            asked += 1;
        }
        p.run(us(250));
    }
    p.run(secs(2));
    let (carried, refused) = (p.b().inbox.len() as u64, p.a().connect_failures().len() as u64);
    assert_eq!(carried + refused, asked);
    // Fourteen places that strangers may have, ten times 50 ms: 140 where each keeps one for so long.
    assert!(carried > 500, "{carried} of {asked}");
    p.assert_clean();
}

/// The last acknowledgement is lost, and its flow's place has another flow: what is left of it answers the repeat, and the other flow
/// hears nothing of that. A client's late INIT opens no flow.
#[test]
fn what_is_left_of_a_flow_answers_its_peer() {
    let mut p = pair(23, wire(), &Config { flows_max: 1, ..Config::default() });
    let (flow, peer) = p.open();
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, flow));
    // The end of our half has arrived, that of the peer's is on its way, and nothing gets there any more.
    let (a, b) = (p.a, p.b);
    p.world.run_while(secs(1), |w| w.node::<Station>(b).closes().is_empty()).unwrap_done();
    p.world.set_direction(p.link, Direction::Forward, LinkConfig::down());
    p.world.run_while(secs(1), |w| w.node::<Station>(a).closes().is_empty()).unwrap_done();
    p.run(us(150));
    assert_eq!((p.a().endpoint.flows_used(), p.a().endpoint.lingering()), (0, 1));
    assert_eq!(p.b().endpoint.flows_used(), 1, "it waits for the acknowledgement");
    p.world.set_direction(p.link, Direction::Forward, wire());
    let next = p.connect(true, false);
    let start = p.world.now();
    p.world.run_while(secs(1), |w| w.node::<Station>(b).endpoint.flows_used() > 0).unwrap_done();
    let took = p.world.now().since(start);
    assert!(took < ms(20), "{took}");
    assert_eq!(p.b().closes(), [CloseReason::Peer]);
    let now = p.world.now();
    assert!(!p.b().endpoint.reset(now, peer) && !p.a().endpoint.close(now, flow));
    p.run(secs(2));
    let opened = p.a().events.iter().any(|e| matches!(e, Event::Connected { flow, .. } if *flow == next));
    let refused = p.a().connect_failures() == [ConnectFailure::TableFull];
    assert!(opened || refused);
    let now = p.world.now();
    p.a().endpoint.close(now, next);
    p.run(secs(2));
    p.assert_clean();
}

#[test]
fn a_long_answer_outlives_the_patience_of_the_end_that_closed() {
    // The answer takes 10 s at 10 Mbit/s; nothing of the closing end's own is under way meanwhile.
    let slow = LinkConfig { rate_bps: Some(10_000_000), queue_bytes: 1 << 20, ..LinkConfig::perfect(us(50)) };
    let mut p = pair(2, slow, &small());
    let (flow, peer) = p.open();
    p.b().send(peer, &message(1, 12 << 20), 1).unwrap();
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, flow));
    p.run(secs(10));
    assert_eq!(p.a().inbox.len(), 0);
    p.run(ms(2_500));
    assert_eq!(p.a().inbox.len(), 1);
    assert_eq!(p.a().closes(), [CloseReason::Local]);
    p.assert_clean();
}

#[test]
fn closing_waits_for_a_peer_that_reads_late() {
    let mut p = pair(3, wire(), &Config { recv_window_bytes: 16_384, ..small() });
    let (flow, _) = p.open();
    p.b().idle_owners = vec![0];
    for i in 0..10 {
        p.a().send(flow, &message(i, 10_000), i).unwrap();
    }
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, flow));
    p.run(secs(30));
    assert_eq!(p.a().closes(), []);
    let mut read = 0;
    for _ in 0..10 {
        let now = p.world.now();
        while p.b().read_one(now) {
            read += 1;
        }
        p.run(secs(1));
    }
    assert_eq!(read, 10);
    assert_eq!(p.a().closes(), [CloseReason::Local]);
    assert!(p.a().sent.iter().all(|s| s.1));
    p.assert_clean();
}

#[test]
fn a_flow_may_be_closed_before_it_is_open() {
    // With something to say it opens first.
    let mut p = pair(4, wire(), &small());
    let flow = p.connect(true, false);
    p.a().send(flow, b"only this", 1).unwrap();
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, flow));
    assert_eq!(p.a().send(flow, b"more", 2), Err(SendError::Closing));
    p.run(ms(300));
    assert_eq!(p.b().inbox[0].1, b"only this");
    assert_eq!(p.a().sent, [(1, true)]);
    assert!(matches!(p.a().events[0], Event::Connected { .. }));
    assert_eq!((p.a().closes(), p.b().closes()), (vec![CloseReason::Local], vec![CloseReason::Peer]));
    p.assert_clean();
    // With nothing to say it does not; nor when it is reset.
    for reset in [false, true] {
        let mut p = pair(5, wire(), &small());
        let flow = p.connect(true, false);
        let now = p.world.now();
        let a = &mut p.a().endpoint;
        assert!(if reset { a.reset(now, flow) } else { a.close(now, flow) });
        p.run(ms(300));
        assert_eq!(p.a().connect_failures(), [ConnectFailure::Cancelled]);
        assert_eq!((p.a().events.len(), p.b().events.len()), (1, 0));
        p.assert_clean();
    }
}

#[test]
fn a_reset_is_told_at_once_and_fails_what_was_under_way() {
    let mut p = pair(6, wire(), &small());
    let (flow, peer) = p.open();
    p.a().send(flow, &message(1, 1 << 20), 1).unwrap();
    p.b().send(peer, &message(2, 1 << 20), 2).unwrap();
    p.run(us(300));
    let now = p.world.now();
    assert!(p.a().endpoint.reset(now, flow));
    assert!(!p.a().endpoint.reset(now, flow));
    p.run(ms(12));
    assert_eq!((p.a().closes(), p.b().closes()), (vec![CloseReason::LocalReset], vec![CloseReason::Reset]));
    assert_eq!((p.a().sent.clone(), p.b().sent.clone()), (vec![(1, false)], vec![(2, false)]));
    p.run(secs(1));
    p.assert_clean();
}

#[test]
fn a_lost_reset_is_repeated_to_whoever_goes_on_talking() {
    let mut p = pair(7, wire(), &small());
    let (flow, peer) = p.open();
    p.world.set_direction(p.link, Direction::Forward, LinkConfig::down());
    let now = p.world.now();
    p.a().endpoint.reset(now, flow);
    p.run(ms(1));
    p.world.set_direction(p.link, Direction::Forward, wire());
    p.b().send(peer, b"hello?", 1).unwrap();
    p.run(ms(1));
    assert_eq!(p.b().closes(), [CloseReason::PeerRestarted]);
    assert_eq!(p.b().sent, [(1, false)]);
    p.assert_clean();
}

#[test]
fn a_killed_peer_is_missed() {
    let mut p = pair(8, wire(), &small());
    p.open();
    let start = p.world.now();
    let (a, b) = (p.a, p.b);
    drop(p.world.kill(b));
    p.world.run_while(secs(20), |w| w.node::<Station>(a).closes().is_empty()).unwrap_done();
    assert_eq!(p.a().closes(), [CloseReason::TimedOut]);
    // Five seconds of silence, three questions a second apart, and a second for the last one.
    let took = p.world.now().since(start);
    assert!(took >= ms(7_900) && took <= ms(8_100), "{took}");
    assert_eq!(p.a().count("keepalives_tx"), 3);
    assert_eq!(p.a().endpoint.flows_used(), 0);
}

#[test]
fn a_living_but_silent_peer_is_not() {
    let mut p = pair(9, wire(), &small());
    p.open();
    p.run(secs(120));
    assert_eq!((p.a().closes(), p.b().closes()), (vec![], vec![]));
    let asked = p.a().count("keepalives_tx") + p.b().count("keepalives_tx");
    assert!((40..=48).contains(&asked), "each end asks once in five seconds: {asked}");
    // Stamps have gone around their circle: a flow that slept is as good as new, even when its first packets are lost.
    for gap in [20, 40, 60, 75] {
        p.run(secs(gap));
        let flow = p.a().flow_from().unwrap();
        p.world.set_direction(p.link, Direction::Forward, LinkConfig { loss: 0.3, ..wire() });
        let (a, b, before, start) = (p.a, p.b, p.b().received, p.world.now());
        for i in 0..30 {
            p.a().send(flow, &message(i, 3_000), i).unwrap();
        }
        p.world.run_while(secs(5), |w| w.node::<Station>(b).received < before + 30).unwrap_done();
        let took = p.world.now().since(start);
        assert!(took <= ms(60), "after {gap} s: {took}");
        p.world.set_direction(p.link, Direction::Forward, wire());
        let rtt = p.world.node::<Station>(a).endpoint.flows().next().unwrap().rtt;
        assert!(rtt < ms(2), "{rtt}");
    }
}

#[test]
fn a_restarted_peer_says_so_at_the_first_packet() {
    let mut p = pair(10, wire(), &small());
    let (flow, _) = p.open();
    let pool = p.world.pool().clone();
    let memory = HeapMemory::new(16 << 20, 16 << 20);
    let mut again = Station::with_secret(2, pool, small(), memory, [0x77; 32]);
    again.endpoint.listen(PORT, 0, 7).unwrap();
    p.world.restart(p.b, Box::new(again));
    p.run(ms(10));
    assert_eq!(p.a().closes(), []);
    p.a().send(flow, b"are you still there?", 1).unwrap();
    p.run(us(400));
    assert_eq!(p.a().closes(), [CloseReason::PeerRestarted]);
    assert_eq!(p.a().sent, [(1, false)]);
    p.a().events.clear();
    let (flow, _) = p.open();
    p.a().send(flow, b"you are", 2).unwrap();
    p.run(ms(1));
    assert_eq!(p.b().inbox.len(), 1);
    p.world.close().unwrap();
}

#[test]
fn idle_flows_end_when_that_is_wanted() {
    let idle = Config { idle_timeout: Some(secs(2)), ..small() };
    let mut p = pair_with(11, wire(), &idle, &small());
    let (flow, peer) = p.open();
    for i in 0..5 {
        p.run(ms(1_500));
        // Either direction counts as use.
        if i % 2 == 0 {
            p.a().send(flow, b"x", i).unwrap()
        } else {
            p.b().send(peer, b"y", i).unwrap()
        };
    }
    assert_eq!(p.a().closes(), []);
    p.run(ms(2_200));
    assert_eq!((p.a().closes(), p.b().closes()), (vec![CloseReason::Idle], vec![CloseReason::Peer]));
    p.assert_clean();
}

#[test]
fn nobody_listening_means_refused() {
    let mut p = pair(12, wire(), &small());
    assert!(p.b().endpoint.unlisten(PORT, 0) && !p.b().endpoint.unlisten(PORT, 0));
    p.connect(true, false);
    p.run(ms(1));
    assert_eq!(p.a().connect_failures(), [ConnectFailure::Refused]);
    p.assert_clean();
}

#[test]
fn a_dead_host_is_unreachable_or_silent() {
    let mut p = pair(13, wire(), &small());
    // Its address cannot be resolved.
    let now = p.world.now();
    let local = SocketAddr::new(ip(1, false), 0);
    p.a().endpoint.connect(now, 0, local, SocketAddr::new(ip(9, false), PORT), true, 5).unwrap();
    p.run(secs(4));
    assert_eq!(p.a().connect_failures(), [ConnectFailure::Unreachable]);
    // Its address is known from before.
    let (flow, _) = p.open();
    let now = p.world.now();
    p.a().endpoint.reset(now, flow);
    p.run(ms(1));
    p.a().events.clear();
    drop(p.world.kill(p.b));
    p.connect(true, false);
    p.run(ms(4_900));
    assert_eq!(p.a().connect_failures(), []);
    p.run(ms(200));
    assert_eq!(p.a().connect_failures(), [ConnectFailure::TimedOut]);
    assert_eq!(p.a().endpoint.flows_used(), 0);
}

#[test]
fn a_listener_belongs_to_one_application() {
    let mut p = pair(14, wire(), &small());
    let e = &mut p.b().endpoint;
    assert_eq!(e.listen(0, 1, 0), Err(ListenError::PortZero));
    assert_eq!(e.listen(PORT, 1, 0), Err(ListenError::PortTaken));
    e.listen(PORT + 1, 1, 9).unwrap();
    assert!(!e.unlisten(PORT + 1, 0), "not theirs");
    assert!(e.serves(PORT) && e.serves(PORT + 1) && !e.serves(PORT + 2));
    let now = p.world.now();
    let local = SocketAddr::new(ip(1, false), 5_000);
    for port in [PORT, PORT + 1] {
        p.a().endpoint.connect(now, 0, local, SocketAddr::new(ip(2, false), port), true, 5).unwrap();
    }
    p.run(ms(1));
    let told: Vec<_> = p.b().events.iter().map(|e| format!("{e:?}")).collect();
    assert_eq!(told.len(), 2);
    assert!(
        told.iter().any(|e| e.contains("owner: 0, token: 7"))
            && told.iter().any(|e| e.contains("owner: 1, token: 9"))
    );

    // Two flows share the client's port; it is served until the last of them is gone.
    assert!(p.a().endpoint.serves(5_000));
    let flows: Vec<_> = p.a().endpoint.flows().map(|f| f.id).collect();
    let now = p.world.now();
    p.a().endpoint.reset(now, flows[0]);
    assert!(p.a().endpoint.serves(5_000));
    p.a().endpoint.reset(now, flows[1]);
    assert!(!p.a().endpoint.serves(5_000));
    p.run(ms(1));

    // A listener may go; its flows go on, and so its port is served.
    p.a().events.clear();
    let (flow, _) = p.open();
    assert!(p.b().endpoint.unlisten(PORT, 0));
    assert!(p.b().endpoint.serves(PORT));
    p.a().send(flow, b"still", 1).unwrap();
    p.run(ms(1));
    assert_eq!(p.b().inbox.len(), 1);
}

#[test]
fn an_application_that_is_gone_leaves_nothing_behind() {
    let mut p = pair(15, wire(), &Config { recv_messages_max: 100, send_messages_max: 100, ..small() });
    for round in 0..4 {
        p.a().events.clear();
        p.b().events.clear();
        let (flow, peer) = p.open();
        // The server's application dies with messages unread and read but held, others on their way in both directions.
        p.b().idle_owners = vec![0];
        for i in 0..30 {
            p.a().send(flow, &message(i, 30_000), i).unwrap();
            p.b().send(peer, &message(i, 30_000), i).unwrap();
        }
        p.run(ms(1 + round));
        let gone = p.world.now();
        if round == 3 {
            // One that it holds of a flow that is gone already.
            p.b().endpoint.reset(gone, peer);
        }
        let held: Vec<_> = p.b().held.drain(..).collect();
        assert!(!held.is_empty());
        let b = &mut p.b().endpoint;
        b.drop_owner(gone, 0);
        assert_eq!((b.flows_used(), b.messages_under_way(), b.received_messages()), (0, 0, 0));
        // The channel of the dead takes its memory with it: the owner of the endpoint frees it.
        for (_, buf) in &held {
            b.memory_mut().free(*buf);
        }
        let other = HeapMemory::new(16 << 20, 16 << 20).available().1;
        assert_eq!(b.memory().available().1, other);
        p.b().endpoint.listen(PORT, 0, 7).unwrap();
        p.b().all_free.0 = p.b().endpoint.memory().available().0;
        p.run(ms(20));
        assert_eq!(p.a().closes(), [CloseReason::Reset]);
        assert_eq!(p.a().endpoint.flows_used(), 0);
    }
}

#[test]
fn a_message_released_twice_grants_nothing_twice() {
    let mut p = pair(16, wire(), &small());
    let (flow, _) = p.open();
    p.b().idle_owners = vec![0];
    p.a().send(flow, b"one", 1).unwrap();
    p.a().send(flow, b"two", 2).unwrap();
    p.run(ms(1));
    let (peer, buf) = p.b().held[0];
    let now = p.world.now();
    let b = &mut p.b().endpoint;
    for _ in 0..5 {
        b.release(now, peer, buf);
    }
    assert_eq!(b.received_messages(), 0, "two were held, so two were believed");
    b.reset(now, peer);
    b.release(now, peer, buf);
    assert_eq!(b.received_messages(), 0);
}

#[test]
fn an_application_that_takes_no_events_cannot_queue_without_end() {
    let mut p = pair(17, wire(), &Config { send_messages_max: 8, ..small() });
    let (flow, _) = p.open();
    // Driven past its events: they stay in the endpoint.
    let now = p.world.now();
    let a = &mut p.a().endpoint;
    let mut taken = 0;
    for _ in 0..8 {
        let buf = a.memory_mut().reserve(1).unwrap();
        taken += u32::from(a.send(now, flow, buf, 0).is_ok());
    }
    let buf = a.memory_mut().reserve(1).unwrap();
    assert_eq!((taken, a.send(now, flow, buf, 0)), (8, Err(SendError::WouldBlock)));
}
