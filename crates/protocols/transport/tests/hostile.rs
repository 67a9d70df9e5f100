//! What strangers and liars can do: be counted.

mod common;
use barewire_base::{DropReason, Duration, Instant, Prng};
use barewire_sim::{Direction, LinkConfig, LinkFilter};
use barewire_transport::*;
use barewire_wire::msg::{self, Kind, flag};
use common::*;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

fn config() -> Config {
    Config { flows_max: 64, ..Config::default() }
}

fn wire() -> LinkConfig {
    LinkConfig::perfect(us(50))
}

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

type Recording = Rc<RefCell<Vec<(Direction, Vec<u8>)>>>;

/// Keeps every transport packet that is delivered from now on, as whole frames.
fn record(p: &mut Pair) -> Recording {
    let recording: Recording = Rc::default();
    let keep = recording.clone();
    p.world.observe(move |d| {
        if kind_of(d.bytes).is_some() {
            keep.borrow_mut().push((d.direction, d.bytes.to_vec()));
        }
    });
    recording
}

fn inject(p: &mut Pair, direction: Direction, bytes: &[u8]) {
    let mut frame = p.world.pool().alloc().unwrap();
    assert!(frame.set_len(bytes.len()));
    frame.data_mut().copy_from_slice(bytes);
    p.world.inject(p.link, direction, frame);
}

/// A forged packet towards the server (forward) or the client, from the right or a given address.
fn forge(p: &mut Pair, direction: Direction, src: (Ipv4Addr, u16), dst_port: u16, packet: &[u8]) {
    let (macs, dst) = match direction {
        Direction::Forward => ((mac(1), mac(2)), B),
        Direction::Reverse => ((mac(2), mac(1)), A),
    };
    let frame = forge::frame(&p.world.pool().clone(), macs, src, (dst, dst_port), packet);
    p.world.inject(p.link, direction, frame);
}

struct Known {
    client_port: u16,
    /// Connection ids: the one the server chose, then the client's.
    to_server: u64,
    to_client: u64,
}

/// An open flow, with what an observer on the path knows of it.
fn observed(p: &mut Pair) -> (FlowId, FlowId, Known, Recording) {
    let recording = record(p);
    let (flow, peer) = p.open();
    let client_port = p.a().endpoint.flows().next().unwrap().local.port();
    let find = |direction| {
        recording.borrow().iter().find_map(|(d, bytes)| {
            let (kind, header) = kind_of(bytes)?;
            (*d == direction && kind != Kind::Init).then_some(header.dst_cid)
        })
    };
    let known = Known {
        client_port,
        to_server: find(Direction::Forward).unwrap(),
        to_client: find(Direction::Reverse).unwrap(),
    };
    (flow, peer, known, recording)
}

/// Both directions still work.
fn assert_alive(p: &mut Pair, flow: FlowId, peer: FlowId) {
    let (a0, b0) = (p.a().received, p.b().received);
    p.a().send(flow, b"forth", 1).unwrap();
    p.b().send(peer, b"back", 2).unwrap();
    p.run(ms(5));
    assert_eq!((p.a().received - a0, p.b().received - b0), (1, 1));
    assert_eq!((p.a().closes(), p.b().closes()), (vec![], vec![]));
}

fn reset(dst_cid: u64, proof: u64) -> Vec<u8> {
    let mut body = [0; 10];
    body[..8].copy_from_slice(&proof.to_be_bytes());
    body[8..].copy_from_slice(&2u16.to_be_bytes());
    forge::packet(forge::header(Kind::Reset, dst_cid), &body)
}

#[test]
fn forged_resets_are_counted_and_nothing_else() {
    let mut p = pair(1, wire(), &config());
    let (flow, peer, known, _) = observed(&mut p);
    let mut prng = Prng::new(5);
    let mut n = 0;
    for _ in 0..2_000 {
        // The place of the flow is easy to guess; the rest of its id is not.
        let guess = prng.next_u64() & !0xffffff | known.to_server & 0xffffff;
        for packet in [reset(guess, 0), reset(0, guess), reset(0, 0), reset(guess, known.to_server)] {
            let port = if prng.chance(0.5) { known.client_port } else { 1 + prng.below(60_000) as u16 };
            forge(&mut p, Direction::Forward, (A, port), PORT, &packet);
            forge(&mut p, Direction::Reverse, (B, PORT), known.client_port, &packet);
            n += 1;
        }
        p.run(us(1));
    }
    // The right id from a wrong address proves nothing either.
    forge(
        &mut p,
        Direction::Forward,
        (Ipv4Addr::new(10, 0, 0, 77), known.client_port),
        PORT,
        &reset(known.to_server, 0),
    );
    forge(&mut p, Direction::Forward, (A, known.client_port + 1), PORT, &reset(known.to_server, 0));
    forge(&mut p, Direction::Forward, (A, known.client_port + 1), PORT, &reset(0, known.to_client));
    p.run(ms(1));
    assert_eq!(p.b().drops(DropReason::ForgedReset), n + 3);
    assert_eq!(p.a().drops(DropReason::ForgedReset), n);
    assert_eq!((p.a().count("resets_tx"), p.b().count("resets_tx")), (0, 0));
    assert_alive(&mut p, flow, peer);
    // One from the peer itself is believed: the test can tell the difference.
    forge(&mut p, Direction::Forward, (A, known.client_port), PORT, &reset(0, known.to_client));
    p.run(ms(1));
    assert_eq!(p.b().closes(), [CloseReason::PeerRestarted]);
}

#[test]
fn recorded_packets_say_nothing_twice() {
    let mut p = pair(2, wire(), &config());
    let (flow, peer, _, recording) = observed(&mut p);
    for i in 0..20 {
        p.a().send(flow, &message(i, 4_000), i).unwrap();
        p.b().send(peer, &message(i, 4_000), i).unwrap();
        p.run(ms(1));
    }
    let old: Vec<_> = recording.borrow().clone();
    assert!(old.len() > 100);
    p.run(secs(2));
    let rtt = |p: &mut Pair| p.a().endpoint.flows().next().unwrap().rtt;
    let (before, received) = (rtt(&mut p), (p.a().received, p.b().received));
    for _ in 0..3 {
        for (direction, bytes) in &old {
            inject(&mut p, *direction, bytes);
        }
        p.run(ms(50));
    }
    assert_eq!((p.a().received, p.b().received), received);
    assert!(p.b().drops(DropReason::Duplicate) > 100);
    // Old stamps are no slow round trips.
    assert!(rtt(&mut p) <= before + us(100), "{before} became {}", rtt(&mut p));
    assert_alive(&mut p, flow, peer);
    // After the flow has ended they open nothing and close nothing.
    let now = p.world.now();
    p.a().endpoint.close(now, flow);
    p.run(ms(500));
    let told = (p.a().events.len(), p.b().events.len());
    for (direction, bytes) in &old {
        inject(&mut p, *direction, bytes);
    }
    p.run(secs(6));
    assert_eq!((p.a().events.len(), p.b().events.len()), told);
    p.assert_clean();
}

#[test]
fn three_duplicate_acknowledgements_to_an_idle_flow() {
    let mut p = pair(3, wire(), &config());
    let (flow, peer, known, recording) = observed(&mut p);
    p.a().send(flow, &message(1, 3_000), 1).unwrap();
    p.run(ms(20));
    let last = |d| {
        recording.borrow().iter().rev().find(|r| r.0 == d && kind_of(&r.1).unwrap().0 == Kind::Ack).cloned()
    };
    let (direction, ack) = last(Direction::Reverse).unwrap();
    let sent = p.a().count("packets_tx");
    for _ in 0..3 {
        inject(&mut p, direction, &ack);
        p.run(us(10));
    }
    p.run(ms(20));
    assert_eq!(p.a().count("packets_tx"), sent, "nothing is lost, so nothing is repeated");
    // And with ranges that say that much is missing.
    let header = kind_of(&ack).unwrap().1;
    let mut lies = vec![];
    for (ack, ranges) in [
        (header.ack.wrapping_add(1), vec![]),
        (header.ack.wrapping_add(1 << 30), vec![]),
        (header.ack.wrapping_sub(1 << 30), vec![]),
        (header.ack, vec![(header.ack.wrapping_add(3), header.ack.wrapping_add(9))]),
        (header.ack, vec![(header.ack.wrapping_add(9), header.ack.wrapping_add(3))]),
        (header.ack, vec![(header.ack, header.ack)]),
        (header.ack, vec![(header.ack.wrapping_sub(1 << 31), header.ack)]),
        (header.ack, vec![(0, u32::MAX); 16]),
        (header.ack, vec![(header.ack.wrapping_sub(5), header.ack); 300]),
    ] {
        let body: Vec<u8> = ranges
            .iter()
            .flat_map(|(a, b): &(u32, u32)| [a.to_be_bytes(), b.to_be_bytes()])
            .flatten()
            .collect();
        lies.push(forge::packet(
            msg::Header { ack, ..forge::header(Kind::Ack, known.to_client) },
            &body[..body.len().min(1_400)],
        ));
    }
    let before = p.a().drops(DropReason::BadAck);
    for lie in &lies {
        for _ in 0..3 {
            forge(&mut p, Direction::Reverse, (B, PORT), known.client_port, lie);
        }
        p.run(ms(1));
    }
    assert!(p.a().drops(DropReason::BadAck) >= before + 9);
    assert_eq!(p.a().count("segments_resent"), 0);
    assert_alive(&mut p, flow, peer);
}

#[test]
fn lies_on_a_busy_flow_end_no_other() {
    // A peer that lies about a flow may spoil that flow, nothing else: the second flow of the same pair is whole.
    let mut p = pair(4, LinkConfig { rate_bps: Some(1_000_000_000), ..wire() }, &config());
    let (flow, peer, known, _) = observed(&mut p);
    p.a().events.clear();
    let (other, other_peer) = p.open();
    p.a().send(flow, &message(1, 1 << 20), 1).unwrap();
    p.a().send(other, &message(2, 1 << 20), 2).unwrap();
    let mut prng = Prng::new(6);
    for _ in 0..300 {
        let seq = prng.next_u64() as u32;
        let word = |prng: &mut Prng| {
            let any = prng.next_u64() as u32;
            match prng.below(4) {
                0 => any,
                1 => any % 300,
                2 => any % (2 << 20),
                _ => u32::MAX - any % 300,
            }
        };
        let mut data: Vec<u8> = (0..3).flat_map(|_| word(&mut prng).to_be_bytes()).collect();
        data.resize(data.len() + prng.below(1_400) as usize, 7);
        let header = msg::Header {
            flags: prng.below(0x40) as u8 & !flag::NOT_READY,
            seq,
            ack: word(&mut prng),
            stamp: word(&mut prng),
            echo: word(&mut prng),
            echo_delay: word(&mut prng),
            credit: word(&mut prng),
            ..forge::header(if prng.chance(0.5) { Kind::Data } else { Kind::Ack }, 0)
        };
        let (f, r) = (
            msg::Header { dst_cid: known.to_server, ..header },
            msg::Header { dst_cid: known.to_client, ..header },
        );
        forge(&mut p, Direction::Forward, (A, known.client_port), PORT, &forge::packet(f, &data));
        forge(&mut p, Direction::Reverse, (B, PORT), known.client_port, &forge::packet(r, &data));
        p.run(us(200));
    }
    p.run(secs(1));
    assert!(p.b().inbox.iter().any(|(f, m)| *f == other_peer && *m == message(2, 1 << 20)));
    assert_eq!((p.a().closed_of(other), p.b().closed_of(other_peer)), (vec![], vec![]));
    let now = p.world.now();
    for (f, s) in [(flow, peer), (other, other_peer)] {
        p.a().endpoint.reset(now, f);
        p.b().endpoint.reset(now, s);
    }
    p.run(secs(1));
    p.assert_clean();
}

#[test]
fn a_flood_of_handshakes_meets_cookies_and_a_genuine_client_gets_in() {
    let server = Config { half_open_max: 16, ..config() };
    let mut p = pair_with(5, wire(), &config(), &server);
    let mut prng = Prng::new(7);
    let init = |cid: u64, cookie: &[u8; 16]| {
        let mut packet = vec![0; msg::INIT_LEN];
        msg::Header { seq: 9, credit: 100, ..forge::header(Kind::Init, 0) }.emit(&mut packet);
        msg::Init { src_cid: cid, mss: 1_000, options: 0, cookie: *cookie }.emit(&mut packet);
        forge::seal(&mut packet);
        packet
    };
    // A client that the server's host knows already, as one that was there before the flood.
    p.open();
    p.a().events.clear();
    for i in 0..5_000u32 {
        let src = Ipv4Addr::new(10, 0, 1 + (i / 250) as u8, 1 + (i % 250) as u8);
        let packet = init(prng.next_u64() | 1, &[0; 16]);
        forge(&mut p, Direction::Forward, (src, 1_000 + prng.below(60_000) as u16), PORT, &packet);
        if i % 50 == 49 {
            p.run(us(200));
        }
    }
    let b = p.b();
    assert_eq!(b.endpoint.flows_used(), 17, "sixteen half-open flows and no more");
    assert!(b.count("retries_tx") > 1_000);
    assert_eq!(b.events.len(), 1);
    // Memory is bounded by the tables; what is left over works.
    let start = p.world.now();
    let flow = p.connect(true, false);
    p.a().send(flow, b"genuine", 1).unwrap();
    let b = p.b;
    p.world.run_while(secs(1), |w| w.node::<Station>(b).inbox.is_empty()).unwrap_done();
    let took = p.world.now().since(start);
    assert!(took <= us(320), "two round trips and the message: {took}");
    assert_eq!(p.b().inbox[0].1, b"genuine");

    // Somebody else's cookie is no good, nor one for another connection id.
    let recording = record(&mut p);
    p.connect(true, false);
    p.run(us(250));
    let is_init = |b: &Vec<u8>| kind_of(b).unwrap().0 == Kind::Init;
    let second = recording.borrow().iter().map(|r| &r.1).filter(|b| is_init(b)).nth(1).unwrap().clone();
    let stolen = msg::Init::parse(packet_of(&second).unwrap()).unwrap();
    assert_ne!(stolen.cookie, [0; 16]);
    let bad = p.b().drops(DropReason::BadCookie);
    let used = p.b().endpoint.flows_used();
    forge(
        &mut p,
        Direction::Forward,
        (Ipv4Addr::new(10, 0, 9, 9), 777),
        PORT,
        &init(stolen.src_cid, &stolen.cookie),
    );
    forge(&mut p, Direction::Forward, (A, 777), PORT, &init(stolen.src_cid, &stolen.cookie));
    forge(&mut p, Direction::Forward, (A, 777), PORT, &init(stolen.src_cid ^ 1 << 40, &stolen.cookie));
    p.run(ms(1));
    assert_eq!(p.b().drops(DropReason::BadCookie), bad + 3);
    assert_eq!(p.b().endpoint.flows_used(), used);
    // The half-open ones go away by themselves.
    p.run(secs(6));
    assert_eq!(p.b().endpoint.flows_used(), 3);
}

fn init_packet(cid: u64) -> Vec<u8> {
    let mut packet = vec![0; msg::INIT_LEN];
    msg::Header { seq: 9, credit: 100, ..forge::header(Kind::Init, 0) }.emit(&mut packet);
    msg::Init { src_cid: cid, mss: 1_000, options: 0, cookie: [0; 16] }.emit(&mut packet);
    forge::seal(&mut packet);
    packet
}

/// Handshakes with invented addresses, as many as the table has places: what is kept for clients that can be answered is
/// more than what those take, however the table and the bound on half-open flows relate.
#[test]
fn invented_addresses_do_not_fill_the_table() {
    let server = Config { flows_max: 256, half_open_max: 256, ..config() };
    let mut p = pair_with(9, wire(), &config(), &server);
    p.open();
    p.a().events.clear();
    let mut prng = Prng::new(10);
    for i in 0..300u32 {
        let src = Ipv4Addr::new(10, 0, 1 + (i / 250) as u8, 1 + (i % 250) as u8);
        let packet = init_packet(prng.next_u64() | 1);
        forge(&mut p, Direction::Forward, (src, 1_000), PORT, &packet);
        p.run(us(20));
    }
    assert!(p.b().count("retries_tx") > 200, "{}", p.b().count("retries_tx"));
    for _ in 0..50 {
        p.open();
    }
    p.b().endpoint.audit().unwrap();
    // A server answers an address that it knows nothing of a few times, not as often as a client asks.
    let before = p.b().count("packets_tx");
    p.run(secs(6));
    let answers = p.b().count("packets_tx") - before;
    assert!(answers < 64 * 10 + 60 * 2, "{answers} packets");
    assert_eq!(p.b().endpoint.flows_used(), 51);
    p.b().endpoint.audit().unwrap();
}

#[test]
fn one_link_has_no_need_of_scopes() {
    let mut p = pair(10, wire(), &config());
    let now = p.world.now();
    let remote = std::net::SocketAddrV6::new("fd00::2".parse().unwrap(), PORT, 7, 3);
    let local = std::net::SocketAddrV6::new("fd00::1".parse().unwrap(), 0, 0, 3);
    let flow = p.a().endpoint.connect(now, 0, local.into(), remote.into(), true, 1).unwrap();
    p.run(ms(20));
    assert_eq!(p.a().flow_from(), Some(flow));
}

#[test]
fn flows_may_share_a_port_of_their_own() {
    let client = Config { ephemeral_udp_ports: (40_000, 40_003), ..config() };
    let mut p = pair_with(11, wire(), &client, &config());
    p.a().endpoint.listen(40_001, 0, 0).unwrap();
    for _ in 0..12 {
        let (flow, peer) = p.open();
        p.a().send(flow, b"forth", 1).unwrap();
        p.b().send(peer, b"back", 1).unwrap();
    }
    p.run(ms(5));
    assert_eq!((p.a().received, p.b().received), (12, 12));
    assert!(
        p.a().endpoint.flows().all(|f| f.local.port() != 40_001),
        "a listener's port is its clients' only"
    );
    p.a().endpoint.audit().unwrap();
}

/// An INIT in another's name makes that one hear of it a few times, ever more rarely: one packet must not make many.
#[test]
fn an_accept_that_nobody_answers_is_repeated_ever_more_rarely() {
    let mut p = pair(12, wire(), &config());
    p.open();
    let accepts: Rc<RefCell<Vec<Instant>>> = Rc::default();
    let keep = accepts.clone();
    let filter: LinkFilter = Box::new(move |now, frame| {
        let is_accept = kind_of(frame.data()).is_some_and(|k| k.0 == Kind::Accept);
        if is_accept {
            keep.borrow_mut().push(now);
        }
        !is_accept
    });
    p.world.set_filter(p.link, Direction::Reverse, Some(filter));
    let mut packet = vec![0; msg::INIT_LEN];
    msg::Header { seq: 9, credit: 100, ..forge::header(Kind::Init, 0) }.emit(&mut packet);
    msg::Init { src_cid: 77, mss: 1_000, options: 0, cookie: [0; 16] }.emit(&mut packet);
    forge::seal(&mut packet);
    forge(&mut p, Direction::Forward, (A, 1_234), PORT, &packet);
    p.run(secs(8));
    let accepts = accepts.take();
    assert!((6..=11).contains(&accepts.len()), "{} answers", accepts.len());
    let waits: Vec<Duration> = accepts.windows(2).map(|w| w[1].since(w[0])).collect();
    assert!(waits.windows(2).all(|w| w[0] <= w[1]), "{waits:?}");
    assert_eq!(p.b().endpoint.flows_used(), 1, "it was given up");
}

#[test]
fn timers_of_zero_are_refused_by_name() {
    let zero = Duration::ZERO;
    for (change, name) in [
        (Config { keepalive: zero, ..config() }, "keepalive"),
        (Config { dead_after: zero, ..config() }, "dead_after"),
        (Config { handshake_timeout: zero, ..config() }, "handshake_timeout"),
        (Config { idle_timeout: Some(zero), ..config() }, "idle_timeout"),
        (Config { keepalive_probes: 0, ..config() }, "keepalive_probes"),
        (Config { stall_timeout: zero, ..config() }, "stall_timeout"),
    ] {
        let refused = Endpoint::new(change, HeapMemory::new(4096, 4096), [1; 32]).err();
        assert_eq!(refused, Some(ConfigError::Timer(name)));
    }
}

#[test]
fn a_full_table_says_so() {
    let mut p = pair_with(6, wire(), &config(), &Config { flows_max: 3, ..config() });
    let open: Vec<_> = (0..3)
        .map(|_| {
            let o = p.open();
            p.a().events.clear();
            o
        })
        .collect();
    p.connect(true, false);
    p.run(ms(1));
    assert_eq!(p.a().connect_failures(), [ConnectFailure::TableFull]);
    assert_eq!(p.b().drops(DropReason::FlowTableFull), 1);
    p.a().events.clear();
    // Its own connections meet the same bound.
    let now = p.world.now();
    let (local, remote) = ((B, 0).into(), (A, PORT).into());
    assert_eq!(p.b().endpoint.connect(now, 0, local, remote, true, 1), Err(ConnectError::TableFull));
    let now = p.world.now();
    p.a().endpoint.close(now, open[0].0);
    p.run(ms(200));
    p.a().events.clear();
    p.open();
}

#[test]
fn addresses_that_are_none_are_refused() {
    let mut p = pair(7, wire(), &config());
    let now = p.world.now();
    let e = &mut p.a().endpoint;
    for remote in ["0.0.0.0:5", "224.0.0.1:5", "10.0.0.2:0", "[fd00::2]:888"] {
        let remote = remote.parse().unwrap();
        assert_eq!(
            e.connect(now, 0, (A, 0).into(), remote, true, 1),
            Err(ConnectError::BadAddress),
            "{remote}"
        );
    }
    assert_eq!(e.flows_used(), 0);
}

/// Garbage, and genuine packets with something changed, their CRC made good again half of the time.
#[test]
fn two_hundred_thousand_random_packets() {
    let mut p = pair_of(8, wire(), &Config { flows_max: 64, ..Config::default() }, &config(), 4 << 20);
    let (flow, peer, known, recording) = observed(&mut p);
    for i in 0..30 {
        p.a().send(flow, &message(i, 100 * i as usize), i).unwrap();
        p.b().send(peer, &message(i, 50 * i as usize), i).unwrap();
    }
    p.run(ms(50));
    let genuine: Vec<Vec<u8>> = recording
        .borrow()
        .iter()
        .map(|(_, bytes)| packet_of(bytes).unwrap().to_vec())
        .filter(|b| b.len() < 200)
        .collect();
    let mut prng = Prng::new(9);
    p.world.set_step_limit(u64::MAX);
    for i in 0..200_000u32 {
        let mut packet = if prng.chance(0.3) {
            message(u64::from(i), prng.below(200) as usize)
        } else {
            genuine[prng.below(genuine.len() as u64) as usize].clone()
        };
        for _ in 0..prng.below(4) {
            if !packet.is_empty() {
                let at = prng.below(packet.len() as u64) as usize;
                packet[at] = prng.next_u64() as u8;
            }
        }
        if prng.chance(0.1) {
            packet.truncate(prng.below(packet.len() as u64 + 1) as usize);
        }
        if packet.len() >= 16 && prng.chance(0.5) {
            // The id of the live flow is the one thing that an outsider cannot have.
            if packet[8..16] == known.to_server.to_be_bytes()
                || packet[8..16] == known.to_client.to_be_bytes()
            {
                packet[8] ^= 1;
            }
            forge::seal(&mut packet);
        }
        let port = if prng.chance(0.5) { known.client_port } else { 2_000 + prng.below(1_000) as u16 };
        let to = if prng.chance(0.9) { PORT } else { prng.next_u64() as u16 };
        forge(&mut p, Direction::Forward, (A, port), to, &packet);
        if i % 64 == 0 {
            p.run(us(20));
        }
    }
    p.run(ms(100));
    assert!(p.b().endpoint.counters().drops.total() > 100_000);
    assert_eq!(p.b().closed_of(peer), []);
    assert_alive(&mut p, flow, peer);
}
