//! Bytes that nobody should send. Whatever they are: no panic, nothing without bound, and neighbours work on.

mod common;
use barewire_base::{Duration, Prng};
use barewire_roce::*;
use barewire_wire::roce::{Opcode, bth};
use common::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Frames, and which side sent each.
type Frames = Vec<(usize, Vec<u8>)>;

/// A pair in the middle of things, and every frame that was sent so far.
fn busy_pair() -> (Pair, Frames) {
    let mut p = Pair::new();
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = kept.clone();
    p.filter = Box::new(move |side, frame| {
        keep.borrow_mut().push((side, frame.clone()));
        true
    });
    let [(_, a), (_, b)] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    for i in 0..4 {
        p.recv(1, b, i, 0, 5000);
    }
    p.post(0, a, 1, SendOp::Send, 0, 3000);
    p.post(0, a, 2, SendOp::WriteImm { addr: BASE, rkey, imm: 1 }, 0, 2000);
    p.post(0, a, 3, SendOp::Read { addr: BASE, rkey }, 0, 3000);
    p.post(0, a, 4, SendOp::FetchAdd { addr: BASE, rkey, add: 1 }, 0, 8);
    p.exchange();
    // A second connection that is opened and closed.
    let [(c, _), _] = p.connect();
    let now = p.now;
    p.ends[0].ep.disconnect(now, c).unwrap();
    p.exchange();
    p.ask(&[1, 2, 3]);
    p.exchange();
    let frames = kept.borrow().clone();
    (p, frames)
}

fn shake(p: &mut Pair) {
    p.exchange();
    p.run_for(ms(30));
    for end in &mut p.ends {
        end.take_events();
        end.completions();
    }
}

#[test]
fn frames_of_a_real_conversation_with_anything_changed() {
    let (mut p, frames) = busy_pair();
    let mut prng = Prng::new(1);
    for round in 0..30_000 {
        let (side, mut frame) = frames[prng.below(frames.len() as u64) as usize].clone();
        // Behind the UDP header, and with a good ICRC: only then does anybody look at it.
        for _ in 0..1 + prng.below(4) {
            let span = (frame.len() - 4 - 42) as u64;
            let span = if prng.chance(0.7) { span.min(60) } else { span };
            let at = 42 + prng.below(span) as usize;
            frame[at] = match prng.below(3) {
                0 => frame[at] ^ 1 << prng.below(8),
                1 => prng.below(256) as u8,
                _ => Opcode::ALL[prng.below(Opcode::ALL.len() as u64) as usize].0,
            };
        }
        seal(&mut frame);
        let now = p.now;
        p.ends[1 - side].ep.handle_frame(now, &frame);
        if round % 64 == 0 {
            shake(&mut p);
        }
    }
    shake(&mut p);
    for end in &p.ends {
        assert!(end.ep.connections() < 2000 && end.ep.live_qps() < 20);
    }
    // And a new connection still opens and carries data.
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 100);
    p.exchange();
    let wcs = p.ends[0].completions();
    assert!(wcs.iter().any(|w| w.qpn == a && w.status == WcStatus::Success), "{wcs:?}");
}

#[test]
fn every_length_of_every_frame() {
    let (mut p, frames) = busy_pair();
    let now = p.now;
    for (side, frame) in &frames {
        for len in 0..frame.len() {
            assert_ne!(p.ends[1 - side].ep.handle_frame(now, &frame[..len]), Verdict::Consumed);
        }
    }
    let drops = &p.ends[1].ep.counters().drops;
    assert!(drops.total() > 1000);
}

/// A packet for a living queue pair, at the sequence number that it expects or near it, with any opcode and any body.
fn packet(p: &Pair, side: usize, qpn: Qpn, opcode: u8, off: i32, body: &[u8], flags: u8) -> Vec<u8> {
    let view = p.ends[side].ep.query_qp(qpn).unwrap();
    let udp_len = (8 + 12 + body.len() + 4) as u16;
    let (us, them) = ([10, 0, 0, side as u8 + 1], [10, 0, 0, 2 - side as u8]);
    let mut f = Vec::new();
    f.extend(mac(side as u8 + 1).0);
    f.extend(mac(2 - side as u8).0);
    f.extend([8, 0, 0x45, 2]);
    f.extend((20 + udp_len).to_be_bytes());
    f.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    f.extend(them);
    f.extend(us);
    barewire_wire::ipv4::Packet::new_unchecked(&mut f[14..34]).fill_checksum();
    f.extend([0xc0, 0, 0x12, 0xb7]);
    f.extend(udp_len.to_be_bytes());
    f.extend([0, 0]);
    let mut head = [0; 12];
    bth::Repr {
        opcode: Opcode(opcode),
        solicited: flags & 1 != 0,
        migrated: flags & 2 != 0,
        pad: flags >> 2 & 3,
        pkey: 0xffff,
        fecn: false,
        becn: false,
        dst_qpn: qpn.number(),
        ack_request: flags & 16 != 0,
        psn: view.rq_psn.wrapping_add_signed(off) & 0xff_ffff,
    }
    .emit(&mut bth::Packet::new_unchecked(&mut head[..]));
    f.extend(head);
    f.extend(body);
    f.extend([0; 4]);
    seal(&mut f);
    f
}

/// Frames of another implementation, with addresses of a third machine's: each passes the checks up to its ICRC, and none is for
/// a queue pair of ours.
#[test]
fn a_captured_conversation_of_strangers() {
    let Some(path) = barewire_testing::shared("data/roce/two-guests.pcap") else { return };
    let bytes = std::fs::read(path).unwrap();
    let le32 = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut ends: Vec<End> = [2, 3]
        .map(|n: u8| {
            let mac = barewire_wire::MacAddr([0x52, 0x54, 0x00, 0x77, 0x00, n]);
            End::new(Config { ..Config::new(mac, [10, 77, 0, n].into()) }, n)
        })
        .into();
    let service =
        barewire_wire::roce::rdma_cm::service_id(barewire_wire::roce::rdma_cm::PortSpace::Tcp, 7174);
    ends[0].ep.listen(service, 1 << 20).unwrap();
    let (mut at, mut frames, mut asked) = (24, 0, 0);
    let now = barewire_base::Instant::from_nanos(1);
    while at + 16 <= bytes.len() {
        let frame = &bytes[at + 16..][..le32(at + 8)];
        at += 16 + frame.len();
        if frame[12..14] != [8, 0] || frame[23] != 17 {
            continue;
        }
        frames += 1;
        for end in &mut ends {
            end.ep.handle_frame(now, frame);
            asked += end
                .take_events()
                .iter()
                .filter(|e| matches!(e, Event::ConnectRequest { service_id, .. } if *service_id == service))
                .count();
        }
    }
    assert!(frames > 1000 && asked > 0, "{frames} {asked}");
    for end in &ends {
        assert_eq!(end.ep.counters().drops.get(barewire_base::DropReason::BadIcrc), 0);
        assert_eq!(end.ep.counters().drops.get(barewire_base::DropReason::BadChecksum), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut end = End::new(config(1), 1);
        end.ep.handle_frame(barewire_base::Instant::ZERO, &bytes);
        prop_assert_eq!(end.ep.counters().drops.total(), 1);
    }

    /// Any sequence of packets from a peer gone mad harms its own connection only.
    #[test]
    fn any_packets_for_a_living_queue_pair(
        packets in prop::collection::vec(
            (prop::sample::select(Opcode::ALL).prop_map(|o| o.0), -3i32..3, prop::collection::vec(any::<u8>(), 0..300), any::<u8>(), any::<bool>()),
            1..40,
        ),
    ) {
        let mut p = Pair::new();
        let [(_, a), (_, b)] = p.connect();
        let [(_, c), _] = p.connect();
        let rkey = p.ends[1].mr.rkey;
        for i in 0..3 {
            p.recv(1, b, i, 0, 100);
        }
        p.post(0, a, 7, SendOp::Read { addr: BASE, rkey }, 0, 5000);
        for (opcode, off, mut body, flags, good) in packets {
            if good && body.len() >= 16 {
                // A key and an address that mean something.
                body[..8].copy_from_slice(&(BASE + 16).to_be_bytes());
                body[8..12].copy_from_slice(&rkey.to_be_bytes());
                let len = (body.len() - 16) as u32;
                body[12..16].copy_from_slice(&len.to_be_bytes());
            }
            for (side, qpn) in [(1, b), (0, a)] {
                let frame = packet(&p, side, qpn, opcode, off, &body, flags);
                let now = p.now;
                p.ends[side].ep.handle_frame(now, &frame);
            }
            p.exchange();
        }
        p.run_for(Duration::from_millis(50));
        p.ends[0].completions();
        p.post(0, c, 9, SendOp::Write { addr: BASE, rkey }, 0, 3000);
        p.exchange();
        let wcs = p.ends[0].completions();
        prop_assert!(wcs.iter().any(|w| w.wr_id == 9 && w.status == WcStatus::Success), "{:?}", wcs);
    }
}
