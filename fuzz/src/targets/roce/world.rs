//! Three RDMA endpoints on one wire in virtual time: a victim, an honest peer, a hostile one.

use crate::frames::mac;
use barewire_base::{Duration, Instant, Prng};
use barewire_ring::Region;
use barewire_roce::*;
use barewire_wire::roce::icrc;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// Places of the stations in [`World::stations`]; station `i` has the address 10.0.0.`i + 1`.
pub const VICTIM: usize = 0;
pub const HONEST: usize = 1;
pub const HOSTILE: usize = 2;
/// Service ids: where the victim listens for the honest peer, and for anybody.
const SERVICE_HONEST: u64 = 50;
pub const SERVICE: u64 = 51;
/// Bytes of a station's memory for the honest connection, and for the other one.
pub const MEMORY: usize = 16 << 10;
/// Where memory begins in the address space of its keys.
pub const BASE: u64 = 0x7000_0000_0000;
/// Frames that the three may exchange in one [`World::pump`]; with more they chatter without end.
const FRAMES_MAX: usize = 20_000;
/// Events of one station between two looks.
const EVENTS_MAX: usize = 1_000;
/// Frames that a station remembers having been sent.
const SEEN_MAX: usize = 96;
/// Where a frame's IP header starts, and its source address.
const IP_AT: usize = 14;
const SRC_AT: usize = IP_AT + 12;
/// The low byte of a management datagram's attribute.
const ATTRIBUTE_AT: usize = 62 + 17;

pub fn ip(station: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, station as u8 + 1)
}

fn config(station: usize) -> Config {
    let mut config = Config {
        qps_max: 24,
        connections_max: 48,
        paths_max: 8,
        regions_max: 16,
        cqs_max: 8,
        requests_max: 4096,
        mtu: Mtu::M256,
        window_packets: 16,
        ack_every: 4,
        ..Config::new(mac(station as u8 + 1), IpAddr::V4(ip(station)))
    };
    config.cm.response_timeout = Duration::from_millis(2);
    config.cm.packet_lifetime = Duration::from_micros(1_500);
    config.cm.retries = 15;
    config
}

/// What a script's verbs work on. None of it belongs to the honest connection.
#[derive(Default)]
pub struct Objects {
    pub pds: Vec<Pd>,
    pub cqs: Vec<CqId>,
    pub srqs: Vec<SrqId>,
    pub qps: Vec<Qpn>,
    pub conns: Vec<ConnId>,
    pub listeners: Vec<ListenerId>,
    pub regions: Vec<Mr>,
    pub paths: Vec<PathId>,
}

/// Keeps the list short; what falls out of it lives on unseen.
pub fn keep<T>(list: &mut Vec<T>, object: T) {
    if list.len() >= 32 {
        list.remove(0);
    }
    list.push(object);
}

/// A frame that was sent to a station.
#[derive(Clone)]
pub struct Seen {
    pub from: usize,
    pub to: usize,
    pub frame: Vec<u8>,
}

/// One end of the connection that must live.
pub struct Safe {
    pub qpn: Qpn,
    pub conn: Option<ConnId>,
    pub cq: CqId,
    pub memory: Region,
    pub mr: Mr,
    /// Completions so far.
    pub done: Vec<Wc>,
}

pub struct Station {
    pub ep: Endpoint,
    pub safe: Option<Safe>,
    pub objects: Objects,
    /// A receiver's copy, for completions that nobody looks at.
    scratch: Vec<Wc>,
}

impl Station {
    fn new(n: usize) -> Station {
        let ep = Endpoint::new(config(n), [n as u8; 16]).expect("a sound configuration");
        Station { ep, safe: None, objects: Objects::default(), scratch: Vec::new() }
    }

    /// Takes all events and completions.
    fn drain(&mut self) {
        let mut events = 0;
        while let Some(event) = self.ep.poll_event() {
            events += 1;
            assert!(events < EVENTS_MAX, "{events} events at once");
            assert!(self.ep.private_data().len() <= 224);
            let (qpn, conn) = match event {
                Event::QpError(qpn, _) => (Some(qpn), None),
                Event::Disconnected { conn, qpn, .. } | Event::ConnectFailed { conn, qpn, .. } => {
                    (Some(qpn), Some(conn))
                }
                Event::CqOverrun(cq) => {
                    assert!(self.safe.as_ref().is_none_or(|s| s.cq != cq), "a neighbour's queue overran");
                    (None, None)
                }
                Event::ConnectRequest { conn, .. } => {
                    keep(&mut self.objects.conns, conn);
                    (None, None)
                }
                _ => (None, None),
            };
            if let Some(safe) = &self.safe {
                assert!(
                    qpn != Some(safe.qpn) && (conn.is_none() || conn != safe.conn),
                    "the honest connection was hurt: {event:?}"
                );
            }
        }
        if let Some(safe) = &mut self.safe {
            self.ep.poll_cq(safe.cq, &mut safe.done, usize::MAX).expect("the honest queue lives");
        }
        // A queue that is not polled overruns, which is a case as well: only the first one is.
        if let Some(cq) = self.objects.cqs.first() {
            self.scratch.clear();
            let _ = self.ep.poll_cq(*cq, &mut self.scratch, usize::MAX);
        }
    }
}

pub struct World {
    pub now: Instant,
    pub stations: [Station; 3],
    pub seen: Vec<Seen>,
    wire: VecDeque<(usize, Vec<u8>)>,
    buf: Vec<u8>,
}

/// Bytes of message `n` of a station.
pub fn message(from: usize, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; 300 + (n * 217 + from * 91) % 700];
    Prng::new((from * 1000 + n) as u64).fill(&mut bytes);
    bytes
}

/// Places in each end's memory: what it sends from, where the peer writes, where it receives, where reads land, a counter.
const SOURCE: usize = 0;
const WRITTEN: usize = 4 << 10;
const RECEIVED: usize = 8 << 10;
const READ: usize = 12 << 10;
const COUNTER: usize = MEMORY - 8;
/// Each message has this much of each place.
const STEP: usize = 1 << 10;

impl World {
    /// The three of them. The victim is connected to both others; the honest connection has carried data, and more is under
    /// way whose packets were lost.
    pub fn new() -> World {
        let mut world = World {
            now: Instant::from_nanos(1_000_000_000),
            stations: [Station::new(VICTIM), Station::new(HONEST), Station::new(HOSTILE)],
            seen: Vec::new(),
            wire: VecDeque::new(),
            buf: vec![0xa5; 2048],
        };
        world.connect_honest();
        world.say(0);
        world.pump(Duration::from_millis(1), false);
        world.check(1);
        world.set_up_hostile();
        world.see_unsent();
        world.say(1);
        world.pump(Duration::ZERO, true);
        world
    }

    fn path(&mut self, from: usize, to: usize) -> PathId {
        let spec = PathSpec::new(mac(to as u8 + 1), IpAddr::V4(ip(from)), IpAddr::V4(ip(to)));
        self.stations[from].ep.path(spec).expect("room for a path")
    }

    fn make_safe(&mut self, at: usize) -> Safe {
        let ep = &mut self.stations[at].ep;
        let pd = ep.alloc_pd();
        let cq = ep.create_cq(64).expect("room for a queue");
        let memory = Region::heap(MEMORY);
        let mr = ep.reg_mr(pd, memory.clone(), BASE, Access::ALL).expect("room for a region");
        let init = QpInit { send_max: 16, recv_max: 16, ..QpInit::rc(pd, cq) };
        let qpn = ep.create_qp(&init).expect("room for a queue pair");
        Safe { qpn, conn: None, cq, memory, mr, done: Vec::new() }
    }

    fn connect_honest(&mut self) {
        self.stations[VICTIM].ep.listen(SERVICE_HONEST, 1).expect("a free service id");
        let mut there = self.make_safe(HONEST);
        let path = self.path(HONEST, VICTIM);
        let now = self.now;
        let to = Connect::new(path, SERVICE_HONEST);
        there.conn = Some(self.stations[HONEST].ep.connect(now, there.qpn, &to).expect("asked"));
        self.pump(Duration::ZERO, false);
        let conn = self.stations[VICTIM].objects.conns.pop().expect("a request");
        let mut here = self.make_safe(VICTIM);
        here.conn = Some(conn);
        self.stations[VICTIM].ep.accept(now, conn, here.qpn, &Terms::default()).expect("accepted");
        self.pump(Duration::ZERO, false);
        self.stations[HONEST].safe = Some(there);
        self.stations[VICTIM].safe = Some(here);
    }

    /// A connection of the hostile peer with data in both directions, objects for its verbs, and one connection that was opened
    /// and closed.
    fn set_up_hostile(&mut self) {
        let now = self.now;
        for at in [VICTIM, HOSTILE] {
            let ep = &mut self.stations[at].ep;
            let pd = ep.alloc_pd();
            let cq = ep.create_cq(32).expect("room for a queue");
            let mr = ep.reg_mr(pd, Region::heap(MEMORY), BASE, Access::ALL).expect("room for a region");
            let srq = ep.create_srq(pd, 8).expect("room for a queue");
            let objects = &mut self.stations[at].objects;
            objects.pds.push(pd);
            objects.cqs.push(cq);
            objects.regions.push(mr);
            objects.srqs.push(srq);
        }
        let listener = self.stations[VICTIM].ep.listen(SERVICE, 4).expect("a free service id");
        self.stations[VICTIM].objects.listeners.push(listener);
        for (from, to) in [(HOSTILE, VICTIM), (VICTIM, HOSTILE)] {
            let path = self.path(from, to);
            self.stations[from].objects.paths.push(path);
        }
        for close in [true, false] {
            let (here, there) = (self.hostile_qp(HOSTILE), self.hostile_qp(VICTIM));
            let to = Connect {
                private: b"private",
                ..Connect::new(self.stations[HOSTILE].objects.paths[0], SERVICE)
            };
            let asked = self.stations[HOSTILE].ep.connect(now, here, &to).expect("asked");
            keep(&mut self.stations[HOSTILE].objects.conns, asked);
            self.pump(Duration::ZERO, false);
            let conn = *self.stations[VICTIM].objects.conns.last().expect("a request");
            self.stations[VICTIM].ep.accept(now, conn, there, &Terms { private: b"too" }).expect("accepted");
            self.pump(Duration::ZERO, false);
            for (at, qpn) in [(HOSTILE, here), (VICTIM, there)] {
                self.talk(at, qpn);
            }
            self.pump(Duration::from_micros(100), false);
            if close {
                self.stations[HOSTILE].ep.disconnect(now, asked).expect("established");
                self.pump(Duration::from_micros(100), false);
            }
        }
    }

    /// Messages that our connection manager understands and never sends: the question for a service, the offer of a path.
    fn see_unsent(&mut self) {
        let req = self
            .seen
            .iter()
            .rfind(|s| s.from == HOSTILE && s.frame.get(ATTRIBUTE_AT) == Some(&0x10))
            .cloned();
        let req = req.expect("a connection was asked for");
        for attribute in [0x17, 0x19] {
            let mut seen = req.clone();
            seen.frame[ATTRIBUTE_AT] = attribute;
            icrc::fill(&mut seen.frame[IP_AT..]).expect("a whole packet");
            self.seen.push(seen);
        }
    }

    fn hostile_qp(&mut self, at: usize) -> Qpn {
        let objects = &self.stations[at].objects;
        let init = QpInit { send_max: 16, recv_max: 16, ..QpInit::rc(objects.pds[0], objects.cqs[0]) };
        let qpn = self.stations[at].ep.create_qp(&init).expect("room for a queue pair");
        keep(&mut self.stations[at].objects.qps, qpn);
        qpn
    }

    /// One of each operation, so that the script has frames of each kind to change.
    fn talk(&mut self, at: usize, qpn: Qpn) {
        let other = if at == VICTIM { HOSTILE } else { VICTIM };
        let rkey = self.stations[other].objects.regions[0].rkey;
        let lkey = self.stations[at].objects.regions[0].lkey;
        let ep = &mut self.stations[at].ep;
        let sge = |len| [Sge { addr: BASE, len, lkey }];
        for i in 0..6 {
            ep.post_recv(qpn, i, &sge(1024)).expect("room for a request");
        }
        for (op, len) in [
            (SendOp::Send, 700),
            (SendOp::SendImm(7), 5),
            (SendOp::Write { addr: BASE, rkey }, 600),
            (SendOp::WriteImm { addr: BASE, rkey, imm: 1 }, 300),
            (SendOp::Read { addr: BASE, rkey }, 700),
            (SendOp::FetchAdd { addr: BASE, rkey, add: 3 }, 8),
            (SendOp::CompareSwap { addr: BASE, rkey, compare: 1, swap: 2 }, 8),
        ] {
            ep.post_send(qpn, &SendWr::new(1, op, Data::Sges(&sge(len)))).expect("room for a request");
        }
    }

    /// Each end of the honest connection writes, sends, reads and adds: part `n` of its memory.
    pub fn say(&mut self, n: usize) {
        for (from, to) in [(VICTIM, HONEST), (HONEST, VICTIM)] {
            let rkey = self.stations[to].safe.as_ref().expect("connected").mr.rkey;
            let station = &mut self.stations[from];
            let safe = station.safe.as_ref().expect("connected");
            let bytes = message(from, n);
            assert!(safe.memory.write(SOURCE + n * STEP, &bytes));
            let len = bytes.len() as u32;
            let sge = |at: usize, len| [Sge { addr: BASE + at as u64, len, lkey: safe.mr.lkey }];
            let at = |place: usize| BASE + (place + n * STEP) as u64;
            let post = |ep: &mut Endpoint, op, list: &[Sge]| {
                ep.post_send(safe.qpn, &SendWr::new(n as u64, op, Data::Sges(list)))
                    .expect("the honest queue pair works");
            };
            let ep = &mut station.ep;
            ep.post_recv(safe.qpn, n as u64, &sge(RECEIVED + n * STEP, STEP as u32))
                .expect("room for a receive");
            post(ep, SendOp::Write { addr: at(WRITTEN), rkey }, &sge(SOURCE + n * STEP, len));
            post(ep, SendOp::SendImm(n as u32), &sge(SOURCE + n * STEP, len));
            post(ep, SendOp::Read { addr: at(WRITTEN), rkey }, &sge(READ + n * STEP, len));
            post(
                ep,
                SendOp::FetchAdd { addr: BASE + COUNTER as u64, rkey, add: 1 },
                &sge(READ + n * STEP + 1016, 8),
            );
        }
    }

    /// What was said in the first `n` parts has arrived once and unchanged.
    pub fn check(&self, n: usize) {
        for (from, to) in [(VICTIM, HONEST), (HONEST, VICTIM)] {
            let (a, b) = (self.safe(from), self.safe(to));
            let bytes = |r: &Region, at: usize, len: usize| {
                let mut out = vec![0; len];
                assert!(r.read(at, &mut out));
                out
            };
            for i in 0..n {
                let want = message(from, i);
                for (what, memory, place) in [
                    ("written", &b.memory, WRITTEN),
                    ("received", &b.memory, RECEIVED),
                    ("read", &a.memory, READ),
                ] {
                    let got = bytes(memory, place + i * STEP, want.len());
                    assert!(got == want, "message {i} of station {from}, {what}, has other bytes");
                }
                let before = bytes(&a.memory, READ + i * STEP + 1016, 8);
                assert_eq!(before, (i as u64).to_ne_bytes(), "an addition happened twice or never");
            }
            assert_eq!(a.done.len(), 5 * n, "completions at station {from}: {:?}", a.done);
            assert!(a.done.iter().all(|wc| wc.status == WcStatus::Success), "{:?}", a.done);
        }
    }

    fn safe(&self, at: usize) -> &Safe {
        self.stations[at].safe.as_ref().expect("connected")
    }

    /// Collects what the stations send. True: something is on the wire.
    fn transmit(&mut self) -> bool {
        for (i, station) in self.stations.iter_mut().enumerate() {
            for _ in 0..16 {
                self.buf.fill(0xa5);
                let Some(len) = station.ep.poll_transmit(self.now, &mut self.buf) else { break };
                let frame = self.buf[..len].to_vec();
                assert!(len <= station.ep.frame_len_max(), "a frame of {len} bytes");
                assert!(icrc::check(&frame[IP_AT..]).is_ok(), "a frame with a wrong ICRC");
                self.wire.push_back((i, frame));
            }
        }
        !self.wire.is_empty()
    }

    /// Lets the stations talk until they are silent or `time` has passed. With `lose`, frames are seen and lost.
    pub fn pump(&mut self, time: Duration, lose: bool) {
        let end = self.now + time;
        let mut frames = 0;
        loop {
            while self.transmit() {
                while let Some((from, frame)) = self.wire.pop_front() {
                    frames += 1;
                    assert!(frames < FRAMES_MAX, "the stations never fall silent");
                    self.arrive(from, frame, lose);
                }
            }
            let next = self.stations.iter().filter_map(|s| s.ep.poll_timeout()).min();
            let next = next.unwrap_or(Instant::FAR_FUTURE);
            if next > end || self.now >= end {
                break;
            }
            self.now = next.max(self.now + Duration::from_nanos(1));
            self.tick();
        }
        self.now = self.now.max(end);
        self.tick();
    }

    fn tick(&mut self) {
        for station in &mut self.stations {
            station.ep.handle_timeout(self.now);
            station.drain();
        }
    }

    fn arrive(&mut self, from: usize, frame: Vec<u8>, lose: bool) {
        for to in 0..self.stations.len() {
            if frame[..6] != mac(to as u8 + 1).0 {
                continue;
            }
            if !lose {
                self.stations[to].ep.handle_frame(self.now, &frame);
                self.stations[to].drain();
            }
            if self.seen.len() < SEEN_MAX {
                self.seen.push(Seen { from, to, frame: frame.clone() });
            }
        }
    }

    /// Gives a frame to `to`, and checks that a drop is counted once and nothing else is.
    pub fn inject(&mut self, to: usize, frame: &[u8]) -> Verdict {
        let honest = ip(HONEST).octets();
        // What the honest peer says comes from the honest peer only.
        if frame.get(SRC_AT..SRC_AT + 4) == Some(&honest[..]) {
            return Verdict::Consumed;
        }
        let ep = &mut self.stations[to].ep;
        let before = ep.counters().drops.total();
        let verdict = ep.handle_frame(self.now, frame);
        let dropped = ep.counters().drops.total() - before;
        assert_eq!(dropped, u64::from(matches!(verdict, Verdict::Drop(_))), "{verdict:?}");
        assert!(ep.live_qps() <= 24 && ep.connections() <= 48);
        self.stations[to].drain();
        verdict
    }

    /// What was under way arrives, and so does one message more.
    pub fn finish(&mut self) {
        self.say(2);
        for _ in 0..40 {
            self.pump(Duration::from_millis(5), false);
            if [VICTIM, HONEST].iter().all(|s| self.safe(*s).done.len() >= 15) {
                break;
            }
        }
        self.check(3);
    }
}
