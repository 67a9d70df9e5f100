//! One host on a link full of strangers.

use crate::bytes::Bytes;
use crate::frames::{self, at, mac, v4, v6};
use barewire_base::{Duration, Instant};
use barewire_frame::{ChecksumState, Frame, Pool, PoolConfig};
use barewire_host::{Host, HostConfig, HostEvent, Input, Route};
use barewire_wire::{MacAddr, arp, eth};
use std::net::{IpAddr, SocketAddr};

/// Most neighbours of the host.
const NEIGHBOURS: usize = 16;
/// Most frames that the host may send in answer to one frame.
const REPLIES_MAX: usize = 2;
/// Most frames that it may send when time passes: a question for each neighbour, and what waits.
const TIMER_FRAMES_MAX: usize = 256;
const MTU: u16 = 600;

thread_local! {
    static POOL: Pool = Pool::new(PoolConfig { frames: 8, chunk_len: 4096, ..PoolConfig::default() }).expect("a pool");
}

struct World {
    host: Host,
    now: Instant,
    pool: Pool,
    fed: u64,
}

impl World {
    fn new(vlan: Option<u16>) -> World {
        let mut config = HostConfig::new(mac(1));
        config.mtu = MTU;
        config.ipv4 = vec![(v4(1), 24)];
        config.ipv6 = vec![(v6(1), 64)];
        config.gateway4 = Some(v4(254));
        config.neighbours_max = NEIGHBOURS;
        config.vlan = vlan;
        let pool = POOL.with(Pool::clone);
        World { host: Host::new(config), now: Instant::from_nanos(1_000_000_000), pool, fed: 0 }
    }

    fn feed(&mut self, bytes: &[u8], state: ChecksumState) -> Input {
        let mut frame = self.pool.alloc_from(bytes).expect("inputs fit a frame");
        frame.set_checksum(state);
        let before = self.host.counters().drops.total();
        let input = self.host.handle_frame(self.now, &frame);
        let dropped = self.host.counters().drops.total() - before;
        assert_eq!(dropped, u64::from(matches!(input, Input::Drop(_))), "each drop is counted once");
        if let Input::Udp(datagram) = input {
            let end = usize::from(datagram.payload_start) + usize::from(datagram.payload_len);
            assert!(
                end <= bytes.len() && datagram.payload(&frame).len() == usize::from(datagram.payload_len)
            );
            assert!(self.host.is_local(datagram.dst.ip()) && !self.host.is_local(datagram.src.ip()));
            assert!(datagram.dst.port() != 0 && datagram.ecn < 4);
        }
        self.fed += 1;
        input
    }

    /// Everything that the host has to say, at most `max` frames.
    fn listen(&mut self, max: usize, vlan: Option<u16>) {
        let mut sent = 0;
        let mut frame: Frame = self.pool.alloc().expect("a frame");
        while self.host.poll_transmit(self.now, &mut frame) {
            sent += 1;
            assert!(sent <= max, "more than {max} frames at once");
            let data = frame.data();
            assert!((42..=14 + 4 + usize::from(MTU).max(1280)).contains(&data.len()), "{} bytes", data.len());
            assert_eq!(eth::Packet::new_unchecked(data).src(), mac(1));
            assert_eq!(data[12..14] == [0x81, 0], vlan.is_some());
            frame = self.pool.alloc().expect("a frame");
        }
        let events = std::iter::from_fn(|| self.host.poll_event()).count();
        assert!(events <= 4 * NEIGHBOURS + 64, "{events} events");
        assert!(self.host.neighbours().count() <= NEIGHBOURS);
        assert!(self.host.poll_timeout().is_none_or(|at| at > self.now), "a deadline of the past");
    }

    fn mac_of(&self, ip: IpAddr) -> Option<MacAddr> {
        self.host.neighbours().find(|n| n.ip == ip).and_then(|n| n.mac)
    }

    /// Resolves host 2 the honest way.
    fn resolve(&mut self, vlan: Option<u16>) {
        for (src, dst) in
            [(at(1, 5), at(2, 6)), (SocketAddr::new(v6(1).into(), 5), SocketAddr::new(v6(2).into(), 6))]
        {
            assert!(matches!(self.host.route(self.now, src, dst), Route::Pending));
        }
        self.listen(REPLIES_MAX, vlan);
        for answer in [frames::arp(arp::Operation::Reply, 2, 1), frames::advert(2, 1)] {
            let answer = vlan.map_or_else(|| answer.clone(), |vid| frames::tagged(&answer, vid));
            assert_eq!(self.feed(&answer, ChecksumState::Unknown), Input::Consumed);
        }
        let events: Vec<HostEvent> = std::iter::from_fn(|| self.host.poll_event()).collect();
        assert_eq!(events, [HostEvent::Resolved(v4(2).into()), HostEvent::Resolved(v6(2).into())]);
    }

    fn datagram_passes(&mut self, vlan: Option<u16>) {
        for over_v6 in [false, true] {
            let frame = frames::udp(2, 1, over_v6, (6, 5), b"after all");
            let frame = vlan.map_or_else(|| frame.clone(), |vid| frames::tagged(&frame, vid));
            match self.feed(&frame, ChecksumState::Unknown) {
                Input::Udp(datagram) => assert_eq!(datagram.payload_len, 9),
                other => panic!("a real datagram: {other:?}"),
            }
        }
    }
}

/// The first byte chooses a VLAN or none. Then frames, each behind two bytes of length and one of checksum state; a
/// length from 0xff00 lets time pass instead.
pub fn host(data: &[u8]) -> u64 {
    let mut script = Bytes(data);
    let Some(first) = script.u8() else { return 0 };
    let vlan = (first & 1 != 0).then_some(5);
    let mut world = World::new(vlan);
    world.resolve(vlan);
    let known: [IpAddr; 2] = [v4(2).into(), v6(2).into()];
    let mut frozen = true;
    while let Some(len) = script.u16() {
        if len >= 0xff00 {
            frozen = false;
            world.now += Duration::from_millis(u64::from(len & 0xff) * 40);
            world.host.handle_timeout(world.now);
            world.listen(TIMER_FRAMES_MAX, vlan);
            continue;
        }
        let Some(state) = script.u8() else { break };
        let state = match state % 8 {
            0..5 => ChecksumState::Unknown,
            5 => ChecksumState::Verified,
            6 => ChecksumState::Partial { start: 34, offset: 6 },
            _ => ChecksumState::Partial { start: u16::from(state), offset: u16::from(first) },
        };
        let frame = script.take(usize::from(len % 2000));
        if let Input::Udp(datagram) = world.feed(frame, state) {
            // As an engine does when nobody listens, and as an endpoint does that answers.
            let _ = world.host.route(world.now, datagram.dst, datagram.src);
        }
        world.listen(REPLIES_MAX, vlan);
        if frozen {
            // Whatever strangers claim: a mapping goes only after its owner was asked and stayed silent for a while.
            for ip in known {
                assert_eq!(world.mac_of(ip), Some(mac(2)), "the mapping of {ip} was stolen");
            }
        }
    }
    world.datagram_passes(vlan);
    world.fed
}

/// All frames in one script, tagged and not, with and without time between them; and each alone.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut all = frames::all();
    // A stranger who claims the address of host 2.
    let mut theft = frames::arp(arp::Operation::Reply, 2, 1);
    theft[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 0xee]);
    all.push(theft.clone());
    theft[20..22].copy_from_slice(&[0, 1]);
    all.push(theft);
    let entry =
        |frame: &Vec<u8>, state: u8| [&(frame.len() as u16).to_be_bytes()[..], &[state], frame].concat();
    let mut corpus = Vec::new();
    for (vlan, pause) in [(false, false), (false, true), (true, false)] {
        let mut script = vec![u8::from(vlan)];
        for (i, frame) in all.iter().filter(|f| f.len() < 400).enumerate() {
            let frame =
                if vlan && frame[12..14] != [0x81, 0] { frames::tagged(frame, 5) } else { frame.clone() };
            script.extend(entry(&frame, i as u8));
            if pause {
                script.extend([0xff, 1 + 40 * (i as u8 % 4)]);
            }
        }
        corpus.push(script);
    }
    corpus.extend(all.iter().map(|frame| [vec![0], entry(frame, 0)].concat()));
    corpus
}
