//! Links in the middle that carry less than the interfaces at the ends, and say nothing: path MTU discovery by what arrives.

mod common;
use barewire_base::{Duration, Prng};
use barewire_frame::PoolConfig;
use barewire_sim::{LinkConfig, World, seeds_part};
use barewire_transport::*;
use barewire_wire::msg::flag;
use common::*;
use std::cell::RefCell;
use std::rc::Rc;

const ETHERNET: usize = 14;

fn link(packet_max: usize) -> LinkConfig {
    let rate_bps = Some(1_000_000_000);
    LinkConfig {
        rate_bps,
        queue_bytes: 1 << 20,
        frame_max: ETHERNET + packet_max,
        ..LinkConfig::perfect(us(50))
    }
}

/// A pair whose frames hold what a jumbo MTU allows.
fn pair(seed: u64, link: LinkConfig, config: &Config) -> Pair {
    let mut world =
        World::with_pool(seed, PoolConfig { chunk_len: 16_384, ..PoolConfig::default() }).unwrap();
    let pool = world.pool().clone();
    let a = world.add_node(Box::new(Station::new(1, pool.clone(), config.clone())));
    let mut server = Station::new(2, pool, config.clone());
    server.endpoint.listen(PORT, 0, 7).unwrap();
    let b = world.add_node(Box::new(server));
    let link = world.connect(a, b, link);
    Pair { world, a, b, link }
}

fn config(mtu: u16) -> Config {
    Config { mtu, mtu_raise: ms(500), ..Config::default() }
}

/// Sends `count` messages of `len` bytes from the first station and waits until all have arrived; says how long that took.
fn stream(p: &mut Pair, flow: FlowId, count: u64, len: usize) -> Duration {
    let (start, a, b) = (p.world.now(), p.a, p.b);
    let before = p.b().received;
    let mut left = count;
    p.world
        .run_while(secs(20), |w| {
            while left > 0 && w.node::<Station>(a).endpoint.messages_under_way() < 16 {
                let now = w.now();
                let s = w.node_mut::<Station>(a);
                s.now = now;
                s.send(flow, &message(left, len), left).unwrap();
                left -= 1;
            }
            w.node::<Station>(b).received < before + count
        })
        .unwrap_done();
    p.world.now().since(start)
}

fn payload_max(s: &Station, flow: FlowId) -> u16 {
    s.endpoint.flows().find(|f| f.id == flow).unwrap().payload_max
}

/// IP header, UDP header, ours, and the tag of an encrypted flow.
fn headers(v6: bool, is_sealed: bool) -> u16 {
    (if v6 { 40 } else { 20 }) + 8 + 52 + if is_sealed { 16 } else { 0 }
}

fn open(p: &mut Pair, v6: bool) -> (FlowId, FlowId) {
    let flow = p.connect(true, v6);
    let b = p.b;
    p.world.run_while(secs(5), |w| w.node::<Station>(b).flow_from().is_none()).unwrap_done();
    let peer = p.b().flow_from().unwrap();
    (flow, peer)
}

fn finds(packet_max: usize, mtu: u16, v6: bool, is_sealed: bool) {
    let mut p = pair(1, link(packet_max), &config(mtu));
    let (flow, peer) = open(&mut p, v6);
    p.b().keep = false;
    let took = stream(&mut p, flow, 1, 100_000);
    println!("{packet_max} of {mtu}, v6 {v6}, sealed {is_sealed}: {took} to the end of the first message");
    // Before the first round trip is measured, which in the clear the handshake does, time-outs are long.
    assert!(took < ms(if packet_max < 1_200 { 300 } else { 150 }), "{took}");
    stream(&mut p, flow, 300, 100_000);
    let most = packet_max as u16 - headers(v6, is_sealed);
    let unit = (mtu - headers(v6, is_sealed)).div_ceil(16);
    let found = payload_max(p.a(), flow);
    assert!(found <= most && found + unit > most.min(mtu), "{found} of {most}");
    let falls = if packet_max < 1_200 { 2 } else { 1 };
    assert_eq!(p.a().count("mtu_black_holes"), falls);
    // Who only receives has nothing to find out.
    assert_eq!(p.b().count("mtu_black_holes"), 0);
    // Three probes of each size that does not pass, and again when it is time.
    let probes = |p: &mut Pair| (p.a().count("mtu_probes"), p.a().count("mtu_probes_lost"));
    let before = probes(&mut p);
    assert!(before.1 >= 3 && before.0 <= 30, "{before:?}");
    p.run(ms(600));
    stream(&mut p, flow, 100, 100_000);
    let after = probes(&mut p);
    assert!(after.0 > before.0 && after.0 <= 2 * before.0 + 3, "{after:?} after {before:?}");
    // The other direction finds out by itself.
    p.b().send(peer, &message(1, 50_000), 1).unwrap();
    p.run(ms(400));
    assert_eq!(p.a().received_bytes, 50_000);
    assert_eq!(p.b().count("mtu_black_holes"), falls);
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, flow));
    p.run(ms(200));
    // Who comes later begins with it, and tries more when it is time.
    let (next, _) = {
        p.b().events.clear();
        open(&mut p, v6)
    };
    let holes = p.a().count("mtu_black_holes");
    let took = stream(&mut p, next, 1, 100_000);
    assert!(took < ms(40), "{took}");
    assert_eq!((p.a().count("mtu_black_holes"), payload_max(p.a(), next)), (holes, found));
    p.world.set_link(p.link, link(mtu.into()));
    p.run(ms(600));
    stream(&mut p, next, 50, 100_000);
    assert_eq!(payload_max(p.a(), next), mtu - headers(v6, is_sealed));
    // And who comes after that one knows of nothing.
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, next));
    p.run(ms(200));
    p.b().events.clear();
    let (last, _) = open(&mut p, v6);
    assert_eq!(payload_max(p.a(), last), mtu - headers(v6, is_sealed));
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, last));
    p.run(secs(2));
    p.assert_clean();
}

#[test]
fn a_narrow_link_is_found_and_what_it_carries() {
    for (packet_max, mtu) in
        [(1_400, 1_500), (1_280, 1_500), (1_202, 1_500), (600, 1_500), (1_500, 9_000), (4_000, 9_000)]
    {
        for v6 in [false, true] {
            finds(packet_max, mtu, v6, false);
            secured(Trust::Known, || finds(packet_max, mtu, v6, true));
        }
    }
}

#[test]
fn where_both_ends_and_the_path_agree_nothing_is_paid() {
    let mut p = pair(2, link(1_500), &config(1_500));
    let (flow, _) = p.open();
    p.b().keep = false;
    let took = stream(&mut p, flow, 200, 100_000);
    let off = Config { mtu_discovery: false, ..config(1_500) };
    let mut q = pair(2, link(1_500), &off);
    let (other, _) = q.open();
    q.b().keep = false;
    assert_eq!(took, stream(&mut q, other, 200, 100_000));
    for name in ["packets_tx", "segments_tx", "segments_resent", "acks_rx"] {
        assert_eq!(p.a().count(name), q.a().count(name), "{name}");
    }
    assert_eq!((p.a().count("mtu_probes"), p.a().count("pieces_tx")), (0, 0));
}

#[test]
fn a_path_that_narrows_and_widens_in_mid_flow_is_followed() {
    for mtu in [1_500, 9_000] {
        let mut p = pair(3, link(mtu.into()), &config(mtu));
        let (flow, _) = p.open();
        p.b().keep = false;
        stream(&mut p, flow, 20, 200_000);
        let full = payload_max(p.a(), flow);
        assert_eq!(full, mtu - headers(false, false));
        // While a message of many segments is under way.
        for (round, narrow) in [1_400, 1_250, 1_400].into_iter().enumerate() {
            let (at, l) = (p.world.now() + ms(3), p.link);
            p.world.at(at, move |w| w.set_link(l, link(narrow)));
            let took = stream(&mut p, flow, 10, 1_000_000);
            // 10 MB take 80 ms of a gigabit.
            assert!(took < ms(400), "{took}");
            assert!(payload_max(p.a(), flow) <= narrow as u16 - headers(false, false));
            assert_eq!(p.a().count("mtu_black_holes"), round as u64 + 1);
            p.world.set_link(p.link, link(mtu.into()));
            // A search that is under way comes to its end first.
            for _ in 0..2 {
                stream(&mut p, flow, 50, 200_000);
                p.run(ms(510));
            }
            stream(&mut p, flow, 10, 200_000);
            assert_eq!(payload_max(p.a(), flow), full, "it is whole again");
        }
        assert_eq!(p.a().closes(), []);
        p.a().endpoint.audit().unwrap();
        p.b().endpoint.audit().unwrap();
    }
}

#[test]
fn loss_is_no_black_hole() {
    for seed in 0..20 {
        let lossy = LinkConfig { loss: 0.05, ..link(1_500) };
        let mut p = pair(100 + seed, lossy, &config(1_500));
        let (flow, _) = p.open();
        p.b().keep = false;
        stream(&mut p, flow, 50, 100_000);
        assert_eq!(p.a().count("mtu_black_holes"), 0);
        // One segment at a time gives the least to judge by; who errs is soon set right.
        for _ in 0..500 {
            stream(&mut p, flow, 1, 1_420);
        }
        let fell = p.a().count("mtu_black_holes");
        assert!(fell <= 1, "{fell} times");
        p.run(ms(20));
        stream(&mut p, flow, 50, 20_000);
        assert_eq!(payload_max(p.a(), flow), 1_420);
    }
}

#[test]
fn who_is_taken_in_by_an_outage_is_whole_again_at_once() {
    for lasts in [ms(5), ms(37), ms(400), secs(2)] {
        let mut p = pair(4, link(1_500), &config(1_500));
        let (flow, _) = p.open();
        p.b().keep = false;
        stream(&mut p, flow, 20, 100_000);
        let at = p.world.now() + ms(1);
        p.world.set_link(p.link, LinkConfig { outages: vec![(at, lasts)], ..link(1_500) });
        stream(&mut p, flow, 50, 100_000);
        p.run(ms(20));
        stream(&mut p, flow, 2, 100_000);
        assert_eq!(payload_max(p.a(), flow), 1_420, "after {lasts}");
    }
}

/// Messages that fill no segment are all that there is to try larger packets with.
#[test]
fn who_is_taken_in_by_an_outage_and_sends_short_messages_is_whole_again_too() {
    for (mtu, len) in [(1_500, 1_300), (1_500, 1_000), (9_000, 4_000)] {
        let run = || {
            let mut p = pair(4, link(mtu.into()), &config(mtu));
            let (flow, _) = open(&mut p, false);
            p.b().keep = false;
            let full = payload_max(p.a(), flow);
            stream(&mut p, flow, 20, len);
            // As long as it takes to be taken in.
            let mut lasts = ms(10);
            while p.a().count("mtu_black_holes") == 0 {
                let at = p.world.now();
                p.world.set_link(p.link, LinkConfig { outages: vec![(at, lasts)], ..link(mtu.into()) });
                stream(&mut p, flow, 20, len);
                lasts = lasts.saturating_mul(2);
                assert!(lasts < secs(3));
            }
            for _ in 0..2 {
                p.run(ms(510));
                stream(&mut p, flow, 20, len);
            }
            let found = payload_max(p.a(), flow);
            assert!(usize::from(found) >= len, "{found} for {len} with {mtu}");
            let pieces = p.a().count("pieces_tx");
            stream(&mut p, flow, 50, len);
            assert_eq!(p.a().count("pieces_tx"), pieces, "{len} with {mtu}");
            // One that is longer finds the rest.
            for _ in 0..3 {
                stream(&mut p, flow, 10, 200_000);
                p.run(ms(510));
            }
            assert_eq!(payload_max(p.a(), flow), full);
        };
        run();
        secured(Trust::Known, run);
    }
}

/// A path can be too narrow for segments that would pass on most others.
#[test]
fn short_segments_find_a_path_that_is_narrower_still() {
    for (packet_max, len) in [(1_000, 1_020), (600, 700)] {
        let run = || {
            let mut p = pair(8, link(packet_max), &config(1_500));
            let (flow, _) = open(&mut p, false);
            p.b().keep = false;
            let took = stream(&mut p, flow, 50, len);
            assert!(took < ms(300), "{took}");
            assert_eq!(p.a().count("mtu_black_holes"), 1);
        };
        run();
        secured(Trust::Known, run);
    }
}

/// Silence is no want of room: who heard of that before goes on looking for what passes.
#[test]
fn a_path_that_narrows_is_found_while_the_receiver_has_no_room() {
    let roomy = Config { recv_window_bytes: 8 << 20, ..config(1_500) };
    let mut p = pair_of(9, link(1_500), &roomy, &roomy, 1 << 20);
    let (flow, _) = p.open();
    p.b().idle_owners = vec![0];
    p.b().keep = false;
    let mut sent = 0;
    while p.a().count("not_ready_rx") == 0 {
        p.a().send(flow, &message(sent, 50_000), sent).unwrap();
        sent += 1;
        p.run(ms(5));
        assert!(sent < 50);
    }
    p.world.set_link(p.link, link(1_400));
    p.run(secs(20));
    assert_eq!((p.a().closes(), p.b().closes()), (vec![], vec![]));
    assert!(p.a().count("mtu_black_holes") >= 1);
    let (now, b) = (p.world.now(), p.b);
    while p.b().read_one(now) {}
    p.b().idle_owners.clear();
    p.world.run_while(secs(5), |w| w.node::<Station>(b).received < sent).unwrap_done();
}

/// What the interface of one end carries changes under a flow: it goes on, within that.
#[test]
fn an_interface_that_is_narrowed_and_widened_ends_no_flow() {
    let run = || {
        let mut p = pair(6, link(1_500), &config(1_500));
        let (flow, peer) = open(&mut p, false);
        p.b().keep = false;
        let largest = Rc::new(RefCell::new(0));
        let (seen, b) = (largest.clone(), p.b);
        p.world.observe(move |d| {
            if d.to == b {
                let mut largest = seen.borrow_mut();
                *largest = d.bytes.len().max(*largest);
            }
        });
        stream(&mut p, flow, 20, 100_000);
        let full = payload_max(p.a(), flow);
        for (narrow, i) in [(1_300, 1), (900, 2), (1_400, 3)] {
            p.a().send(flow, &message(i, 500_000), i).unwrap();
            p.run(ms(1));
            let now = p.world.now();
            assert_eq!(p.a().endpoint.set_mtu(now, narrow), Ok(0));
            // What is in the queue and on the wire arrives.
            p.run(ms(5));
            *largest.borrow_mut() = 0;
            stream(&mut p, flow, 30, 100_000);
            let mtu = usize::from(narrow) + ETHERNET;
            assert!(*largest.borrow() <= mtu && *largest.borrow() > mtu - 130, "{}", largest.borrow());
        }
        let now = p.world.now();
        assert_eq!(p.a().endpoint.set_mtu(now, 1_500), Ok(0));
        stream(&mut p, flow, 30, 100_000);
        assert_eq!(payload_max(p.a(), flow), full);
        assert_eq!(p.a().count("mtu_black_holes"), 0);
        p.b().send(peer, &message(1, 50_000), 1).unwrap();
        p.run(ms(100));
        assert_eq!((p.a().received_bytes, p.a().closes()), (50_000, vec![]));
    };
    run();
    secured(Trust::Known, run);
    // Peers without pieces, and flows that are not open yet, cannot follow.
    let old = Config { mtu_discovery: false, ..config(1_500) };
    let mut p = pair_with(6, link(1_500), &config(1_500), &old);
    open(&mut p, false);
    p.connect(true, false);
    let now = p.world.now();
    assert_eq!(p.a().endpoint.set_mtu(now, 1_300), Ok(2));
}

/// A peer of before, or one that is told not to: nothing that it does not know reaches it.
#[test]
fn a_peer_without_pieces_is_left_in_peace() {
    for is_sealed in [false, true] {
        for old_client in [false, true] {
            let run = || {
                let (new, old) = (config(1_500), Config { mtu_discovery: false, ..config(1_500) });
                let (a, b) = if old_client { (&old, &new) } else { (&new, &old) };
                let mut p = pair_with(5, link(1_400), a, b);
                let pieces = Rc::new(RefCell::new(0));
                let seen = pieces.clone();
                p.world.observe(move |d| {
                    if kind_of(d.bytes).is_some_and(|(_, header)| header.flags & flag::PIECE != 0) {
                        *seen.borrow_mut() += 1;
                    }
                });
                let (flow, _) = open(&mut p, false);
                stream(&mut p, flow, 100, 1_000);
                p.a().send(flow, &message(1, 50_000), 1).unwrap();
                p.run(secs(7));
                // As it was: what does not pass ends the flow with its reason.
                assert_eq!(p.a().closes(), [CloseReason::TimedOut]);
                assert_eq!((*pieces.borrow(), p.a().count("pieces_tx")), (0, 0));
                assert_eq!(p.b().drops(barewire_base::DropReason::Malformed), 0);
            };
            if is_sealed { secured(Trust::Known, run) } else { run() }
        }
    }
}

/// Bad networks whose narrowest link changes again and again: every message exactly once, whole and in its place.
fn changing(seed: u64) {
    let mut prng = Prng::new(seed ^ 0x6d74_7500);
    let mtu = if prng.chance(0.3) { 9_000 } else { 1_500 };
    let patient = Config {
        dead_after: secs(60),
        keepalive_probes: 100,
        mtu_raise: ms(20 + prng.below(500)),
        recv_window_bytes: 65_536 << prng.below(6),
        ..config(mtu)
    };
    let ordered = prng.chance(0.5);
    let v6 = prng.chance(0.5);
    let mut p = pair(seed, LinkConfig::default(), &patient);
    let mut flow = p.connect(ordered, v6);
    p.run(ms(50));
    let peer = p.b().flow_from().unwrap();
    let mut weather = LinkConfig::rough(&mut prng);
    weather.rate_bps = weather.rate_bps.map(|rate| rate.max(100_000_000));
    // What the ends do not agree on is not on trial here, and damage makes other tests.
    weather.corrupt = None;
    let start = p.world.now();
    let l = p.link;
    for i in 0..40 {
        let packet_max = match prng.below(4) {
            0 => usize::from(mtu),
            1 => 600 + prng.below(600) as usize,
            _ => 1_200 + prng.below(u64::from(mtu) - 1_200) as usize,
        };
        let config = LinkConfig { frame_max: ETHERNET + packet_max, ..weather.clone() };
        p.world.at(start + Duration::from_nanos(i * 25_000_000 + prng.below(25_000_000)), move |w| {
            w.set_link(l, config.clone());
        });
    }
    let count = 60;
    let lens: Vec<usize> = (0..count)
        .map(|_| {
            let magnitude = 6 + prng.below(13);
            prng.below(1 << magnitude) as usize
        })
        .collect();
    let ledgers = [0, 1].map(|_| Rc::new(RefCell::new(Ledger::new(ordered))));
    let nodes = [p.a, p.b];
    for (to, from) in [(0, 1), (1, 0)] {
        let ledger = ledgers[from].clone();
        let station = p.world.node_mut::<Station>(nodes[to]);
        station.keep = false;
        station.on_message = Some(Box::new(move |_, _, bytes| ledger.borrow_mut().received(bytes)));
    }
    let mut next = [0usize; 2];
    p.world
        .run_while(secs(600), |w| {
            for side in [0, 1] {
                while next[side] < count && w.node::<Station>(nodes[side]).endpoint.messages_under_way() < 4 {
                    let now = w.now();
                    let station = w.node_mut::<Station>(nodes[side]);
                    station.now = now;
                    let bytes = message((side * count + next[side]) as u64, lens[next[side]]);
                    station.send([flow, peer][side], &bytes, next[side] as u64).unwrap();
                    ledgers[side].borrow_mut().sent(&bytes);
                    next[side] += 1;
                }
            }
            nodes.iter().any(|n| {
                let s = w.node::<Station>(*n);
                s.received < count as u64 || s.endpoint.messages_under_way() > 0
            })
        })
        .unwrap_done();
    for (ledger, node) in ledgers.iter().zip(nodes) {
        ledger.borrow().check.finish().unwrap();
        let s = p.world.node_mut::<Station>(node);
        assert!(s.sent.iter().all(|s| s.1), "a message that arrived was reported as failed");
        s.on_message = None;
        s.endpoint.audit().unwrap();
    }
    p.world.set_link(p.link, LinkConfig::default());
    let now = p.world.now();
    assert!(p.a().endpoint.close(now, std::mem::replace(&mut flow, peer)));
    p.run(secs(12));
    for node in nodes {
        p.world.node_mut::<Station>(node).endpoint.audit().unwrap();
    }
    p.assert_clean();
}

const SEEDS: u64 = 300;

#[test]
fn every_message_exactly_once_over_changing_paths() {
    seeds_part(SEEDS, 0, 2, changing);
}

#[test]
fn every_encrypted_message_exactly_once_over_changing_paths() {
    seeds_part(SEEDS, 1, 2, |seed| secured(Trust::of(seed), || changing(seed)));
}
