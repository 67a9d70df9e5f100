//! Peers that open flows as anybody may and then break the rules: what they leave behind, and what they keep from others.

mod common;
use barewire_base::DropReason;
use barewire_sim::{LinkConfig, LinkId, NodeId, World};
use barewire_transport::*;
use common::rogue::{self, Rogue};
use common::*;
use std::net::SocketAddr;

struct Rig {
    world: World,
    /// The server; its applications listen at `PORT` and above, one for each owner.
    s: NodeId,
    /// An honest client.
    c: NodeId,
    liar: NodeId,
    links: Vec<LinkId>,
}

fn server_at(udp_port: u16) -> SocketAddr {
    SocketAddr::new(ip(1, false), udp_port)
}

/// A server whose one application has `memory` bytes to receive into, an honest client and a liar around one hub.
fn rig(seed: u64, config: &Config, memory: usize) -> Rig {
    let mut world = World::new(seed);
    let pool = world.pool().clone();
    let station =
        |n, memory| Station::with_memory(n, pool.clone(), config.clone(), HeapMemory::new(memory, memory));
    let mut server = station(1, memory);
    server.endpoint.listen(PORT, 0, 7).unwrap();
    let s = world.add_node(Box::new(server));
    let c = world.add_node(Box::new(station(2, 4 << 20)));
    let liar = world.add_node(Box::new(Rogue::new(3, world.pool().clone())));
    let star = world.star(&[(s, mac(1)), (c, mac(2)), (liar, mac(3))], &LinkConfig::perfect(us(20)));
    Rig { world, s, c, liar, links: star.links }
}

impl Rig {
    fn server(&mut self) -> &mut Station {
        let now = self.world.local_now(self.s);
        let station = self.world.node_mut::<Station>(self.s);
        station.now = now;
        station
    }

    fn client(&mut self) -> &mut Station {
        let now = self.world.local_now(self.c);
        let station = self.world.node_mut::<Station>(self.c);
        station.now = now;
        station
    }

    fn liar(&mut self) -> &mut Rogue {
        self.world.node_mut::<Rogue>(self.liar)
    }

    fn run(&mut self, time: barewire_base::Duration) {
        assert_eq!(self.world.run_for(time), barewire_sim::Outcome::Done);
    }

    /// An open flow of the liar's.
    fn lie(&mut self, udp_port: u16) -> usize {
        let lie = self.liar().open(server_at(PORT), udp_port, false);
        self.run(ms(20));
        assert!(self.liar().is_open(lie));
        lie
    }

    /// An open flow of the honest client's, as the client names it.
    fn connect(&mut self) -> FlowId {
        let flow = connect(&mut self.world, self.c, 2, 1, true, false);
        self.run(ms(20));
        assert!(
            self.client().events.iter().any(|e| matches!(e, Event::Connected { flow: f, .. } if *f == flow)),
            "{:?}",
            self.client().events
        );
        flow
    }
}

/// A peer that ends its half although a message of it is missing breaks the protocol: nothing of what it sent may be
/// left for the flow that has its place next.
#[test]
fn an_end_with_a_message_missing_leaves_nothing_to_the_next_flow() {
    for stay in [false, true] {
        let mut r = rig(1, &Config { flows_max: 8, ..Config::default() }, 1 << 20);
        let lie = r.lie(2_000);
        let rogue::Lie { next: first, mss, .. } = r.liar().lies[lie];
        // The second message, whole; the first never comes, and its segment's number is the end's.
        r.liar().data(lie, first, 1, 8, 0, b"injected");
        r.liar().data(lie, first.wrapping_add(2), 2, 300_000, 0, &vec![0x22; mss.into()]);
        r.liar().data(lie, first.wrapping_add(1), 3, 4, 0, b"more");
        r.liar().fin(lie, first.wrapping_add(3));
        r.run(ms(5));
        if !stay {
            r.liar().lies[lie].gone = true;
        }
        r.run(secs(1));
        assert_eq!(r.server().closes(), [CloseReason::PeerFault], "the application is told why");
        assert_idle(r.server());

        // The innocent has the very place of that flow.
        let flow = r.connect();
        r.client().send(flow, b"a", 1).unwrap();
        r.client().send(flow, b"b", 2).unwrap();
        r.run(ms(20));
        let got: Vec<_> = r.server().inbox.iter().map(|m| m.1.clone()).collect();
        assert_eq!(got, [b"a", b"b"]);
        r.server().endpoint.audit().unwrap();
    }
}

/// The same with messages of which only a part came, out of the window's whole length, and by flows without order.
#[test]
fn no_number_of_unfinished_flows_uses_anything_up() {
    let config = Config { flows_max: 8, recv_messages_max: 600, ..Config::default() };
    let mut r = rig(2, &config, 1 << 20);
    for round in 0..20 {
        let lie = r.liar().open(server_at(PORT), 2_000 + round, round % 2 == 1);
        r.run(ms(20));
        assert!(r.liar().is_open(lie), "flow {round}");
        let rogue::Lie { next: first, mss, .. } = r.liar().lies[lie];
        for i in 0..255u32 {
            r.liar().data(lie, first.wrapping_add(i), 1 + i % 255, 2_000, 0, &vec![0x22; mss.into()]);
        }
        r.liar().fin(lie, first.wrapping_add(255));
        r.run(ms(5));
        r.liar().lies[lie].gone = true;
        r.run(ms(500));
        r.server().endpoint.audit().unwrap();
    }
    r.run(secs(10));
    assert_idle(r.server());
    let flow = r.connect();
    r.client().send(flow, &message(1, 500_000), 1).unwrap();
    r.run(ms(100));
    assert_eq!(r.server().inbox.len(), 1);
}

/// One packet may ask for all of an application's memory. Whoever lets it wait while others need that memory loses it.
#[test]
fn a_message_that_is_begun_and_left_does_not_keep_others_waiting() {
    let mut r = rig(3, &Config::default(), 1 << 20);
    let flow = r.connect();
    let lie = r.lie(2_000);
    r.liar().first_of(lie, 1 << 20);
    r.run(ms(10));
    assert_eq!(r.server().endpoint.memory().available().1, 0, "all of it is taken");
    for _ in 0..20 {
        // It is alive: it says so at any time.
        r.run(ms(50));
        r.liar().ack(lie, barewire_wire::msg::flag::ACK_NOW);
    }
    assert_eq!(r.server().closes(), [], "as long as nobody else wants it, it may take its time");
    r.client().send(flow, b"honest", 1).unwrap();
    for _ in 0..44 {
        r.run(ms(50));
        r.liar().ack(lie, barewire_wire::msg::flag::ACK_NOW);
    }
    assert_eq!(r.server().inbox.len(), 1, "the honest message arrived");
    assert_eq!(r.server().closes(), [CloseReason::Stalled]);
    assert_eq!(r.client().closes(), []);
    r.server().endpoint.audit().unwrap();
}

/// What one flow begins beyond its credit is not taken: the window is the receiver's to enforce.
#[test]
fn nobody_gets_more_than_the_credit_it_was_granted() {
    let config = Config { recv_window_bytes: 64 << 10, ..Config::default() };
    let mut r = rig(4, &config, 4 << 20);
    r.server().idle_owners = vec![0];
    let lie = r.lie(2_000);
    for i in 0..200 {
        r.liar().message(lie, &message(i, 1_000));
    }
    r.run(ms(50));
    let held: u32 = r.server().held.iter().map(|h| h.1.len).sum();
    assert!((60_000..=68_000).contains(&held), "{held} bytes of 64 KiB granted");
    assert!(r.server().drops(DropReason::OverCredit) > 100);
    // Released, they are granted again, to whoever asks properly.
    let now = r.world.now();
    while r.server().read_one(now) {}
    r.server().idle_owners.clear();
    let flow = r.connect();
    for i in 0..200 {
        r.client().send(flow, &message(i, 1_000), i).unwrap();
    }
    r.run(ms(100));
    assert_eq!(r.client().sent.len(), 200);
    assert_eq!(r.server().endpoint.received_messages() as usize, 0);
}

/// Honest flows of many small and a few large messages, in memory that holds one of the large ones, with loss: a later
/// message must not take what an earlier one needs, in one flow or between several.
#[test]
fn later_messages_leave_room_for_those_before_them() {
    for seed in 0..200 {
        let config = Config {
            recv_window_bytes: 1 << 20,
            recv_messages_max: if seed % 2 == 0 { 20 } else { 4096 },
            ..Config::default()
        };
        let mut r = rig(seed, &config, 64 << 10);
        let loss = LinkConfig { loss: 0.2, ..LinkConfig::perfect(us(20)) };
        let flows: Vec<_> = (0..3).map(|_| r.connect()).collect();
        for link in r.links.clone() {
            r.world.set_link(link, loss.clone());
        }
        let mut n = 0;
        for round in 0..8 {
            for flow in &flows {
                for len in [100, 40_000, 30 + round, 20_000, 0] {
                    n += 1;
                    r.client().send(*flow, &message(n, len as usize), n).unwrap();
                }
            }
        }
        let (s, c) = (r.s, r.c);
        let outcome = r.world.run_while(secs(60), |w| {
            (w.node::<Station>(s).received) < n || w.node::<Station>(c).sent.len() < n as usize
        });
        assert_eq!(
            outcome,
            barewire_sim::Outcome::Done,
            "seed {seed}: {} of {n} arrived; {:?} {:?}",
            r.world.node::<Station>(s).received,
            [s, c].map(|n| r.world.node::<Station>(n).closes()),
            r.world.node::<Station>(s).endpoint.flows().collect::<Vec<_>>()
        );
        r.server().endpoint.audit().unwrap();
    }
}

/// One host opens all the flows that it gets and keeps them: others, and connections from the server's own side, find
/// theirs.
#[test]
fn one_host_does_not_get_all_the_flows() {
    let mut r = rig(5, &Config { flows_max: 128, ..Config::default() }, 1 << 20);
    for i in 0..200 {
        r.liar().open(server_at(PORT), 2_000 + i, false);
        r.run(ms(1));
    }
    let refused = r.server().count("peer_share_refusals");
    assert!(refused > 100, "{refused}");
    for _ in 0..20 {
        r.connect();
    }
    let now = r.world.now();
    r.client().endpoint.listen(PORT, 0, 0).unwrap();
    let (local, remote) = (SocketAddr::new(ip(1, false), 0), SocketAddr::new(ip(2, false), PORT));
    r.server().endpoint.connect(now, 0, local, remote, true, 1).unwrap();
    r.run(ms(20));
    assert_eq!(r.server().connect_failures(), []);
    r.server().endpoint.audit().unwrap();
}

/// Of a small table neither.
#[test]
fn one_host_does_not_get_all_of_a_small_table() {
    let mut r = rig(10, &Config { flows_max: 16, ..Config::default() }, 1 << 20);
    for i in 0..30 {
        r.liar().open(server_at(PORT), 2_000 + i, false);
        r.run(ms(1));
    }
    for _ in 0..3 {
        r.connect();
    }
    r.server().endpoint.audit().unwrap();
}

/// A trickle keeps memory for a while, not for hours.
#[test]
fn a_message_that_trickles_does_not_keep_others_waiting_for_long() {
    let mut r = rig(6, &Config::default(), 1 << 20);
    let flow = r.connect();
    let lie = r.lie(2_000);
    let rogue::Lie { next: first, mss, .. } = r.liar().lies[lie];
    let payload = vec![0x33; mss.into()];
    r.client().send(flow, b"before", 1).unwrap();
    for i in 0..120 {
        r.liar().data(lie, first.wrapping_add(i), 0, 1 << 20, i * u32::from(mss), &payload);
        r.run(ms(100));
        if i == 1 {
            r.client().send(flow, b"honest", 2).unwrap();
        }
    }
    assert_eq!(r.server().closes(), [CloseReason::Stalled]);
    assert_eq!(r.server().inbox.len(), 2, "the honest messages arrived");
    r.server().endpoint.audit().unwrap();
}

/// Whole messages behind one that never comes are nobody's, and no less in the way than half of one: neither in memory nor in
/// places.
#[test]
fn whole_messages_behind_one_that_never_comes_do_not_keep_others_waiting() {
    for (memory, places) in [(64 << 10, 4096), (1 << 20, 600)] {
        let config = Config { recv_messages_max: places, ..Config::default() };
        let mut r = rig(7, &config, memory);
        let flow = r.connect();
        let lies: Vec<_> = (0..4).map(|i| r.lie(2_000 + i)).collect();
        for &lie in &lies {
            let first = r.liar().lies[lie].next;
            for i in 1..255 {
                r.liar().data(lie, first.wrapping_add(i), i, 65, 0, &[0x22; 65]);
            }
        }
        r.run(ms(10));
        // What cannot be handed over leaves some room: what can goes on, though slowly.
        let before = r.client().sent.len();
        for n in 0..4 {
            r.client().send(flow, &message(n, 4_000), n).unwrap();
        }
        r.run(ms(200));
        assert_eq!(r.client().sent.len() - before, 4, "{:?}", r.server().endpoint.memory().available());
        // And what needs more than that has it soon, though the liar is alive.
        let large = memory as u32 / 2;
        r.client().send(flow, &message(9, large as usize), 9).unwrap();
        for n in 10..300 {
            let _ = r.client().send(flow, &message(n, 200), n);
        }
        for _ in 0..60 {
            r.run(ms(50));
            for &lie in &lies {
                r.liar().ack(lie, barewire_wire::msg::flag::ACK_NOW);
            }
        }
        assert!(r.client().sent.contains(&(9, true)), "{:?}", r.server().closes());
        assert_eq!(r.client().closes(), []);
        r.server().endpoint.audit().unwrap();
    }
}

/// What is here already is no news: repeating it keeps no memory. And who let memory lie does not have all of it again at once.
#[test]
fn repeats_keep_no_memory_and_who_let_it_lie_leaves_some() {
    let mut r = rig(8, &Config::default(), 1 << 20);
    let flow = r.connect();
    let lies: Vec<_> = (0..40).map(|i| r.lie(2_000 + i)).collect();
    let mut at = 0;
    r.liar().first_of(lies[0], 1 << 20);
    r.run(ms(10));
    assert_eq!(r.server().endpoint.memory().available().1, 0, "all of it is taken");
    let began = r.world.now();
    let mut waits = vec![];
    for n in 0..10 {
        r.client().send(flow, &message(n, 100_000), n).unwrap();
        let asked = r.world.now();
        while r.client().sent.len() as u64 <= n {
            assert!(r.world.now().since(began) < secs(30), "{waits:?}; {:?}", r.server().closes());
            // All of them ask for all there is, again and again, more often than anybody honest does.
            for &lie in &lies[at..(at + 8).min(lies.len())] {
                let first = r.liar().lies[lie].next;
                let mss = r.liar().lies[lie].mss;
                r.liar().data(lie, first, 0, 1 << 20, 0, &vec![0x33; mss.into()]);
            }
            r.run(ms(1));
            at = r.server().closes().len().min(lies.len() - 1);
        }
        waits.push(r.world.now().since(asked));
    }
    assert!(waits[0] < secs(3), "{waits:?}");
    assert!(waits[1..].iter().all(|w| *w < ms(100)), "{waits:?}");
    assert_eq!(r.client().closes(), []);
    r.server().endpoint.audit().unwrap();
}

/// An application that does not read, however long, ends nobody's flow: neither that of a peer whose next message finds no room nor
/// of one whose later messages wait for it.
#[test]
fn an_application_that_does_not_read_ends_no_honest_flow() {
    let config = Config { recv_window_bytes: 1 << 20, ..Config::default() };
    let mut r = rig(9, &config, 64 << 10);
    r.server().idle_owners = vec![0];
    let flows: Vec<_> = (0..3).map(|_| r.connect()).collect();
    let loss = LinkConfig { loss: 0.3, ..LinkConfig::perfect(us(20)) };
    for link in r.links.clone() {
        r.world.set_link(link, loss.clone());
    }
    let mut n = 0;
    for _ in 0..60 {
        for &flow in &flows {
            r.client().send(flow, &message(n, 900), n).unwrap();
            n += 1;
        }
    }
    r.run(ms(50));
    // Signs of life come through.
    for link in r.links.clone() {
        r.world.set_link(link, LinkConfig { loss: 0.02, ..loss.clone() });
    }
    r.run(secs(40));
    assert_eq!((r.server().closes(), r.client().closes()), (vec![], vec![]));
    let s = r.s;
    let outcome = r.world.run_while(secs(60), |w| {
        let now = w.local_now(s);
        let server = w.node_mut::<Station>(s);
        server.now = now;
        while server.read_one(now) {}
        server.received < n
    });
    assert_eq!(outcome, barewire_sim::Outcome::Done, "{} of {n}", r.server().received);
    assert_eq!((r.server().closes(), r.client().closes()), (vec![], vec![]));
    r.server().endpoint.audit().unwrap();
}

/// The judge of progress is no rubber stamp: flows whose timers nobody runs, and what waits that nobody asks for, are named.
#[test]
fn flows_that_nobody_looks_after_are_seen() {
    let mut r = rig(21, &Config::default(), 1 << 20);
    let flow = r.connect();
    let now = r.world.now();
    assert_eq!(r.client().endpoint.audit_progress(now), Ok(()));
    let late = r.client().endpoint.audit_progress(now + secs(60)).unwrap_err();
    assert!(late.contains("its timer is due"), "{late}");
    // Sent and not asked for: in the list, so it is somebody's turn.
    r.client().send(flow, b"waits", 1).unwrap();
    assert_eq!(r.client().endpoint.audit_progress(now), Ok(()));
    r.run(ms(1));
    let now = r.world.now();
    assert_eq!(r.client().endpoint.audit_progress(now), Ok(()));
    assert_eq!(r.server().endpoint.audit_progress(now), Ok(()));
}

/// Who speaks from a listener's port is taken for the one that listens there.
#[test]
fn nobody_sends_from_the_port_of_anothers_listener() {
    let mut r = rig(22, &Config::default(), 1 << 20);
    let now = r.world.now();
    let (ours, to) = (ip(2, false), server_at(PORT));
    let e = &mut r.client().endpoint;
    e.listen_on(Some(ours), 7_000, 1, 0).unwrap();
    let mut from = |udp_port, owner| e.connect(now, owner, SocketAddr::new(ours, udp_port), to, true, 1);
    assert_eq!(from(7_000, 0), Err(ConnectError::PortTaken));
    from(7_000, 1).unwrap();
    from(7_001, 0).unwrap();
    assert_eq!(e.flows_used(), 2);
    assert!(e.unlisten(7_000, 1));
    e.connect(now, 0, SocketAddr::new(ours, 7_000), to, true, 1).unwrap();
    r.run(ms(20));
    assert_eq!(r.server().endpoint.flows_used(), 3);
}
