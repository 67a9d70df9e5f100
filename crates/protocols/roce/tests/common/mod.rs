//! Two endpoints and a wire that does what the test says.
#![allow(dead_code)] // each test uses its part

use barewire_base::{Duration, Instant};
use barewire_ring::Region;
use barewire_roce::*;
use barewire_wire::MacAddr;
use barewire_wire::roce::cm::{Mad, Message};
use barewire_wire::roce::{Segment, UDP_PORT};
use barewire_wire::{ipv4, ipv6, udp, vlan};

pub const SERVICE: u64 = 50;
pub const MEMORY: usize = 1 << 20;
/// Where memory begins in the address space of its keys.
pub const BASE: u64 = 0x7000_0000_0000;

pub fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

pub fn ip(n: u8) -> std::net::IpAddr {
    [10, 0, 0, n].into()
}

pub fn config(n: u8) -> Config {
    let mut config = Config { qps_max: 1 << 12, connections_max: 1 << 12, ..Config::new(mac(n), ip(n)) };
    // Closed connections are remembered for 50 ms.
    config.cm.packet_lifetime = ms(25);
    config
}

/// An endpoint with a domain, a completion queue and memory.
pub struct End {
    pub ep: Endpoint,
    pub pd: Pd,
    pub cq: CqId,
    pub memory: Region,
    pub mr: Mr,
    pub events: Vec<(Event, Vec<u8>)>,
    /// Its frames that wait for room in its port: see [`Endpoint::handle_timeout_behind`].
    pub waiting: (u32, u32),
}

impl End {
    pub fn new(config: Config, seed: u8) -> End {
        let mut ep = Endpoint::new(config, [seed; 16]).unwrap();
        let pd = ep.alloc_pd();
        let cq = ep.create_cq(4096).unwrap();
        let memory = Region::heap(MEMORY);
        let mr = ep.reg_mr(pd, memory.clone(), BASE, Access::ALL).unwrap();
        End { ep, pd, cq, memory, mr, events: Vec::new(), waiting: (0, 0) }
    }

    pub fn sge(&self, offset: usize, len: usize) -> Sge {
        Sge { addr: BASE + offset as u64, len: len as u32, lkey: self.mr.lkey }
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        assert!(self.memory.read(offset, &mut out));
        out
    }

    pub fn fill(&self, offset: usize, bytes: &[u8]) {
        assert!(self.memory.write(offset, bytes));
    }

    pub fn completions(&mut self) -> Vec<Wc> {
        let mut out = Vec::new();
        self.ep.poll_cq(self.cq, &mut out, 10_000).unwrap();
        out
    }

    pub fn init(&self) -> QpInit {
        QpInit::rc(self.pd, self.cq)
    }

    pub fn drain_events(&mut self) {
        while let Some(event) = self.ep.poll_event() {
            self.events.push((event, self.ep.private_data().to_vec()));
        }
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        self.drain_events();
        std::mem::take(&mut self.events).into_iter().map(|e| e.0).collect()
    }
}

pub type Filter = Box<dyn FnMut(usize, &mut Vec<u8>) -> bool>;

pub struct Pair {
    pub ends: [End; 2],
    pub now: Instant,
    pub filter: Filter,
    /// Frames delivered so far: who sent them, and what they are.
    pub log: Vec<(usize, String)>,
    buf: Vec<u8>,
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(config(1), config(2))
    }

    pub fn with(a: Config, b: Config) -> Pair {
        Pair {
            ends: [End::new(a, 1), End::new(b, 2)],
            now: Instant::from_nanos(1_000_000_000),
            filter: Box::new(|_, _| true),
            log: Vec::new(),
            buf: vec![0xa5; 5000],
        }
    }

    /// Moves frames at this instant until both sides are quiet.
    pub fn exchange(&mut self) {
        for _ in 0..1_000_000 {
            let mut quiet = true;
            for side in 0..2 {
                while let Some(len) = self.ends[side].ep.poll_transmit(self.now, &mut self.buf) {
                    quiet = false;
                    let mut frame = self.buf[..len].to_vec();
                    self.buf[..len].fill(0xa5);
                    if (self.filter)(side, &mut frame) {
                        self.log.push((side, describe(&frame)));
                        self.ends[1 - side].ep.handle_frame(self.now, &frame);
                    }
                }
                self.ends[side].drain_events();
            }
            if quiet {
                return;
            }
        }
        panic!("the two never become quiet");
    }

    /// Lets time pass, from deadline to deadline.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.exchange();
            let next = self.ends.iter().filter_map(|e| e.ep.poll_timeout()).min();
            let Some(next) = next.filter(|n| *n <= end) else { break };
            self.now = self.now.max(next);
            for side in 0..2 {
                let now = self.now;
                let waiting = self.ends[side].waiting;
                self.ends[side].ep.handle_timeout_behind(now, || waiting);
            }
        }
        self.now = end;
        for side in 0..2 {
            let now = self.now;
            self.ends[side].ep.handle_timeout(now);
        }
        self.exchange();
    }

    pub fn path(&mut self, side: usize) -> PathId {
        let (us, them) =
            (self.ends[side].ep.config().addresses[0], self.ends[1 - side].ep.config().addresses[0]);
        let mac = self.ends[1 - side].ep.config().mac;
        self.ends[side].ep.path(PathSpec::new(mac, us, them)).unwrap()
    }

    /// Asks for a connection from side 0, and gives its queue pair.
    pub fn ask(&mut self, private: &[u8]) -> (ConnId, Qpn) {
        let path = self.path(0);
        let now = self.now;
        let init = self.ends[0].init();
        let qpn = self.ends[0].ep.create_qp(&init).unwrap();
        let conn =
            self.ends[0].ep.connect(now, qpn, &Connect { private, ..Connect::new(path, SERVICE) }).unwrap();
        (conn, qpn)
    }

    /// Accepts what side 1 was asked for.
    pub fn accept(&mut self) -> (ConnId, Qpn) {
        let now = self.now;
        let end = &mut self.ends[1];
        end.drain_events();
        let at = end.events.iter().position(|(e, _)| matches!(e, Event::ConnectRequest { .. }));
        let (Event::ConnectRequest { conn, .. }, _) = end.events.remove(at.expect("a request")) else {
            panic!()
        };
        let init = end.init();
        let qpn = end.ep.create_qp(&init).unwrap();
        end.ep.accept(now, conn, qpn, &Terms::default()).unwrap();
        (conn, qpn)
    }

    /// A connection, ready on both sides: the queue pairs and connections.
    pub fn connect(&mut self) -> [(ConnId, Qpn); 2] {
        let _ = self.ends[1].ep.listen(SERVICE, 1000);
        let a = self.ask(&[]);
        self.exchange();
        let b = self.accept();
        self.exchange();
        assert!(self.ends[0].take_events().contains(&Event::Connected { conn: a.0, qpn: a.1 }));
        assert!(self.ends[1].take_events().contains(&Event::Established { conn: b.0, qpn: b.1 }));
        [a, b]
    }

    pub fn post(&mut self, side: usize, qpn: Qpn, wr_id: u64, op: SendOp, offset: usize, len: usize) {
        let sge = [self.ends[side].sge(offset, len)];
        self.ends[side].ep.post_send(qpn, &SendWr::new(wr_id, op, Data::Sges(&sge))).unwrap();
    }

    pub fn recv(&mut self, side: usize, qpn: Qpn, wr_id: u64, offset: usize, len: usize) {
        let sge = [self.ends[side].sge(offset, len)];
        self.ends[side].ep.post_recv(qpn, wr_id, &sge).unwrap();
    }

    pub fn count(&self, what: &str) -> usize {
        self.log.iter().filter(|l| l.1 == what).count()
    }
}

/// The UDP payload of a frame.
pub fn datagram(frame: &[u8]) -> &[u8] {
    let link = vlan::untag(frame).unwrap();
    let packet = &frame[link.payload_at..];
    let payload = match packet[0] >> 4 {
        4 => ipv4::Packet::new_checked(packet).unwrap().payload(),
        _ => ipv6::Packet::new_checked(packet).unwrap().payload(),
    };
    let datagram = udp::Packet::new_checked(payload).unwrap();
    assert_eq!(datagram.dst_port(), UDP_PORT);
    datagram.payload()
}

/// What a frame is, in a word.
pub fn describe(frame: &[u8]) -> String {
    let Ok(segment) = Segment::parse(datagram(frame)) else { return "?".into() };
    if segment.shape.datagram && segment.bth.dst_qpn == 1 {
        return match Mad::parse(segment.payload).map(|m| m.message) {
            Ok(message) => format!("{:?}", message.attribute()),
            Err(_) => "?".into(),
        };
    }
    format!("{:?}", segment.bth.opcode)
}

/// Changes a message of the connection manager on its way, and seals it again.
pub fn with_message(frame: &mut [u8], change: impl FnOnce(&mut Message<'_>)) {
    let len = frame.len();
    let copy = frame[len - 260..len - 4].to_vec();
    let mut mad = Mad::parse(&copy).unwrap();
    change(&mut mad.message);
    mad.emit(&mut frame[len - 260..len - 4]);
    seal(frame);
}

pub fn seal(frame: &mut [u8]) {
    let at = vlan::untag(frame).unwrap().payload_at;
    barewire_wire::roce::icrc::fill(&mut frame[at..]).unwrap();
}

pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    barewire_base::Prng::new(seed).fill(&mut bytes);
    bytes
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
