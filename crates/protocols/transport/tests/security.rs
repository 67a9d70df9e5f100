//! Encrypted flows: who gets one, what is seen of it on the wire, and what is altered, replayed, reflected or made up on the way.

mod common;
use barewire_base::{DropReason, Prng};
use barewire_sim::{Direction, LinkConfig};
use barewire_transport::security::{Cipher, Peer, PrivateKey, PublicKey, Security};
use barewire_transport::*;
use barewire_wire::msg::{self, Kind, secure};
use common::*;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

fn wire() -> LinkConfig {
    LinkConfig::perfect(us(50))
}

fn config() -> Config {
    Config { flows_max: 64, ..Config::default() }
}

/// The configuration of a station with these keys and this trust.
fn with(security: Security) -> Config {
    Config { security: Some(Arc::new(security)), ..config() }
}

const BOTH: [Trust; 2] = [Trust::Known, Trust::Anywhere];

type Recording = Rc<RefCell<Vec<(Direction, Vec<u8>)>>>;

/// Keeps every frame that is delivered from now on.
fn record(p: &mut Pair) -> Recording {
    let recording: Recording = Rc::default();
    let keep = recording.clone();
    p.world.observe(move |d| keep.borrow_mut().push((d.direction, d.bytes.to_vec())));
    recording
}

fn inject(p: &mut Pair, direction: Direction, bytes: &[u8]) {
    let mut frame = p.world.pool().alloc().unwrap();
    assert!(frame.set_len(bytes.len()));
    frame.data_mut().copy_from_slice(bytes);
    p.world.inject(p.link, direction, frame);
}

fn of_kind(recording: &Recording, kind: Kind) -> Vec<(Direction, Vec<u8>)> {
    let is = |bytes: &[u8]| kind_of(bytes).is_some_and(|(k, _)| k == kind);
    recording.borrow().iter().filter(|(_, bytes)| is(bytes)).cloned().collect()
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

/// The reason for which a connection fails, and how long that took in milliseconds.
fn failure(p: &mut Pair) -> (ConnectFailure, u64) {
    let start = p.world.now();
    let already = p.a().connect_failures().len();
    p.connect(true, false);
    let a = p.a;
    p.world.run_while(secs(6), |w| w.node::<Station>(a).connect_failures().len() == already).unwrap_done();
    let took = p.world.now().since(start).as_nanos() / 1_000_000;
    (*p.a().connect_failures().last().unwrap(), took)
}

#[test]
fn one_message_crosses_and_nobody_on_the_wire_can_read_it() {
    for (trust, v6) in
        [(Trust::Known, false), (Trust::Known, true), (Trust::Anywhere, false), (Trust::Anywhere, true)]
    {
        let mut p = secured(trust, || pair(1, wire(), &config()));
        let recording = record(&mut p);
        let flow = p.connect(true, v6);
        let text = b"what only the two of us are to know";
        p.a().send(flow, text, 1).unwrap();
        let (start, b) = (p.world.now(), p.b);
        p.world.run_while(secs(1), |w| w.node::<Station>(b).inbox.is_empty()).unwrap_done();
        // A plain one takes five one-way trips; the proof of the client's address takes two more.
        let took = p.world.now().since(start);
        assert!(took <= us(400), "{trust:?}: {took}");
        assert_eq!(p.b().inbox[0].1, text);
        let peer = p.b().flow_from().unwrap();
        p.b().send(peer, text, 2).unwrap();
        p.run(ms(20));
        assert_eq!(p.a().inbox[0].1, text);
        assert_eq!((p.a().sent.clone(), p.b().sent.clone()), (vec![(1, true)], vec![(2, true)]));
        // Both ends know each other.
        assert_eq!(p.a().endpoint.peer_of(flow).unwrap().name, "station 2");
        assert_eq!(p.b().endpoint.peer_of(peer).unwrap().key, private_key(1).public());
        let cipher = p.a().endpoint.flows().next().unwrap().cipher;
        assert_eq!(cipher, Some(Cipher::best_first()[0].as_str()));
        for (_, bytes) in recording.borrow().iter() {
            assert!(!bytes.windows(8).any(|w| text.windows(8).any(|t| t == w)), "in clear");
            assert!(!matches!(kind_of(bytes), Some((Kind::Data | Kind::Ack | Kind::Reset, _))));
        }
        let confirms = of_kind(&recording, Kind::Confirm).len();
        assert_eq!(confirms, usize::from(trust == Trust::Anywhere));
        let now = p.world.now();
        p.a().endpoint.close(now, flow);
        p.run(ms(500));
        assert_eq!((p.a().closes(), p.b().closes()), (vec![CloseReason::Local], vec![CloseReason::Peer]));
        p.b().endpoint.audit().unwrap();
        p.assert_clean();
    }
}

#[test]
fn segments_leave_room_for_their_tags() {
    for mtu in [256, 1500] {
        let mut p = secured(Trust::Known, || pair(1, wire(), &Config { mtu, ..config() }));
        let recording = record(&mut p);
        let (flow, _) = p.open();
        let bytes = message(1, 100_000);
        p.a().send(flow, &bytes, 1).unwrap();
        p.run(ms(50));
        assert!(p.b().inbox[0].1 == bytes);
        let longest = recording.borrow().iter().map(|(_, b)| b.len()).max().unwrap();
        assert_eq!(longest, 14 + usize::from(mtu), "full segments fill the MTU");
    }
}

#[test]
fn each_cipher_works_and_the_server_chooses() {
    let only = |n, ciphers: &[Cipher]| {
        let mut s = security(n, Trust::Known);
        s.ciphers = ciphers.to_vec();
        with(s)
    };
    use Cipher::*;
    for (client, server, chosen) in [
        (vec![Aes128Gcm], vec![ChaCha20Poly1305, Aes128Gcm], Some("aes-128-gcm")),
        (vec![Aes128Gcm, ChaCha20Poly1305], vec![ChaCha20Poly1305], Some("chacha20-poly1305")),
        (vec![Aes128Gcm, ChaCha20Poly1305], vec![Aes128Gcm, ChaCha20Poly1305], Some("aes-128-gcm")),
        (vec![ChaCha20Poly1305], vec![Aes128Gcm], None),
    ] {
        let mut p = pair_with(1, wire(), &only(1, &client), &only(2, &server));
        let Some(chosen) = chosen else {
            assert_eq!(failure(&mut p).0, ConnectFailure::TimedOut);
            continue;
        };
        let (flow, peer) = p.open();
        assert_alive(&mut p, flow, peer);
        assert_eq!(p.b().endpoint.flows().next().unwrap().cipher, Some(chosen));
    }
}

/// Every combination of who encrypts and who insists on it. A station without keys is what an older release is, except that it says
/// why it refuses.
#[test]
fn old_and_new_meet_by_policy() {
    let secure = |n, trust, require| {
        let mut s = security(n, trust);
        s.require = require;
        with(s)
    };
    let lonely = |n, require| {
        let mut s = Security::new(private_key(n));
        s.require = require;
        with(s)
    };
    // A plain client and a server that insists; or that does not, but expects a key at this address.
    for server in [secure(2, Trust::Anywhere, true), secure(2, Trust::Known, false), lonely(2, true)] {
        let mut p = pair_with(1, wire(), &config(), &server);
        assert_eq!(failure(&mut p).0, ConnectFailure::SecurityRequired);
        assert_eq!(p.b().drops(DropReason::Downgrade), 1);
        assert_eq!(p.b().endpoint.poll_refusal().unwrap().reason, DropReason::Downgrade);
        assert_eq!(p.b().endpoint.flows_used(), 0);
    }
    // Who does not insist talks to strangers in the clear, either way round.
    for (client, server) in [
        (config(), secure(2, Trust::Anywhere, false)),
        (secure(1, Trust::Anywhere, false), config()),
        (lonely(1, false), lonely(2, false)),
    ] {
        let mut p = pair_with(1, wire(), &client, &server);
        let (flow, peer) = p.open();
        assert_alive(&mut p, flow, peer);
        assert!(p.a().endpoint.peer_of(flow).is_none());
        assert_eq!(p.a().endpoint.flows().next().unwrap().cipher, None);
    }
    // A client that insists, or expects a key, and a server without one: there is no way back to plain.
    for client in [secure(1, Trust::Known, false), secure(1, Trust::Anywhere, true)] {
        let mut p = pair_with(1, wire(), &client, &config());
        assert_eq!(failure(&mut p).0, ConnectFailure::Insecure);
        assert!(p.b().drops(DropReason::NoKey) > 0);
    }
    // One knows the other's address, the other does not: the one that knows decides.
    let mut p = pair_with(1, wire(), &secure(1, Trust::Known, false), &secure(2, Trust::Anywhere, true));
    let (flow, peer) = p.open();
    assert_alive(&mut p, flow, peer);
    assert!(p.b().endpoint.peer_of(peer).is_some());
}

/// An older release does not know the option: it answers as to any client. That must not open anything.
#[test]
fn a_plain_accept_to_who_wants_encryption_is_a_downgrade() {
    let mut p = secured(Trust::Known, || pair(1, wire(), &config()));
    let silent = Config { flows_max: 4, ..config() };
    let pool = p.world.pool().clone();
    // Nobody listens there; what the test says comes first.
    p.world.restart(p.b, Box::new(Station::new(2, pool, silent)));
    let recording = record(&mut p);
    let start = p.world.now();
    p.connect(true, false);
    p.run(us(160));
    let (_, init) = of_kind(&recording, Kind::Init).remove(0);
    let init = packet_of(&init).unwrap().to_vec();
    let (header, body) = (msg::Header::parse(&init).unwrap(), msg::Init::parse(&init).unwrap());
    let mut packet = vec![0; msg::ACCEPT_LEN];
    msg::Header { seq: 5, ack: header.seq, credit: 100, ..forge::header(Kind::Accept, body.src_cid) }
        .emit(&mut packet);
    msg::Accept { src_cid: 77, mss: 1000, options: 0 }.emit(&mut packet);
    forge::seal(&mut packet);
    let port = p.a().endpoint.flows().next().unwrap().local.port();
    let pool = p.world.pool().clone();
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let frame = forge::frame(&pool, (mac(2), mac(1)), (b, PORT), (a, port), &packet);
    p.world.inject(p.link, Direction::Reverse, frame);
    let node = p.a;
    p.world.run_while(secs(6), |w| w.node::<Station>(node).connect_failures().is_empty()).unwrap_done();
    assert_eq!(p.a().drops(DropReason::Downgrade), 1);
    assert_eq!(p.a().flow_from(), None);
    assert!(p.world.now().since(start) < ms(600), "there is no need to wait for the time-out");
}

#[test]
fn keys_that_are_wrong_or_not_trusted_open_nothing_and_each_side_learns_what_it_may() {
    let stranger = PrivateKey::from_bytes([0x77; 32]);
    let trusting = |own: PrivateKey, peers: Vec<Peer>| {
        let mut s = Security::new(own);
        for peer in peers {
            assert!(s.trust(peer));
        }
        with(s)
    };
    // The server does not know the client's key.
    for trust in BOTH {
        let client = trusting(stranger.clone(), vec![peer(2, trust)]);
        let server = trusting(private_key(2), vec![peer(1, trust)]);
        let mut p = pair_with(1, wire(), &client, &server);
        let flow = p.connect(true, false);
        p.run(ms(700));
        if trust == Trust::Known {
            assert_eq!(p.a().connect_failures(), [ConnectFailure::NotTrusted]);
        } else {
            // It says who it is last, so it has a flow for a moment.
            assert_eq!(p.a().closed_of(flow), [CloseReason::NotTrusted]);
        }
        assert!(p.b().drops(DropReason::NotTrusted) >= 1, "{trust:?}");
        assert_eq!(p.b().events.len(), 0, "the application never hears of it");
        let refusal = p.b().endpoint.poll_refusal().unwrap();
        assert_eq!((refusal.reason, refusal.key), (DropReason::NotTrusted, Some(stranger.public())));
        p.run(secs(6));
        p.assert_clean();
    }
    // The client trusts another key at the server's address.
    let other = Peer { key: stranger.public(), ..peer(2, Trust::Known) };
    let mut p =
        pair_with(1, wire(), &trusting(private_key(1), vec![other]), &with(security(2, Trust::Known)));
    let (why, took) = failure(&mut p);
    assert_eq!(why, ConnectFailure::WrongKey);
    assert!((500..600).contains(&took), "an unproven refusal is not taken at its word at once: {took} ms");
    assert!(p.b().drops(DropReason::WrongKey) > 0);
    // The client trusts nobody there, whoever it is.
    let other = Peer { key: stranger.public(), ..peer(2, Trust::Anywhere) };
    let mut p =
        pair_with(1, wire(), &trusting(private_key(1), vec![other]), &with(security(2, Trust::Anywhere)));
    assert_eq!(failure(&mut p).0, ConnectFailure::PeerNotTrusted);
    assert_eq!(p.a().endpoint.poll_refusal().unwrap().key, Some(private_key(2).public()));
    p.run(secs(6));
    p.assert_clean();
    // A trusted key at an address where it is not expected.
    let elsewhere = Peer { addresses: vec![ip(9, false).into()], ..peer(1, Trust::Known) };
    let mut p =
        pair_with(1, wire(), &with(security(1, Trust::Known)), &trusting(private_key(2), vec![elsewhere]));
    assert_eq!(failure(&mut p).0, ConnectFailure::NotTrusted);
}

#[test]
fn what_was_recorded_says_nothing_twice_and_nothing_backwards() {
    for trust in BOTH {
        let mut p = secured(trust, || pair(2, wire(), &config()));
        let recording = record(&mut p);
        let (flow, peer) = p.open();
        for i in 0..20 {
            p.a().send(flow, &message(i, 4_000), i).unwrap();
            p.b().send(peer, &message(i, 4_000), i).unwrap();
            p.run(ms(1));
        }
        let old: Vec<_> = recording.borrow().iter().filter(|(_, b)| kind_of(b).is_some()).cloned().collect();
        let sealed = old.iter().filter(|(_, b)| kind_of(b).unwrap().0.opened().is_some()).count() as u64;
        assert!(sealed > 100);
        let received = (p.a().received, p.b().received);
        for (direction, bytes) in &old {
            inject(&mut p, *direction, bytes);
        }
        p.run(ms(50));
        assert_eq!((p.a().received, p.b().received), received);
        assert_eq!(p.a().drops(DropReason::Replayed) + p.b().drops(DropReason::Replayed), sealed);
        // Back to whoever sent it, as it was and with addresses that fit.
        for (direction, bytes) in &old {
            let back = if *direction == Direction::Forward { Direction::Reverse } else { Direction::Forward };
            inject(&mut p, back, bytes);
            let mut turned = bytes.clone();
            turned[..6].copy_from_slice(&bytes[6..12]);
            turned[6..12].copy_from_slice(&bytes[..6]);
            turned[26..30].copy_from_slice(&bytes[30..34]);
            turned[30..34].copy_from_slice(&bytes[26..30]);
            turned[34..36].copy_from_slice(&bytes[36..38]);
            turned[36..38].copy_from_slice(&bytes[34..36]);
            let (theirs, header) = (kind_of(bytes).unwrap().0, kind_of(bytes).unwrap().1);
            inject(&mut p, back, &turned);
            // And under the connection id of the one it comes back to.
            if theirs.opened().is_some() {
                let own =
                    old.iter().find(|(d, b)| *d == back && kind_of(b).unwrap().1.dst_cid != header.dst_cid);
                let cid = kind_of(&own.unwrap().1).unwrap().1.dst_cid;
                turned[50..58].copy_from_slice(&cid.to_be_bytes());
                inject(&mut p, back, &turned);
            }
            p.run(us(10));
        }
        p.run(ms(50));
        assert_eq!((p.a().received, p.b().received), received);
        let refused = |s: &Station| s.drops(DropReason::Altered) + s.drops(DropReason::Replayed);
        assert!(refused(p.a()) + refused(p.b()) > sealed + 50);
        assert_alive(&mut p, flow, peer);
        // After the flow has ended they open nothing.
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
}

/// Alters packets of one open flow on their way and counts those that pass.
fn altered(packets: u64, seed: u64) {
    let mut p = secured(Trust::of(seed), || pair(seed, wire(), &config()));
    let recording = record(&mut p);
    let (flow, peer) = p.open();
    for i in 0..5 {
        p.a().send(flow, &message(i, 3_000), i).unwrap();
        p.b().send(peer, &message(i, 100), i).unwrap();
        p.run(ms(1));
    }
    let own = |(_, b): &&(Direction, Vec<u8>)| kind_of(b).is_some_and(|(k, _)| k.opened().is_some());
    let old: Vec<_> = recording.borrow().iter().filter(own).cloned().collect();
    p.world.observe(|_| {});
    recording.borrow_mut().clear();
    let before = (p.a().received, p.b().received);
    let count = |p: &mut Pair| {
        // A packet with an unknown id is answered by a reset, which nobody believes.
        let of = |s: &mut Station| s.endpoint.counters().drops.total() - s.drops(DropReason::ForgedReset);
        of(p.a()) + of(p.b())
    };
    let drops = count(&mut p);
    let mut prng = Prng::new(seed);
    let mut sent = 0;
    while sent < packets {
        for _ in 0..100.min(packets - sent) {
            let (direction, bytes) = &old[prng.below(old.len() as u64) as usize];
            let mut bytes = bytes.clone();
            let end = bytes.len() as u64;
            // Anywhere behind the UDP header, and always with a new number, so that it is no mere replay.
            let number = bytes[45].wrapping_add(1 + prng.below(200) as u8);
            bytes[44] = number;
            for _ in 0..1 + prng.below(3) {
                let at = if prng.chance(0.5) { 46 } else { 58 };
                bytes[(at + prng.below(end - at)) as usize] ^= 1 << prng.below(8);
            }
            inject(&mut p, *direction, &bytes);
            sent += 1;
        }
        p.run(us(60));
    }
    p.run(ms(5));
    assert_eq!((p.a().received, p.b().received), before, "one was taken in");
    assert_eq!(count(&mut p) - drops, packets, "each is dropped and counted");
    assert_alive(&mut p, flow, peer);
}

#[test]
fn ten_million_altered_packets() {
    for seed in 0..100 {
        altered(100_000, seed);
    }
}

#[test]
fn resets_and_closes_are_believed_of_the_peer_alone() {
    let mut p = secured(Trust::Known, || pair(3, wire(), &config()));
    let recording = record(&mut p);
    let (flow, peer) = p.open();
    p.run(ms(1));
    let cid = |d| {
        let found = recording.borrow().iter().rev().find(|(e, b)| *e == d && kind_of(b).is_some()).cloned();
        kind_of(&found.unwrap().1).unwrap().1.dst_cid
    };
    let (to_b, to_a) = (cid(Direction::Forward), cid(Direction::Reverse));
    let port = p.a().endpoint.flows().next().unwrap().local.port();
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let pool = p.world.pool().clone();
    // Who is on the path knows both ids.
    for (dst_cid, proof) in [(to_b, 0), (0, to_a), (to_b, to_a)] {
        let mut body = [0; 10 + 16];
        body[..8].copy_from_slice(&u64::to_be_bytes(proof));
        for (kind, len) in [(Kind::Reset, 10), (Kind::SealedReset, 26), (Kind::SealedReset, 10)] {
            let packet = forge::packet(forge::header(kind, dst_cid), &body[..len]);
            let frame = forge::frame(&pool, (mac(1), mac(2)), (a, port), (b, PORT), &packet);
            p.world.inject(p.link, Direction::Forward, frame);
        }
        // A FIN in the clear, and an acknowledgement.
        for kind in [Kind::Data, Kind::Ack] {
            let mut header = forge::header(kind, dst_cid);
            header.flags = msg::flag::FIN;
            let packet = forge::packet(header, &[0; 12]);
            let frame = forge::frame(&pool, (mac(1), mac(2)), (a, port), (b, PORT), &packet);
            p.world.inject(p.link, Direction::Forward, frame);
        }
        p.run(ms(1));
    }
    assert_eq!(p.b().drops(DropReason::ForgedReset), 3);
    assert_eq!(p.b().drops(DropReason::Downgrade), 4);
    assert_alive(&mut p, flow, peer);
    let now = p.world.now();
    p.a().endpoint.reset(now, flow);
    p.run(ms(1));
    assert_eq!(p.b().closes(), [CloseReason::Reset], "the peer's own is obeyed at once");
    assert_eq!(of_kind(&recording, Kind::Reset).iter().filter(|(d, _)| *d == Direction::Reverse).count(), 0);
    p.run(secs(1));
    p.assert_clean();
}

/// A handshake costs the server neither state nor computation before the client's address is proven, and a genuine client gets in.
#[test]
fn a_flood_of_secure_handshakes_costs_cookies_only() {
    let mut p = secured(Trust::Known, || pair(5, wire(), &config()));
    let recording = record(&mut p);
    p.open();
    p.a().events.clear();
    let (_, genuine) = of_kind(&recording, Kind::Init).pop().unwrap();
    let genuine = packet_of(&genuine).unwrap().to_vec();
    assert!(genuine.len() > secure::INIT_SECURE_LEN + 90, "with cookie and message");
    let mut prng = Prng::new(7);
    let pool = p.world.pool().clone();
    let b = Ipv4Addr::new(10, 0, 0, 2);
    for i in 0..3_000u32 {
        let src = Ipv4Addr::new(10, 0, 1 + (i / 250) as u8, 1 + (i % 250) as u8);
        let mut packet = genuine.clone();
        packet[40..48].copy_from_slice(&(prng.next_u64() | 1).to_be_bytes());
        forge::seal(&mut packet);
        let frame = forge::frame(&pool, (mac(1), mac(2)), (src, 999), (b, PORT), &packet);
        p.world.inject(p.link, Direction::Forward, frame);
        if i % 50 == 49 {
            p.run(us(200));
        }
    }
    assert_eq!(p.b().endpoint.flows_used(), 1);
    assert_eq!(p.b().drops(DropReason::BadCookie), 3_000);
    assert_eq!(p.b().drops(DropReason::WrongKey), 0, "nothing was computed");
    let (flow, peer) = p.open();
    assert_alive(&mut p, flow, peer);
}

/// Who has proven its address can make the server compute, but only so often in a second, and leaves half to others.
#[test]
fn handshakes_that_cost_something_are_rationed() {
    let mut s = security(2, Trust::Known);
    s.handshakes_per_second = 10;
    let mut stranger = Security::new(PrivateKey::from_bytes([0x55; 32]));
    assert!(stranger.trust(peer(2, Trust::Known)));
    let mut p = pair_with(6, wire(), &with(stranger), &with(s));
    for _ in 0..30 {
        p.connect(true, false);
    }
    p.run(ms(400));
    // Half of the ten at once, then four more in 400 ms.
    let (computed, limited) = (p.b().drops(DropReason::NotTrusted), p.b().drops(DropReason::RateLimited));
    assert!((5..=9).contains(&computed), "{computed}");
    assert!(limited >= 20, "{limited}");
    assert_eq!(p.b().endpoint.flows_used(), 0);
}

#[test]
fn altered_handshakes_open_nothing_and_the_true_one_still_does() {
    for (trust, seed) in [(Trust::Known, 1), (Trust::Anywhere, 2), (Trust::Known, 3), (Trust::Anywhere, 4)] {
        let mut p = secured(trust, || pair(seed, wire(), &config()));
        let mut prng = Prng::new(seed);
        let recording = record(&mut p);
        let flow = p.connect(true, false);
        let mut seen = 0;
        let mut opened = 0;
        for _ in 0..400 {
            p.run(us(20));
            let new: Vec<_> = recording.borrow()[seen..].to_vec();
            seen += new.len();
            for (direction, bytes) in new {
                let Some((kind, _)) = kind_of(&bytes) else { continue };
                if !matches!(kind, Kind::Accept | Kind::Confirm) {
                    continue;
                }
                // One more with something altered that both are to agree on, and a good CRC.
                let mut bad = bytes.clone();
                let from = if kind == Kind::Accept {
                    42 + secure::ACCEPT_SECURE_LEN
                } else {
                    42 + secure::CONFIRM_LEN
                };
                let at = from + prng.below((bad.len() - from) as u64) as usize;
                bad[at] ^= 1 << prng.below(8);
                forge::seal(&mut bad[42..]);
                inject(&mut p, direction, &bad);
                opened += 1;
            }
        }
        assert!(opened > 0);
        assert!(p.a().flow_from() == Some(flow) && p.b().flow_from().is_some());
        let peer = p.b().flow_from().unwrap();
        assert_alive(&mut p, flow, peer);
    }
}

/// What somebody who sees the wire alters and sends on is quicker than the true packet: the true one still opens the flow.
#[test]
fn altered_handshake_packets_that_come_first_change_nothing() {
    let world = |trust| secured(trust, || pair(9, wire(), &config()));
    for (trust, kind, head) in [
        (Trust::Known, Kind::Accept, secure::ACCEPT_SECURE_LEN),
        (Trust::Anywhere, Kind::Accept, secure::ACCEPT_SECURE_LEN),
        (Trust::Anywhere, Kind::Confirm, secure::CONFIRM_LEN),
    ] {
        // The same world twice: what is sent, and when, is the same.
        let mut p = world(trust);
        let start = p.world.now();
        let seen = Rc::new(RefCell::new(None));
        let keep = seen.clone();
        p.world.observe(move |d| {
            if kind_of(d.bytes).is_some_and(|(k, _)| k == kind) && keep.borrow().is_none() {
                *keep.borrow_mut() = Some((d.direction, d.bytes.to_vec()));
            }
        });
        p.connect(true, false);
        while seen.borrow().is_none() {
            p.run(us(1));
        }
        let came = p.world.now().since(start);
        let (direction, good) = seen.borrow_mut().take().unwrap();
        let from = 42 + head;
        for at in (from..good.len()).step_by(5).chain([good.len() - 1]) {
            let mut p = world(trust);
            let flow = p.connect(true, false);
            p.run(came - us(60));
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            forge::seal(&mut bad[42..]);
            inject(&mut p, direction, &bad);
            p.run(ms(100));
            let place = format!("{trust:?}, {kind:?}, byte {} of {}", at - from, good.len() - from);
            let altered = p.a().drops(DropReason::Altered) + p.b().drops(DropReason::Altered);
            assert_eq!(altered, 1, "{place}");
            assert_eq!(p.a().flow_from(), Some(flow), "{place}");
            let peer = p.b().flow_from().unwrap_or_else(|| panic!("{place}"));
            assert_alive(&mut p, flow, peer);
            p.b().endpoint.audit().unwrap();
        }
    }
}

/// Somebody with a key of his own answers for the server, and is quicker: the server's answer still counts.
#[test]
fn an_impostor_who_is_quicker_ends_no_attempt() {
    let mut impostor = Security::new(PrivateKey::from_bytes([0x55; 32]));
    assert!(impostor.trust(peer(1, Trust::Anywhere)));
    let mut p = pair_with(6, wire(), &with(security(1, Trust::Anywhere)), &with(impostor));
    p.connect(true, false);
    while p.a().drops(DropReason::NotTrusted) == 0 {
        p.run(us(10));
    }
    assert_eq!((p.a().flow_from(), p.a().connect_failures()), (None, vec![]));
    let pool = p.world.pool().clone();
    let mut server = Station::new(2, pool, with(security(2, Trust::Anywhere)));
    server.endpoint.listen(PORT, 0, 7).unwrap();
    p.world.restart(p.b, Box::new(server));
    p.run(ms(400));
    let (flow, peer) = (p.a().flow_from().unwrap(), p.b().flow_from().unwrap());
    assert_eq!(p.a().endpoint.peer_of(flow).unwrap().name, "station 2");
    assert_alive(&mut p, flow, peer);
}

/// Clients that have not said who they are get a part of the table at once, and all of them their turn.
#[test]
fn clients_without_a_proven_key_do_not_fill_the_table() {
    let mut p = secured(Trust::Anywhere, || pair(3, wire(), &config()));
    // Fewer than the share of the table that one host may have.
    for _ in 0..24 {
        p.connect(true, false);
    }
    let mut most = 0;
    for _ in 0..40_000 {
        p.run(us(25));
        let pending = p.b().endpoint.flows().filter(|f| f.state == "accepting").count();
        most = most.max(pending);
        p.b().endpoint.audit().unwrap();
    }
    p.run(secs(3));
    assert_eq!(most, 8, "an eighth of 64");
    assert!(p.b().drops(DropReason::FlowTableFull) > 0);
    assert_eq!(p.b().endpoint.flows().filter(|f| f.state == "open").count(), 24);
}

/// What INIT says in the clear is part of the handshake: a client's wishes cannot be altered on the way.
#[test]
fn an_init_that_was_altered_is_refused() {
    for trust in BOTH {
        for at in [16, 36, 40, 48, 50, 68, 69, 70, 72, 80] {
            let mut p = secured(trust, || pair(1, wire(), &config()));
            let recording = record(&mut p);
            p.connect(true, false);
            // The second INIT, with cookie and message, is on its way but has not arrived.
            let mut inits = vec![];
            for _ in 0..400 {
                p.run(us(5));
                inits = of_kind(&recording, Kind::Init);
                if inits.len() > 1 {
                    break;
                }
            }
            let (_, good) = inits.pop().unwrap();
            // The flow that the good one opened is forgotten with its server, whose secret and cookies are the same.
            let pool = p.world.pool().clone();
            let mut fresh = secured(trust, || Station::new(2, pool, config()));
            fresh.endpoint.listen(PORT, 0, 7).unwrap();
            p.world.restart(p.b, Box::new(fresh));
            let mut bad = good.clone();
            bad[42 + at + 1] ^= 1;
            forge::seal(&mut bad[42..]);
            inject(&mut p, Direction::Forward, &bad);
            p.run(us(60));
            let flows: Vec<_> = p.b().endpoint.flows().map(|f| f.state).collect();
            match trust {
                Trust::Known => assert_eq!(flows, Vec::<&str>::new(), "byte {at}"),
                // Who the client is comes last, so the server cannot tell yet; the good one, which is repeated, takes its place.
                Trust::Anywhere if [16, 36, 48, 50, 68, 80].contains(&at) => {
                    p.run(ms(100));
                    assert!(p.a().flow_from().is_some(), "byte {at}");
                    assert_eq!(p.b().endpoint.flows_used(), 1, "byte {at}");
                    p.b().endpoint.audit().unwrap();
                }
                Trust::Anywhere => {}
            }
            assert!(trust == Trust::Anywhere || p.b().events.is_empty());
        }
    }
}

#[test]
fn keys_change_under_load_and_loss_and_no_message_is_lost() {
    for trust in BOTH {
        let link = LinkConfig { loss: 0.02, duplicate: 0.02, ..wire() };
        // Small packets: keys change every 8,192 of them.
        let mut p = secured(trust, || pair(8, link, &Config { mtu: 400, ..config() }));
        let (flow, peer) = p.open();
        let (big, back) = (message(1, 6 << 20), message(2, 3 << 20));
        p.a().send(flow, &big, 1).unwrap();
        p.b().send(peer, &back, 2).unwrap();
        let (a, b) = (p.a, p.b);
        let missing = |w: &mut barewire_sim::World| {
            w.node::<Station>(a).inbox.is_empty() || w.node::<Station>(b).inbox.is_empty()
        };
        p.world.run_while(secs(100), missing).unwrap_done();
        assert!(p.b().inbox[0].1 == big && p.a().inbox[0].1 == back);
        assert!(p.a().count("key_updates") >= 2 && p.b().count("key_updates") >= 2);
        assert_eq!(p.a().drops(DropReason::Altered) + p.b().drops(DropReason::Altered), 0);
    }
}

/// The same message on one flow after another in the same place of the table: never the same bytes on the wire.
#[test]
fn a_place_that_is_used_again_has_new_keys() {
    let mut p = secured(Trust::Known, || pair(9, wire(), &config()));
    let recording = record(&mut p);
    for _ in 0..20 {
        p.a().events.clear();
        let (flow, _) = p.open();
        p.a().send(flow, &[0; 64], 1).unwrap();
        p.run(ms(2));
        let now = p.world.now();
        p.a().endpoint.close(now, flow);
        p.run(ms(200));
        p.a().endpoint.audit().unwrap();
        p.b().endpoint.audit().unwrap();
    }
    let texts: Vec<_> = of_kind(&recording, Kind::SealedData)
        .into_iter()
        .filter(|(_, b)| b.len() > 42 + msg::DATA_HEADER_LEN + 16)
        .map(|(_, b)| b[42 + msg::COMMON_LEN..].to_vec())
        .collect();
    assert_eq!(texts.len(), 20);
    let distinct: std::collections::HashSet<_> = texts.iter().collect();
    assert_eq!(distinct.len(), 20);
    let cids =
        of_kind(&recording, Kind::SealedData).iter().map(|(_, b)| b[50..58].to_vec()).collect::<Vec<_>>();
    assert!(cids.iter().all(|c| c[5..] == cids[0][5..]), "it is one place");
}

#[test]
fn nothing_secret_is_printed() {
    let key = PrivateKey::from_bytes([0xab; 32]);
    let s = Security::new(key.clone());
    let shown = format!("{key:?} {s:?} {:?}", with(s.clone()));
    assert!(!shown.contains("abab") && !shown.contains("171, 171"), "{shown}");
    let public = key.public();
    assert_eq!(public.to_string().parse::<PublicKey>(), Ok(public));
    // RFC 7748, 5.2 has points that make every secret zero; and a key has 64 digits.
    for bad in
        ["", "abc", &"0".repeat(64), &format!("01{}", "0".repeat(62)), &"g".repeat(64), &"ab".repeat(33)]
    {
        assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
    }
    assert!("0".repeat(64).parse::<PrivateKey>().is_err());
}
