//! How two releases meet. The other one is not this crate with some of it switched off: it is a peer of its own, which writes and reads
//! the bytes of version 1 as they are documented, so that whoever changes them here hears of it here.

mod common;
use barewire_base::{DropReason, Instant};
use barewire_frame::{Frame, Pool};
use barewire_host::{Host, HostConfig, Input, Route};
use barewire_sim::{LinkConfig, Node, NodeId, Outcome, World};
use barewire_transport::*;
use barewire_wire::MacAddr;
use common::*;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Version 1 and a kind, as they stand in byte 4.
const INIT: u8 = 0x11;
const ACCEPT: u8 = 0x12;
const REJECT: u8 = 0x14;
const DATA: u8 = 0x15;
const ACK: u8 = 0x16;
const RESET: u8 = 0x17;
/// All that the first release knew of flags and options.
const FLAGS: u8 = 0x1f;
const ACK_NOW: u8 = 0x02;
const FIN: u8 = 0x08;
const UNORDERED: u16 = 1;
/// Segment size that it takes.
const MSS: u16 = 1_000;
/// Its connection id, and its first segment number.
const CID: u64 = 0x00c0_ffee_0000_0001;
const FIRST: u32 = 0xffff_fffe;
const UDP_PORT: u16 = 2_000;

fn be32(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
}

fn be64(packet: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(packet[at..at + 8].try_into().unwrap())
}

/// A packet: 40 bytes of header with this number, acknowledgement and 64 MiB of credit, then the body.
fn packet(kind: u8, flags: u8, cid: u64, seq: u32, ack: u32, body: &[u8]) -> Vec<u8> {
    let mut p = vec![0, 0, 0, 0, kind, flags, 0, 0];
    p.extend_from_slice(&cid.to_be_bytes());
    for word in [seq, ack, 0, 0, 0, 1 << 20] {
        p.extend_from_slice(&word.to_be_bytes());
    }
    p.extend_from_slice(body);
    let crc = crc_fast::crc32_iscsi(&p[4..]);
    p[..4].copy_from_slice(&crc.to_be_bytes());
    p
}

fn hello(options: u16) -> Vec<u8> {
    [&CID.to_be_bytes()[..], &MSS.to_be_bytes(), &options.to_be_bytes()].concat()
}

fn data(seq: u32, id: u32, len: u32, offset: u32, bytes: &[u8], cid: u64, ack: u32) -> Vec<u8> {
    let mut body: Vec<u8> = [id, len, offset].into_iter().flat_map(u32::to_be_bytes).collect();
    body.extend_from_slice(bytes);
    packet(DATA, ACK_NOW, cid, seq, ack, &body)
}

/// The other release: sends what a test tells it to, and keeps what it hears.
struct Other {
    host: Host,
    pool: Pool,
    now: Instant,
    peer: SocketAddr,
    out: VecDeque<Vec<u8>>,
    heard: Vec<Vec<u8>>,
}

impl Other {
    fn last(&self, kind: u8) -> Option<&Vec<u8>> {
        self.heard.iter().rev().find(|p| p[4] == kind)
    }
}

impl Node for Other {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.now = now;
        if let Input::Udp(datagram) = self.host.handle_frame(now, &frame) {
            self.peer = datagram.src;
            self.heard.push(datagram.payload(&frame).to_vec());
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.host.handle_timeout(now);
        while self.host.poll_event().is_some() {}
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        let mut frame = self.pool.alloc()?;
        if self.host.poll_transmit(now, &mut frame) {
            return Some(frame);
        }
        let packet = self.out.front()?;
        // As a server it answers from the port that it was asked at.
        let udp_port = if self.peer.port() == PORT { UDP_PORT } else { PORT };
        match self.host.route(now, SocketAddr::new(ip(2, false), udp_port), self.peer) {
            Route::Ready(template) => {
                rogue::put(&template, &mut frame, packet);
                self.out.pop_front();
                Some(frame)
            }
            _ => self.host.poll_transmit(now, &mut frame).then_some(frame),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let waiting = (!self.out.is_empty()).then(|| self.now + us(100));
        [waiting, self.host.poll_timeout()].into_iter().flatten().min()
    }
}

struct Rig {
    world: World,
    new: NodeId,
    other: NodeId,
}

impl Rig {
    /// This release, which listens, and the other.
    fn new() -> Rig {
        let mut world = World::new(1);
        let pool = world.pool().clone();
        let mut station = Station::new(1, pool.clone(), Config { flows_max: 8, ..Config::default() });
        station.endpoint.listen(PORT, 0, 7).unwrap();
        let new = world.add_node(Box::new(station));
        let mut host = HostConfig::new(MacAddr(mac(2)));
        host.ipv4 = vec![([10, 0, 0, 2].into(), 16)];
        let (host, out, heard) = (Host::new(host), VecDeque::new(), vec![]);
        let peer = SocketAddr::new(ip(1, false), PORT);
        let other = world.add_node(Box::new(Other { host, pool, now: Instant::ZERO, peer, out, heard }));
        world.star(&[(new, mac(1)), (other, mac(2))], &LinkConfig::perfect(us(20)));
        Rig { world, new, other }
    }

    fn station(&mut self) -> &mut Station {
        let now = self.world.local_now(self.new);
        let station = self.world.node_mut::<Station>(self.new);
        station.now = now;
        station
    }

    fn other(&self) -> &Other {
        self.world.node::<Other>(self.other)
    }

    /// The other says this; what it hears within the next milliseconds is there afterwards.
    fn say(&mut self, packets: impl IntoIterator<Item = Vec<u8>>) {
        self.world.node_mut::<Other>(self.other).out.extend(packets);
        self.run(5);
    }

    fn run(&mut self, time_ms: u64) {
        assert_eq!(self.world.run_for(ms(time_ms)), Outcome::Done);
    }

    /// One message each way and the end of the flow, once both know each other's ids and numbers.
    fn talk(&mut self, flow: FlowId, cid: u64, first: u32) {
        // Of two segments, the second first.
        let text = message(1, 1_500);
        let (a, b) = text.split_at(MSS.into());
        let b = data(FIRST.wrapping_add(1), 0, 1_500, MSS.into(), b, cid, first);
        self.say([b, data(FIRST, 0, 1_500, 0, a, cid, first)]);
        assert_eq!(self.station().inbox, [(flow, text)]);
        let ack = self.other().last(ACK).expect("an acknowledgement");
        assert_eq!(be32(ack, 20), FIRST.wrapping_add(2));

        let answer = message(2, 2_500);
        self.station().send(flow, &answer, 5).unwrap();
        self.run(5);
        let mut got = vec![0; answer.len()];
        for p in self.other().heard.iter().filter(|p| p[4] == DATA && p.len() > 52) {
            let (len, offset, bytes) = (be32(p, 44), be32(p, 48) as usize, &p[52..]);
            assert_eq!((len, offset % usize::from(MSS)), (2_500, 0));
            assert!(bytes.len() == usize::from(MSS) || offset + bytes.len() == answer.len());
            got[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        assert_eq!(got, answer);
        let done = first.wrapping_add(3);
        self.say([packet(ACK, 0, cid, FIRST.wrapping_add(2), done, &[])]);
        assert_eq!(self.station().sent, [(5, true)]);

        // The end: theirs, ours, and the acknowledgements of both.
        self.say([packet(DATA, FIN | ACK_NOW, cid, FIRST.wrapping_add(2), done, &[0; 12])]);
        let fin = self.other().heard.iter().rev().find(|p| p[4] == DATA && p[5] & FIN != 0);
        assert_eq!(fin.map(|p| (be32(p, 16), be32(p, 20))), Some((done, FIRST.wrapping_add(3))));
        self.say([packet(ACK, 0, cid, FIRST.wrapping_add(3), done.wrapping_add(1), &[])]);
        assert_eq!(self.station().closes(), [CloseReason::Peer]);
        self.run(5_000);
        assert_idle(self.station());
        // It was told nothing that it does not know.
        for p in &self.other().heard {
            assert_eq!((p[4] >> 4, p[5] & !FLAGS, p[6], p[7]), (1, 0, 0, 0), "{p:x?}");
            assert_eq!(crc_fast::crc32_iscsi(&p[4..]), be32(p, 0));
        }
    }
}

/// A client of the first release: it knows of no pieces, no encryption.
#[test]
fn an_old_client_is_served() {
    for options in [0, UNORDERED] {
        let mut r = Rig::new();
        let body = [&hello(options)[..], &[0; 16]].concat();
        r.say([packet(INIT, 0, 0, FIRST, 0, &body)]);
        let accept = r.other().last(ACCEPT).expect("an ACCEPT").clone();
        assert_eq!(be64(&accept, 8), CID);
        assert_eq!(be32(&accept, 20), FIRST, "the number of the client's first segment");
        assert_eq!(accept[48..52], [&MSS.to_be_bytes()[..], &options.to_be_bytes()].concat());
        let (cid, first) = (be64(&accept, 40), be32(&accept, 16));
        r.say([packet(ACK, 0, cid, FIRST, first, &[])]);
        let flow = r.station().flow_from().expect("it was accepted");
        r.talk(flow, cid, first);
    }
}

/// A server of the first release: it passes over options that it does not know, and answers with those that it does.
#[test]
fn an_old_server_is_talked_to() {
    for ordered in [true, false] {
        let mut r = Rig::new();
        let flow = connect(&mut r.world, r.new, 1, 2, ordered, false);
        r.run(5);
        let init = r.other().last(INIT).expect("an INIT").clone();
        assert_eq!(be64(&init, 8), 0);
        let options = u16::from_be_bytes([init[50], init[51]]) & UNORDERED;
        assert_eq!(options, u16::from(!ordered));
        let (cid, first) = (be64(&init, 40), be32(&init, 16));
        r.say([packet(ACCEPT, 0, cid, FIRST, first, &hello(options))]);
        assert!(
            matches!(r.station().events.pop_front(), Some(Event::Connected { flow: f, .. }) if f == flow)
        );
        r.talk(flow, cid, first);
    }
}

/// A later release may add options, bytes behind a body, and reasons.
#[test]
fn what_only_a_later_release_knows_is_passed_over() {
    let mut r = Rig::new();
    let body = [&hello(0x8000)[..], &[0; 16], b"and more"].concat();
    r.say([packet(INIT, 0, 0, FIRST, 0, &body)]);
    let accept = r.other().last(ACCEPT).expect("an ACCEPT").clone();
    assert_eq!(accept[50..52], [0, 0], "what is not known is not agreed to");
    let (cid, first) = (be64(&accept, 40), be32(&accept, 16));
    r.say([packet(ACK, 0, cid, FIRST, first, &[])]);
    assert!(r.station().flow_from().is_some());
    // A reason for its end that nobody here has heard of.
    r.say([packet(RESET, 0, cid, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff])]);
    assert_eq!(r.station().closes(), [CloseReason::Reset]);
    // Or for not opening it.
    connect(&mut r.world, r.new, 1, 2, true, false);
    r.run(5);
    let cid = be64(r.other().last(INIT).unwrap(), 40);
    r.say([packet(REJECT, 0, cid, 0, 0, &[0x7f, 0xff])]);
    r.run(5_500);
    assert_eq!(r.station().connect_failures(), [ConnectFailure::Refused]);
    assert_idle(r.station());
}

/// Another version of the bytes: what it says is counted and not answered, and who asks it for a flow gives up in time.
#[test]
fn another_version_is_dropped_and_counted() {
    let mut r = Rig::new();
    let body = [&hello(0)[..], &[0; 16]].concat();
    for (i, version) in [0, 2, 15].into_iter().enumerate() {
        for kind in 0..16 {
            r.say([packet(version << 4 | kind, 0, 0, FIRST, 0, &body)]);
        }
        assert_eq!(r.station().drops(DropReason::UnknownVersion), (i as u64 + 1) * 16);
    }
    assert_eq!((r.other().heard.len(), r.station().endpoint.flows_used()), (0, 0));
    let asked = r.world.now();
    connect(&mut r.world, r.new, 1, 2, true, false);
    r.run(5);
    let cid = be64(r.other().last(INIT).unwrap(), 40);
    for version in [0, 2] {
        r.say([packet(version << 4 | 2, 0, cid, FIRST, 0, &hello(0))]);
        r.say([packet(version << 4 | 4, 0, cid, FIRST, 0, &[0, 1])]);
    }
    assert_eq!(r.station().connect_failures(), []);
    let patience = Config::default().handshake_timeout;
    r.run(5_500);
    assert_eq!(r.station().connect_failures(), [ConnectFailure::TimedOut]);
    assert!(r.world.now().since(asked) >= patience);
    assert_idle(r.station());
}
