//! Encrypted flows, where many ask at once: nobody who can be made up takes what is for those who are not; and who a peer has proven to
//! be is known, however soon its flow ends.

mod common;
use barewire_base::DropReason;
use barewire_sim::{Direction, LinkConfig, Node};
use barewire_transport::security::{PrivateKey, Security};
use barewire_transport::*;
use barewire_wire::msg::{self, Kind, option, secure};
use common::*;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

fn wire() -> LinkConfig {
    LinkConfig::perfect(us(50))
}

fn with(security: Security) -> Config {
    Config { flows_max: 64, security: Some(Arc::new(security)), ..Config::default() }
}

/// An INIT without a cookie.
fn init(src_cid: u64, encrypted: bool) -> Vec<u8> {
    let mut packet = vec![0; if encrypted { secure::INIT_SECURE_LEN } else { msg::INIT_LEN }];
    msg::Header { seq: 9, credit: 100, ..forge::header(Kind::Init, 0) }.emit(&mut packet);
    let options = if encrypted { option::SECURE } else { 0 };
    msg::Init { src_cid, mss: 1000, options, cookie: [0; 16] }.emit(&mut packet);
    if encrypted {
        let ciphers = secure::CIPHER_AES_128_GCM | secure::CIPHER_CHACHA20_POLY1305;
        secure::Init { pattern: secure::PATTERN_XX, ciphers, rekey: 22, udp_port: PORT, message: &[] }
            .emit(&mut packet);
    }
    forge::seal(&mut packet);
    packet
}

/// `count` INITs to the server, each from another made-up address.
fn flood(p: &mut Pair, count: u32, encrypted: bool) {
    let pool = p.world.pool().clone();
    let to = (Ipv4Addr::new(10, 0, 0, 2), PORT);
    for i in 0..count {
        let from = Ipv4Addr::new(10, 0, 1 + (i / 250) as u8, 1 + (i % 250) as u8);
        let packet = init(u64::from(i) + 1, encrypted);
        let frame = forge::frame(&pool, (mac(1), mac(2)), (from, 999), to, &packet);
        p.world.inject(p.link, Direction::Forward, frame);
        if i % 50 == 49 {
            p.run(us(200));
        }
    }
    p.run(us(200));
}

/// Strangers who use up all cookies of a second leave those for hosts that are expected.
#[test]
fn made_up_strangers_do_not_take_the_cookies_of_expected_hosts() {
    let mut p = secured(Trust::Known, || pair(4, wire(), &Config { flows_max: 64, ..Config::default() }));
    // From the beginning of a second on, so that all of it happens within one.
    let now = p.world.now().as_nanos();
    p.run(us((1_000_000_000 - now % 1_000_000_000) / 1_000));
    let second = |p: &Pair| p.world.now().as_nanos() / 1_000_000_000;
    let start = second(&p);
    flood(&mut p, 11_000, true);
    assert_eq!(p.b().count("retries_tx"), 10_000, "what strangers get of a second");
    let (flow, peer) = p.open();
    assert_eq!(second(&p), start);
    assert_eq!(p.b().count("retries_tx"), 10_001);
    p.a().send(flow, b"forth", 1).unwrap();
    p.b().send(peer, b"back", 2).unwrap();
    p.run(ms(5));
    assert_eq!((p.a().received, p.b().received), (1, 1));
    p.b().endpoint.audit().unwrap();
}

/// What anybody can make up leaves room for the refusal of a host whose address is proven.
#[test]
fn made_up_refusals_do_not_hide_a_true_one() {
    let mut stranger = Security::new(PrivateKey::from_bytes([0x55; 32]));
    let public = *stranger.public();
    assert!(stranger.trust(peer(2, Trust::Known)));
    let mut p = pair_with(6, wire(), &with(stranger), &with(security(2, Trust::Known)));
    // Over several seconds, so that more come than are kept.
    for _ in 0..5 {
        flood(&mut p, 500, false);
        p.run(secs(1));
    }
    flood(&mut p, 500, false);
    assert_eq!(p.b().drops(DropReason::Downgrade), 3_000);
    p.connect(true, false);
    p.run(ms(20));
    // It asks again until it gives up: each time the same.
    assert!(p.b().drops(DropReason::NotTrusted) >= 1);
    let told: Vec<_> = std::iter::from_fn(|| p.b().endpoint.poll_refusal()).collect();
    assert!(told.len() <= 32, "{}", told.len());
    let keys: Vec<_> = told.iter().filter_map(|r| r.key).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| *key == public), "{keys:?}");
}

/// Events carry who the peer is: when they are read its flow, and the keys with it, may be gone.
#[test]
fn a_peer_is_known_after_its_flow_has_ended() {
    for trust in [Trust::Known, Trust::Anywhere] {
        let mut p = secured(trust, || pair(8, wire(), &Config { flows_max: 64, ..Config::default() }));
        let (flow, back) = p.open();
        let now = p.world.now();
        p.a().endpoint.reset(now, flow);
        p.run(ms(100));
        assert!(p.a().endpoint.peer_of(flow).is_none() && p.b().endpoint.peer_of(back).is_none());
        let who = |s: &Station| {
            let number = s.events.iter().find_map(|e| match e {
                Event::Connected { peer, .. } | Event::Accepted { peer, .. } => *peer,
                _ => None,
            });
            let security = s.endpoint.config().security.as_ref().unwrap();
            security.peer(number.expect("a number")).name.clone()
        };
        let names = (who(p.a()), who(p.b()));
        assert_eq!(names, ("station 2".to_owned(), "station 1".to_owned()), "{trust:?}");
    }
}

/// Where plain clients are served, too: somebody who sees a client ask for encryption asks for a plain flow in its name, and is quicker;
/// he may even say that it is open. The true client gets its encrypted flow all the same, at once, and nothing of his is left.
#[test]
fn a_plain_init_in_the_name_of_a_client_pins_nothing() {
    let open_to_all = |n, trust| {
        let mut s = security(n, trust);
        s.require = false;
        with(s)
    };
    for confirms in [false, true] {
        let mut p = pair_with(4, wire(), &open_to_all(1, Trust::Known), &open_to_all(2, Trust::Anywhere));
        let asked = Rc::new(RefCell::new(None));
        let keep = asked.clone();
        p.world.observe(move |d| {
            if kind_of(d.bytes).is_some_and(|(kind, _)| kind == Kind::Init) && keep.borrow().is_none() {
                *keep.borrow_mut() = packet_of(d.bytes).map(<[u8]>::to_vec);
            }
        });
        let start = p.world.now();
        p.connect(true, false);
        while asked.borrow().is_none() {
            p.run(us(1));
        }
        let asked = asked.borrow_mut().take().unwrap();
        let init = init(msg::Init::parse(&asked).unwrap().src_cid, false);
        let port = p.a().endpoint.flows().next().unwrap().local.port();
        // He is next to the server: no time passes until it has what he says, and he what it answers.
        let say = |p: &mut Pair, packet: &[u8]| {
            let (pool, now) = (p.world.pool().clone(), p.world.now());
            let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            p.b().handle_frame(now, forge::frame(&pool, (mac(1), mac(2)), (a, port), (b, PORT), packet));
            let mut accept = None;
            while let Some(frame) = p.b().poll_transmit(now) {
                match kind_of(frame.data()) {
                    Some((Kind::Accept, _)) => accept = Some(frame.data().to_vec()),
                    _ => p.world.inject(p.link, Direction::Reverse, frame),
                }
            }
            accept
        };
        let accept = say(&mut p, &init).expect("plain clients are served");
        if confirms {
            let accept = packet_of(&accept).unwrap();
            let (head, accept) = (msg::Header::parse(accept).unwrap(), msg::Accept::parse(accept).unwrap());
            let mut ack = vec![0; msg::COMMON_LEN];
            let from = forge::header(Kind::Ack, accept.src_cid);
            msg::Header { seq: 9, ack: head.seq, credit: 100, ..from }.emit(&mut ack);
            forge::seal(&mut ack);
            say(&mut p, &ack);
            assert!(p.b().flow_from().is_some(), "the forged flow is open");
        }
        let a = p.a;
        p.world.run_while(secs(6), |w| w.node::<Station>(a).flow_from().is_none()).unwrap_done();
        let took = p.world.now().since(start);
        assert!(took < ms(100), "confirms {confirms}: the flow is open after {took}");
        p.run(ms(20));
        let flow = p.a().flow_from().unwrap();
        let states: Vec<_> = p.b().endpoint.flows().map(|f| (f.state, f.cipher.is_some())).collect();
        assert_eq!(states, [("open", true)], "confirms {confirms}");
        assert_eq!(p.b().closes().len(), usize::from(confirms));
        p.b().events.clear();
        p.a().send(flow, b"in private", 1).unwrap();
        p.run(ms(20));
        assert_eq!(p.b().inbox[0].1, b"in private");
        p.b().endpoint.audit().unwrap();
    }
}
