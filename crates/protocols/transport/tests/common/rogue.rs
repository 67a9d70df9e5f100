//! A peer that speaks the protocol and keeps none of its rules. It opens flows as anybody may; then it says what a test,
//! or a seed, makes it say.

use super::forge;
use super::mac;
use barewire_base::{Duration, Instant, Prng};
use barewire_frame::{Frame, Pool};
use barewire_host::{Host, HostConfig, Input, Route, Template};
use barewire_sim::Node;
use barewire_wire::MacAddr;
use barewire_wire::msg::{self, Header, Kind, flag, option};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A flow as the liar knows it.
#[derive(Clone, Debug)]
pub struct Lie {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Its own connection id, and its peer's, which is zero until the ACCEPT.
    pub cid: u64,
    pub peer_cid: u64,
    pub mss: u16,
    /// The first segment number, and the next one that an honest sender would use.
    pub first: u32,
    pub next: u32,
    pub next_id: u32,
    /// What it has seen of its peer's segments: the next one expected.
    pub peer_next: u32,
    /// Last limit that its peer granted, and whether its peer said that it has no room.
    pub credit: u32,
    pub not_ready: u32,
    pub unordered: bool,
    pub gone: bool,
}

/// Draws what it does from a seed.
pub struct Whim {
    pub prng: Prng,
    /// Where it connects to.
    pub ports: Vec<SocketAddr>,
    /// Longest wait between two deeds.
    pub pause: Duration,
    /// Deeds still to be done.
    pub left: u32,
    pub next_at: Instant,
}

pub struct Rogue {
    pub host: Host,
    pool: Pool,
    number: u8,
    out: VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>,
    pub lies: Vec<Lie>,
    /// Acknowledges what it gets, as an honest peer would.
    pub acks: bool,
    /// Hears and says nothing any more.
    pub mute: bool,
    pub whim: Option<Whim>,
    now: Instant,
    next_cid: u64,
}

impl Rogue {
    pub fn new(number: u8, pool: Pool) -> Rogue {
        let mut host = HostConfig::new(MacAddr(mac(number)));
        host.ipv4 = vec![([10, 0, 0, number].into(), 16)];
        Rogue {
            host: Host::new(host),
            pool,
            number,
            out: VecDeque::new(),
            lies: vec![],
            acks: true,
            mute: false,
            whim: None,
            now: Instant::ZERO,
            next_cid: 0x1111_0000_0000 * u64::from(number),
        }
    }

    fn say(&mut self, lie: usize, mut header: Header, body: &[u8]) {
        let l = &self.lies[lie];
        header.stamp = (self.now.as_nanos() / msg::STAMP_UNIT_NS) as u32;
        self.out.push_back((l.local, l.remote, forge::packet(header, body)));
    }

    fn header(&self, lie: usize, kind: Kind) -> Header {
        let l = &self.lies[lie];
        Header { seq: l.next, ack: l.peer_next, credit: 1 << 20, ..forge::header(kind, l.peer_cid) }
    }

    /// Asks for a flow from this port of its own; says its place in `lies`.
    pub fn open(&mut self, remote: SocketAddr, udp_port: u16, unordered: bool) -> usize {
        self.next_cid += 0x1_0001;
        let first = (self.next_cid as u32).wrapping_mul(0x9e37_79b1);
        self.lies.push(Lie {
            local: SocketAddr::new([10, 0, 0, self.number].into(), udp_port),
            remote,
            cid: self.next_cid,
            peer_cid: 0,
            mss: 1_448,
            first,
            next: first,
            next_id: 0,
            peer_next: 0,
            credit: 0,
            not_ready: 0,
            unordered,
            gone: false,
        });
        let lie = self.lies.len() - 1;
        self.init(lie, [0; 16]);
        lie
    }

    fn init(&mut self, lie: usize, cookie: [u8; 16]) {
        let l = &self.lies[lie];
        let options = if l.unordered { option::UNORDERED } else { 0 };
        let mut packet = vec![0; msg::INIT_LEN];
        let header = Header { seq: l.first, credit: 1 << 20, ..forge::header(Kind::Init, 0) };
        header.emit(&mut packet);
        msg::Init { src_cid: l.cid, mss: l.mss, options, cookie }.emit(&mut packet);
        forge::seal(&mut packet);
        self.out.push_back((l.local, l.remote, packet));
    }

    /// One segment, whatever it claims.
    pub fn data(&mut self, lie: usize, seq: u32, id: u32, len: u32, offset: u32, payload: &[u8]) {
        let header = Header { seq, ..self.header(lie, Kind::Data) };
        let mut body: Vec<u8> = [id, len, offset].into_iter().flat_map(u32::to_be_bytes).collect();
        body.extend_from_slice(payload);
        self.say(lie, header, &body);
    }

    /// A whole message as an honest sender would cut it.
    pub fn message(&mut self, lie: usize, bytes: &[u8]) {
        let (id, mss) = (self.lies[lie].next_id, usize::from(self.lies[lie].mss));
        let mut offset = 0;
        loop {
            let end = (offset + mss).min(bytes.len());
            let seq = self.lies[lie].next;
            self.data(lie, seq, id, bytes.len() as u32, offset as u32, &bytes[offset..end]);
            self.lies[lie].next = seq.wrapping_add(1);
            offset = end;
            if offset == bytes.len() {
                break;
            }
        }
        self.lies[lie].next_id = id.wrapping_add(1);
    }

    /// The first segment of a message of `len` bytes, of which the rest never comes.
    pub fn first_of(&mut self, lie: usize, len: u32) {
        let Lie { next, next_id, mss, .. } = self.lies[lie];
        let payload = vec![0x11; len.min(u32::from(mss)) as usize];
        self.data(lie, next, next_id, len, 0, &payload);
        self.lies[lie].next = next.wrapping_add(len.div_ceil(u32::from(mss)).max(1));
        self.lies[lie].next_id = next_id.wrapping_add(1);
    }

    pub fn fin(&mut self, lie: usize, seq: u32) {
        let header = Header { seq, flags: flag::FIN, ..self.header(lie, Kind::Data) };
        self.say(lie, header, &[0; 12]);
    }

    pub fn ack(&mut self, lie: usize, flags: u8) {
        let header = Header { flags, ..self.header(lie, Kind::Ack) };
        self.say(lie, header, &[]);
    }

    pub fn reset(&mut self, lie: usize) {
        let header = forge::header(Kind::Reset, self.lies[lie].peer_cid);
        self.say(lie, header, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        self.lies[lie].gone = true;
    }

    pub fn is_open(&self, lie: usize) -> bool {
        self.lies[lie].peer_cid != 0 && !self.lies[lie].gone
    }

    fn take(&mut self, datagram: &barewire_host::Datagram, packet: &[u8]) {
        let Ok(header) = Header::parse(packet) else { return };
        // By id; a packet without one (RESET with a proof) belongs to whom the proof names.
        let by_proof = |l: &Lie| {
            header.kind == Kind::Reset
                && header.dst_cid == 0
                && msg::Reset::parse(packet).is_ok_and(|r| r.proof == l.peer_cid && r.proof != 0)
        };
        let found = self.lies.iter().rposition(|l| l.cid == header.dst_cid || by_proof(l));
        let Some(lie) = found.filter(|l| self.lies[*l].remote == datagram.src) else { return };
        let l = &mut self.lies[lie];
        match header.kind {
            Kind::Accept => {
                let Ok(accept) = msg::Accept::parse(packet) else { return };
                if l.peer_cid == 0 {
                    (l.peer_cid, l.mss, l.peer_next) = (accept.src_cid, accept.mss, header.seq);
                }
                l.credit = header.credit;
                self.ack(lie, 0);
            }
            Kind::Retry => {
                if let Ok(cookie) = msg::parse_retry(packet) {
                    self.init(lie, cookie);
                }
            }
            Kind::Reject | Kind::Reset => l.gone = true,
            Kind::Data | Kind::Ack => {
                l.credit = header.credit;
                l.not_ready += u32::from(header.flags & flag::NOT_READY != 0);
                if header.kind == Kind::Data && header.seq == l.peer_next {
                    l.peer_next = l.peer_next.wrapping_add(1);
                }
                if self.acks && (header.kind == Kind::Data || header.flags & flag::ACK_NOW != 0) {
                    self.ack(lie, 0);
                }
            }
            _ => {}
        }
    }

    /// One deed, drawn. Nearly every message it begins is one that an honest peer could have begun.
    fn do_something(&mut self) {
        let Some(mut whim) = self.whim.take() else { return };
        let p = &mut whim.prng;
        let open: Vec<usize> = (0..self.lies.len()).filter(|l| self.is_open(*l)).collect();
        if open.is_empty() || p.chance(0.1) {
            let remote = whim.ports[p.below(whim.ports.len() as u64) as usize];
            // Few ports, so that flows come again from where others were.
            let port = 2_000 + p.below(8) as u16;
            let unordered = p.chance(0.4);
            self.open(remote, port, unordered);
        } else {
            // Mostly the last ones: the same slots come again.
            let lie = open[open.len() - 1 - p.below(open.len().min(4) as u64) as usize];
            let Lie { next, next_id, mss, peer_next, .. } = self.lies[lie];
            let bytes = |p: &mut Prng, n: u64| vec![0x66; p.below(n) as usize];
            match p.below(20) {
                0..=2 => {
                    let message = bytes(p, 6_000);
                    self.message(lie, &message);
                }
                3 => {
                    let len = 1 << p.below(27);
                    self.first_of(lie, len.min(64 << 20) as u32);
                }
                4 => {
                    for _ in 0..p.below(260) {
                        self.first_of(lie, u32::from(mss) + 1);
                    }
                }
                // A message out of turn, whole, and its place among the segments taken by it.
                5 | 6 => {
                    let payload = bytes(p, u64::from(mss) + 1);
                    let (seq, id) = (next.wrapping_add(p.below(3) as u32), p.below(256) as u32);
                    self.data(lie, seq, next_id.wrapping_add(id), payload.len() as u32, 0, &payload);
                    if p.chance(0.5) {
                        self.lies[lie].next = seq.wrapping_add(1);
                    }
                }
                7 => {
                    for i in 0..p.below(255) as u32 {
                        self.data(lie, next.wrapping_add(1 + i), next_id.wrapping_add(1 + i), 1, 0, b"6");
                    }
                }
                8 => {
                    self.fin(lie, next);
                    self.lies[lie].next = next.wrapping_add(1);
                }
                9 => self.fin(lie, next.wrapping_add(p.below(4) as u32)),
                10 => self.lies[lie].peer_next = peer_next.wrapping_add(p.below(300) as u32),
                11 => self.ack(lie, p.below(0x40) as u8),
                12 => self.ack(lie, flag::NOT_READY),
                13 => self.reset(lie),
                14 => self.lies[lie].gone = true,
                15 => self.acks = p.chance(0.7),
                16 => {
                    let len = p.next_u64() as u32 >> p.below(32);
                    let (seq, id, offset) = (p.next_u64() as u32, p.next_u64() as u32, p.next_u64() as u32);
                    let payload = bytes(p, 1_400);
                    self.data(lie, seq, id, len, offset, &payload);
                }
                17 => {
                    // The same number again, of another message.
                    let payload = bytes(p, u64::from(mss) + 1);
                    let back = 1 + p.below(4) as u32;
                    let seq = next.wrapping_sub(back);
                    self.data(lie, seq, next_id.wrapping_sub(back), payload.len() as u32, 0, &payload);
                }
                18 => {
                    let mut header = self.header(lie, Kind::Ack);
                    header.credit = p.next_u64() as u32;
                    self.say(lie, header, &[]);
                }
                _ => self.ack(lie, flag::ACK_NOW),
            }
        }
        let p = &mut whim.prng;
        whim.next_at = self.now + Duration::from_nanos(1 + p.below(whim.pause.as_nanos()));
        whim.left -= 1;
        self.whim = Some(whim);
    }
}

impl Node for Rogue {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.now = now;
        if self.mute {
            return;
        }
        if let Input::Udp(datagram) = self.host.handle_frame(now, &frame) {
            self.take(&datagram, datagram.payload(&frame));
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.host.handle_timeout(now);
        while self.host.poll_event().is_some() {}
        if self.whim.as_ref().is_some_and(|w| w.left > 0 && now >= w.next_at) {
            self.do_something();
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        if self.mute {
            self.out.clear();
            return None;
        }
        let mut frame = self.pool.alloc()?;
        if self.host.poll_transmit(now, &mut frame) {
            return Some(frame);
        }
        let (local, remote, packet) = self.out.front()?;
        match self.host.route(now, *local, *remote) {
            Route::Ready(template) => {
                put(&template, &mut frame, packet);
                self.out.pop_front();
                Some(frame)
            }
            // Resolving an address may have given the host something to send.
            _ => self.host.poll_transmit(now, &mut frame).then_some(frame),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let whim = self.whim.as_ref().filter(|w| w.left > 0).map(|w| w.next_at);
        // A neighbour being resolved is asked about again soon.
        let waiting = (!self.out.is_empty()).then(|| self.now + Duration::from_micros(100));
        [whim, waiting, self.host.poll_timeout()].into_iter().flatten().min()
    }
}

/// Puts a packet that is none of an endpoint's behind the headers of its way.
pub fn put(template: &Template, frame: &mut Frame, packet: &[u8]) {
    let fits = frame.set_len(template.header_len() + packet.len());
    assert!(fits, "a forged packet of {} bytes", packet.len());
    frame.data_mut()[template.header_len()..].copy_from_slice(packet);
    template.seal(frame.data_mut(), 0);
}
