//! The gso port around a port of the test's own, which keeps frames as they are handed to it.

mod support;

use barewire_base::{DropReason, Duration, Instant, Prng};
use barewire_frame::{BURST_MAX, Burst, ChecksumState, Frame, Gso, GsoKind, Pool, PoolConfig};
use barewire_port::{
    GsoConfig, GsoPort, MemoryConfig, MemoryPort, Port, PortCaps, PortCounters, PortError, PortUri,
};
use barewire_wire::roce::{self, icrc};
use barewire_wire::{checksum, ipv4, ipv6, udp};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use support::*;

/// A frame as it stands between the ports.
#[derive(Clone, Debug)]
struct Whole {
    bytes: Vec<u8>,
    gso: Option<Gso>,
    checksum: ChecksumState,
}

type Wire = Rc<RefCell<VecDeque<Whole>>>;

/// A port that sends into `wire` and receives from it, at most `room` frames a call.
struct Inner {
    caps: PortCaps,
    counters: PortCounters,
    pool: Pool,
    wire: Wire,
    room: usize,
    /// Takes these, by their place among all that it was handed, and drops them.
    refuses: fn(&Frame, u64) -> bool,
    offered: u64,
    /// Sends this many frames of a burst, then says that its link is away, and holds nothing back.
    fails_after: Option<usize>,
}

impl Port for Inner {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, _: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let mut got = 0;
        while got < self.room && burst.room() > 0 {
            let Some(whole) = self.wire.borrow_mut().pop_front() else { break };
            let Some(mut frame) = self.pool.alloc_from(&whole.bytes) else { break };
            frame.set_checksum(whole.checksum);
            frame.set_gso(whole.gso);
            let _ = burst.push(frame);
            got += 1;
        }
        self.counters.rx_frames.add(got as u64);
        Ok(got)
    }

    fn tx_burst(&mut self, _: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let (mut sent, mut refused) = (0, 0);
        while sent < self.fails_after.unwrap_or(self.room) {
            let Some(frame) = burst.pop() else { break };
            self.offered += 1;
            if (self.refuses)(&frame, self.offered - 1) {
                self.counters.drops.count(DropReason::Malformed);
                refused += 1;
                continue;
            }
            self.counters.tx_bytes.add(frame.len() as u64);
            let whole = Whole { bytes: frame.data().to_vec(), gso: frame.gso(), checksum: frame.checksum() };
            self.wire.borrow_mut().push_back(whole);
            sent += 1;
        }
        self.counters.tx_frames.add(sent as u64);
        if self.fails_after.is_some() && sent > 0 {
            (0..burst.len()).for_each(|_| self.counters.drops.count(DropReason::PortDown));
            burst.clear();
            let source = std::io::Error::from(std::io::ErrorKind::NetworkDown);
            return Err(PortError::Down { port: "inner".to_owned(), source });
        }
        Ok(sent + refused)
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// A pool whose frames hold whatever the inner ports of these tests receive.
fn roomy(frames: u32) -> Pool {
    Pool::new(PoolConfig { frames, chunk_len: 4096, ..PoolConfig::default() }).unwrap()
}

fn rig(room: usize, frames: u32) -> (GsoPort<Inner>, Wire, Pool) {
    rig_with(room, frames, BURST_MAX, None)
}

fn rig_with(
    room: usize,
    frames: u32,
    pieces: usize,
    fails_after: Option<usize>,
) -> (GsoPort<Inner>, Wire, Pool) {
    rig_around(frames, pieces, |inner| (inner.room, inner.fails_after) = (room, fails_after))
}

/// One whose inner port is changed by `change`.
fn rig_around(frames: u32, pieces: usize, change: impl FnOnce(&mut Inner)) -> (GsoPort<Inner>, Wire, Pool) {
    let pool = roomy(frames);
    let large = GsoPort::<Inner>::large_pool().unwrap();
    let wire = Wire::default();
    let (any, _) = MemoryPort::pair(MemoryConfig::default(), pool.clone(), pool.clone()).unwrap();
    let mut inner = Inner {
        caps: any.caps().clone(),
        counters: PortCounters::default(),
        pool: large.clone(),
        wire: wire.clone(),
        room: BURST_MAX,
        refuses: |_, _| false,
        offered: 0,
        fails_after: None,
    };
    change(&mut inner);
    let config = GsoConfig { pieces };
    (GsoPort::new(inner, config, large, pool.clone()), wire, pool)
}

/// What distinguishes a datagram of these tests.
#[derive(Clone, Copy)]
struct Shape {
    v6: bool,
    tag: Option<u16>,
    port: u16,
    ttl: u8,
    /// "Do not fragment" (IPv4).
    atomic: bool,
    /// The checksum is written.
    sum: bool,
    len: usize,
    /// Bytes behind the packet.
    padding: usize,
}

const PLAIN: Shape =
    Shape { v6: false, tag: None, port: 7, ttl: 64, atomic: true, sum: false, len: 1000, padding: 0 };

fn datagram(shape: Shape, number: u32) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if let Some(tag) = shape.tag {
        out.extend_from_slice(&[0x81, 0]);
        out.extend_from_slice(&tag.to_be_bytes());
    }
    out.extend_from_slice(if shape.v6 { &[0x86, 0xdd] } else { &[8, 0] });
    let l3 = out.len();
    let l4 = l3 + if shape.v6 { 40 } else { 20 };
    out.resize(l4 + 8 + shape.len, 0);
    Prng::new(number.into()).fill(&mut out[l4 + 8..]);
    let udp_len = (8 + shape.len) as u16;
    if shape.v6 {
        out[l3] = 0x60;
        let mut packet = ipv6::Packet::new_unchecked(&mut out[l3..]);
        packet.set_payload_len(udp_len);
        packet.set_next_header(barewire_wire::Protocol::UDP);
        packet.set_hop_limit(shape.ttl);
        packet.set_src("fd00::1".parse().unwrap());
        packet.set_dst("fd00::2".parse().unwrap());
    } else {
        out[l3] = 0x45;
        let mut packet = ipv4::Packet::new_unchecked(&mut out[l3..]);
        packet.set_total_len(20 + udp_len);
        packet.set_ident(if shape.atomic { 0 } else { number as u16 });
        packet.set_flags_offset(if shape.atomic { 0x4000 } else { 0 });
        packet.set_ttl(shape.ttl);
        packet.set_protocol(barewire_wire::Protocol::UDP);
        packet.set_src("10.0.0.1".parse().unwrap());
        packet.set_dst("10.0.0.2".parse().unwrap());
        packet.fill_checksum();
    }
    let mut packet = udp::Packet::new_unchecked(&mut out[l4..]);
    packet.set_src_port(9);
    packet.set_dst_port(shape.port);
    packet.set_len(udp_len);
    if shape.sum || shape.v6 {
        match shape.v6 {
            true => packet.fill_checksum("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()),
            false => packet.fill_checksum("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()),
        }
    }
    out.resize(out.len() + shape.padding, 0);
    out
}

/// The bytes with an unfinished checksum completed, as a link that cannot pass it on does, and then without it: datagrams that were sent
/// without one may arrive with one.
fn settled(bytes: &[u8], state: ChecksumState, had_sum: bool) -> Vec<u8> {
    let mut out = bytes.to_vec();
    if let ChecksumState::Partial { start, offset } = state {
        assert!(checksum::complete(&mut out, start.into(), offset.into()));
        if !had_sum {
            out[usize::from(start + offset)..][..2].fill(0);
        }
    }
    out
}

fn offer(port: &mut GsoPort<Inner>, pool: &Pool, frames: &[Vec<u8>]) {
    let mut burst = Burst::new();
    for bytes in frames {
        assert!(burst.push(pool.alloc_from(bytes).expect("a frame")).is_ok());
    }
    let mut calls = 0;
    while !burst.is_empty() || port.next_deadline().is_some() {
        port.tx_burst(Instant::ZERO, &mut burst).unwrap();
        calls += 1;
        assert!(calls < 1000, "no progress");
    }
}

fn collect(port: &mut GsoPort<Inner>, room: usize) -> Vec<(Vec<u8>, ChecksumState)> {
    let mut got = Vec::new();
    loop {
        let mut burst = Burst::with_limit(room);
        let n = port.rx_burst(Instant::ZERO, &mut burst).unwrap();
        assert_eq!(n, burst.len());
        if n == 0 {
            assert!(port.prepare_wait(), "nothing is left behind when it says so");
            return got;
        }
        while let Some(frame) = burst.pop() {
            assert_eq!(frame.gso(), None);
            got.push((frame.data().to_vec(), frame.checksum()));
        }
    }
}

#[test]
fn conforms_over_memory() {
    // Frames of the suite are no datagrams: each goes as it is.
    barewire_port::conformance::run_all("gso", &mut || {
        let (a_pool, b_pool) = (roomy(600), roomy(300));
        let (a_large, b_large) =
            (GsoPort::<MemoryPort>::large_pool().unwrap(), GsoPort::<MemoryPort>::large_pool().unwrap());
        let (a, b) = MemoryPort::pair(MemoryConfig::default(), a_large.clone(), b_large.clone()).unwrap();
        barewire_port::conformance::ConformancePair::on_a_wire(
            GsoPort::new(a, GsoConfig::default(), a_large, a_pool.clone()),
            a_pool,
            GsoPort::new(b, GsoConfig { pieces: 5 }, b_large, b_pool.clone()),
            b_pool,
        )
    });
}

#[test]
fn a_burst_of_one_flow_is_one_frame() {
    let (mut port, wire, pool) = rig(BURST_MAX, 256);
    let mut frames: Vec<_> = (0..31).map(|n| datagram(PLAIN, n)).collect();
    frames.push(datagram(Shape { len: 10, ..PLAIN }, 99));
    offer(&mut port, &pool, &frames);
    assert_eq!(wire.borrow().len(), 1);
    let whole = wire.borrow()[0].clone();
    assert_eq!(whole.bytes.len(), 42 + 31 * 1000 + 10);
    assert_eq!(whole.gso, Some(Gso { kind: GsoKind::UdpL4, ecn: false, size: 1000 }));
    assert_eq!(whole.checksum, ChecksumState::Partial { start: 34, offset: 6 });
    assert!(ipv4::Packet::new_unchecked(&whole.bytes[14..]).verify_checksum());
    assert_eq!(port.counters().tx_frames.get(), 32, "datagrams are counted, whatever carries them");
    let got = collect(&mut port, 7);
    assert_eq!(port.counters().rx_frames.get(), 32);
    assert_eq!(got.len(), 32);
    for ((bytes, state), sent) in got.iter().zip(&frames) {
        assert_eq!(&settled(bytes, *state, false), sent);
    }
}

#[test]
fn only_what_differs_in_nothing_goes_together() {
    let other = [
        Shape { port: 8, ..PLAIN },
        Shape { ttl: 63, ..PLAIN },
        Shape { tag: Some(5), ..PLAIN },
        Shape { v6: true, ..PLAIN },
        Shape { atomic: false, ..PLAIN },
        Shape { padding: 4, ..PLAIN },
        Shape { len: 0, ..PLAIN },
    ];
    for (at, shape) in other.into_iter().enumerate() {
        let (mut port, wire, pool) = rig(BURST_MAX, 64);
        let frames = [datagram(PLAIN, 1), datagram(PLAIN, 2), datagram(shape, 3), datagram(PLAIN, 4)];
        offer(&mut port, &pool, &frames);
        let lens: Vec<usize> = wire.borrow().iter().map(|w| w.bytes.len()).collect();
        let third = frames[2].len();
        assert_eq!(lens, [42 + 2000, third, 1042], "shape {at}");
        assert_eq!(wire.borrow()[1].bytes, frames[2], "alone it stays as it is");
    }
    // A longer one begins anew, and a shorter one is the last.
    let (mut port, wire, pool) = rig(BURST_MAX, 64);
    offer(
        &mut port,
        &pool,
        &[1000, 1000, 1001, 1000, 1000].map(|len| datagram(Shape { len, ..PLAIN }, len as u32)),
    );
    assert_eq!(wire.borrow().iter().map(|w| w.bytes.len()).collect::<Vec<_>>(), [2042, 2043, 1042]);
    // A wrong checksum must arrive as it was sent.
    for (shape, at) in [(Shape { sum: true, ..PLAIN }, 40), (PLAIN, 24), (Shape { v6: true, ..PLAIN }, 100)] {
        let (mut port, wire, pool) = rig(BURST_MAX, 64);
        let mut frames = [datagram(shape, 1), datagram(shape, 2), datagram(shape, 3)];
        frames[1][at] ^= 0x10;
        offer(&mut port, &pool, &frames);
        assert_eq!(
            wire.borrow().iter().map(|w| &w.bytes).collect::<Vec<_>>(),
            frames.iter().collect::<Vec<_>>()
        );
    }
}

/// What a card or a link without the offload makes of a frame: it counts the identification up.
fn cut_as_the_kernel_does(whole: &Whole) -> Vec<Vec<u8>> {
    let Some(gso) = whole.gso else { return vec![whole.bytes.clone()] };
    let cut = |(number, payload): (usize, &[u8])| {
        let mut out = [&whole.bytes[..42], payload].concat();
        let mut ip = ipv4::Packet::new_unchecked(&mut out[14..]);
        ip.set_total_len((28 + payload.len()) as u16);
        ip.set_ident(ip.ident() + number as u16);
        ip.fill_checksum();
        let mut datagram = udp::Packet::new_unchecked(&mut out[34..]);
        datagram.set_len((8 + payload.len()) as u16);
        datagram.set_checksum(0);
        out
    };
    whole.bytes[42..].chunks(gso.size.into()).enumerate().map(cut).collect()
}

#[test]
fn rdma_over_ipv4_passes_whoever_cuts() {
    let (mut port, wire, pool) = rig(BURST_MAX, 64);
    let packets: Vec<_> = (0..8)
        .map(|n| {
            let mut bytes = datagram(Shape { port: roce::UDP_PORT, ..PLAIN }, n);
            icrc::fill(&mut bytes[14..]).unwrap();
            bytes
        })
        .collect();
    offer(&mut port, &pool, &packets);
    let cut: Vec<_> = wire.borrow().iter().flat_map(cut_as_the_kernel_does).collect();
    assert_eq!(cut.len(), 8);
    for (number, packet) in cut.iter().enumerate() {
        assert!(icrc::check(&packet[14..]).is_ok(), "packet {number}");
    }
    // Over IPv6 nothing of the headers changes.
    offer(&mut port, &pool, &[1, 2].map(|n| datagram(Shape { port: roce::UDP_PORT, v6: true, ..PLAIN }, n)));
    assert!(wire.borrow().back().unwrap().gso.is_some());
}

#[test]
fn what_is_too_long_alone_is_not_joined() {
    let (mut port, wire, pool) = rig_around(64, BURST_MAX, |inner| inner.caps.frame_max = 1514);
    let long = Shape { len: 2000, ..PLAIN };
    offer(&mut port, &pool, &[1, 2].map(|n| datagram(long, n)));
    assert!(wire.borrow().iter().all(|whole| whole.gso.is_none()), "the inner port refuses each");
    // To the last byte, and with a tag beside.
    for tag in [None, Some(5)] {
        for (len, is_joined) in [(1472, true), (1473, false)] {
            wire.borrow_mut().clear();
            offer(&mut port, &pool, &[1, 2].map(|n| datagram(Shape { len, tag, ..PLAIN }, n)));
            assert_eq!(wire.borrow()[0].gso.is_some(), is_joined, "{len} {tag:?}");
        }
    }
}

#[test]
fn a_kernel_that_refuses_joined_frames_gets_none() {
    let (mut port, wire, pool) =
        rig_around(256, BURST_MAX, |inner| inner.refuses = |frame, _| frame.gso().is_some());
    let frames: Vec<_> = (0..32).map(|n| datagram(PLAIN, n)).collect();
    for _ in 0..3 {
        offer(&mut port, &pool, &frames);
    }
    let sent: Vec<_> = wire.borrow().iter().map(|whole| whole.bytes.clone()).collect();
    assert_eq!(sent, vec![frames; 3].concat());
    assert_eq!(port.counters().tx_frames.get(), 96);
    assert_eq!(port.counters().drops.total(), 1, "the trial");
    assert!(port.caps().description.contains("not joined"), "{}", port.caps().description);
}

#[test]
fn what_the_inner_port_drops_is_counted_as_lost_wherever_it_stands() {
    // Behind the trial: 20 of one flow, which are dropped, and 3 of another, which are sent; and the other way round.
    for (refuses, sent) in
        [((|_, at| at == 1) as fn(&Frame, u64) -> bool, 3), (|_, at| at == 2, 20), (|_, at| at > 0, 0)]
    {
        let (mut port, _, pool) = rig_around(256, BURST_MAX, |inner| inner.refuses = refuses);
        offer(&mut port, &pool, &[1, 2].map(|n| datagram(PLAIN, n)));
        let shape = |n: u32| Shape { port: if n < 20 { 7 } else { 8 }, ..PLAIN };
        offer(&mut port, &pool, &(0..23).map(|n| datagram(shape(n), n)).collect::<Vec<_>>());
        let counters = port.counters();
        assert_eq!(counters.tx_frames.get(), 2 + sent);
        assert_eq!(counters.tx_bytes.get(), (2 + sent) * 1042);
        assert_eq!(counters.drops.total(), 23 - sent);
    }
}

#[test]
fn whoever_waits_for_room_may_sleep() {
    let (mut port, _, pool) = rig(1, 64);
    offer(&mut port, &pool, &[1, 2].map(|n| datagram(PLAIN, n)));
    let now = Instant::from_nanos(1_000_000);
    let mut burst = Burst::new();
    for (number, udp_port) in [7, 7, 7, 8, 8].into_iter().enumerate() {
        let bytes = datagram(Shape { port: udp_port, ..PLAIN }, number as u32);
        assert!(burst.push(pool.alloc_from(&bytes).unwrap()).is_ok());
    }
    assert_eq!((port.tx_waiting(), port.next_deadline()), (0, None));
    assert_eq!(port.tx_burst(now, &mut burst).unwrap(), 5);
    assert_eq!(port.tx_waiting(), 2, "datagrams are counted, whatever carries them");
    let at = port.next_deadline().unwrap();
    assert!(at > now && at <= now + Duration::from_millis(10), "{at:?}");
    port.tx_burst(at, &mut burst).unwrap();
    assert_eq!((port.tx_waiting(), port.next_deadline()), (0, None));
}

#[test]
fn an_ip_packet_stays_within_its_length() {
    let (mut port, wire, pool) = rig_around(256, BURST_MAX, |inner| inner.caps.frame_max = 9014);
    let shape = Shape { len: 3000, ..PLAIN };
    for _ in 0..2 {
        offer(&mut port, &pool, &(0..32).map(|n| datagram(shape, n)).collect::<Vec<_>>());
    }
    let lens: Vec<usize> = wire.borrow().iter().map(|w| w.bytes.len()).collect();
    assert_eq!(lens, [42 + 21 * 3000, 42 + 11 * 3000].repeat(2));
    assert_eq!(collect(&mut port, BURST_MAX).len(), 64);
}

#[test]
fn whatever_is_sent_arrives_once_and_in_order() {
    eprintln!("seeds 0 to 199");
    for seed in 0..200 {
        let mut random = Prng::new(seed);
        let some = |random: &mut Prng| 1 + random.below(BURST_MAX as u64) as usize;
        let (room, pieces) = (some(&mut random), some(&mut random));
        let (mut port, wire, pool) = rig_with(room, 512, pieces, None);
        let mut sent = Vec::new();
        for _ in 0..4 {
            let count = 1 + random.below(BURST_MAX as u64);
            let mut shape = PLAIN;
            let frames: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    if random.below(4) == 0 {
                        shape = Shape {
                            v6: random.below(2) == 0,
                            tag: (random.below(3) == 0).then_some(3),
                            port: random.below(2) as u16,
                            sum: random.below(2) == 0,
                            len: random.below(300) as usize,
                            padding: if random.below(8) == 0 { 3 } else { 0 },
                            atomic: random.below(6) != 0,
                            ..PLAIN
                        };
                    }
                    sent.push(shape);
                    datagram(shape, sent.len() as u32)
                })
                .collect();
            offer(&mut port, &pool, &frames);
        }
        assert!(wire.borrow().len() <= sent.len());
        let got = collect(&mut port, 1 + random.below(BURST_MAX as u64) as usize);
        assert_eq!(got.len(), sent.len(), "seed {seed}");
        for (at, ((bytes, state), shape)) in got.iter().zip(&sent).enumerate() {
            let expected = datagram(*shape, at as u32 + 1);
            assert_eq!(settled(bytes, *state, shape.sum || shape.v6), expected, "seed {seed}, frame {at}");
        }
        assert_eq!(pool.available(), pool.capacity(), "seed {seed}");
        assert_eq!(port.counters().tx_frames.get(), sent.len() as u64);
        assert_eq!(port.counters().rx_frames.get(), sent.len() as u64);
    }
}

#[test]
fn no_frame_of_others_panics() {
    eprintln!("seed 11");
    let mut random = Prng::new(11);
    let (mut port, wire, pool) = rig(BURST_MAX, 64);
    for round in 0..20_000u32 {
        let shape = Shape { v6: random.below(2) == 0, len: random.below(3000) as usize, ..PLAIN };
        let mut bytes = datagram(shape, round);
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        bytes.truncate(14 + random.below(bytes.len() as u64 - 13) as usize);
        let kind = [GsoKind::UdpL4, GsoKind::Tcp4, GsoKind::Tcp6][random.below(3) as usize];
        let size = random.below(2000) as u16;
        let start = random.below(100) as u16;
        wire.borrow_mut().push_back(Whole {
            bytes,
            gso: (random.below(4) > 0).then_some(Gso { kind, ecn: false, size }),
            checksum: ChecksumState::Partial { start, offset: 6 },
        });
        let got = collect(&mut port, BURST_MAX);
        assert!(got.len() <= 128, "{} pieces", got.len());
    }
    let drops = |reason: DropReason| port.counters().drops.get(reason);
    assert!(drops(DropReason::Malformed) > 0 && drops(DropReason::TooLarge) > 0);
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn an_empty_pool_costs_pieces_and_nothing_else() {
    let (mut port, _, pool) = rig(BURST_MAX, 40);
    let frames: Vec<_> = (0..20).map(|n| datagram(PLAIN, n)).collect();
    offer(&mut port, &pool, &frames);
    let held: Vec<_> = (0..30).map(|_| pool.alloc().unwrap()).collect();
    assert_eq!(collect(&mut port, BURST_MAX).len(), 10);
    assert_eq!(port.counters().drops.get(DropReason::PoolEmpty), 10);
    drop(held);
    offer(&mut port, &pool, &frames);
    assert_eq!(collect(&mut port, BURST_MAX).len(), 20);
}

#[test]
fn a_link_that_goes_away_takes_what_was_under_way() {
    let (mut port, wire, pool) = rig_with(BURST_MAX, 64, BURST_MAX, Some(1));
    let mut burst = Burst::new();
    for number in 0..24 {
        let shape = Shape { port: number as u16 / 8, ..PLAIN };
        assert!(burst.push(pool.alloc_from(&datagram(shape, number)).unwrap()).is_ok());
    }
    assert!(port.tx_burst(Instant::ZERO, &mut burst).is_err());
    let counters = port.counters();
    assert_eq!((wire.borrow().len(), counters.tx_frames.get()), (1, 8));
    // Two frames by the inner port, their other datagrams by this one.
    assert_eq!(counters.drops.get(DropReason::PortDown), 16);
    assert_eq!((burst.len(), port.next_deadline()), (0, None), "nothing waits for a link");
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn it_stands_before_packet_ports_only() {
    let pool = pool(64);
    for (uri, hint) in [
        ("gso+mem:x", "on `packet:` ports only"),
        ("gsp+packet:eth0", "did you mean `gso`?"),
        ("gso+packet:lo?pieces=33", "from 1 to 32"),
    ] {
        let opened =
            uri.parse::<PortUri>().and_then(|uri| barewire_port::open(&uri, &pool, &mut |_, _| None));
        let Err(why) = opened else { panic!("{uri} was opened") };
        assert!(why.to_string().contains(hint), "{why}");
    }
}
