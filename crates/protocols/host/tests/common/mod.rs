//! Hosts on one simulated wire, and frames by the byte.
#![allow(dead_code)]

use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool, PoolConfig};
use barewire_host::{Host, HostConfig, HostEvent, Input, Route, Template};
use barewire_wire::{EtherType, MacAddr, Protocol, arp, eth, icmpv6, ipv4, ipv6, ndisc, udp, vlan};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const MAC_A: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x0a]);
pub const MAC_B: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x0b]);
pub const MAC_EVIL: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0xee]);

pub fn pool() -> Pool {
    let pool = Pool::new(PoolConfig { frames: 64, chunk_len: 4096, ..PoolConfig::default() }).unwrap();
    // Bytes that nobody wrote must not look like zeroes.
    let mut all: Vec<Frame> = std::iter::from_fn(|| pool.alloc()).collect();
    for frame in &mut all {
        let room = frame.tailroom();
        assert!(frame.set_len(room));
        frame.data_mut().fill(0xa5);
    }
    pool
}

pub fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub fn sock(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Host `n` (1 or 2, say): `10.0.0.n/24`, `fe80::n/64`, `2001:db8::n/64`, MAC ending in `n` + 9.
pub fn config(n: u8) -> HostConfig {
    let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, n + 9]));
    config.ipv4 = vec![(Ipv4Addr::new(10, 0, 0, n), 24)];
    config.ipv6 = vec![
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()), 64),
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n.into()), 64),
    ];
    config
}

/// Hosts on one wire.
pub struct Net {
    pub pool: Pool,
    pub hosts: Vec<Host>,
    pub now: Instant,
    /// Every frame that was on the wire: sender and bytes.
    pub wire: Vec<(usize, Vec<u8>)>,
    /// Datagrams that came out: receiver, source, destination, payload.
    pub received: Vec<(usize, SocketAddr, SocketAddr, Vec<u8>)>,
    pub events: Vec<(usize, HostEvent)>,
    /// How many of the next frames to lose.
    pub lose: usize,
}

impl Net {
    pub fn new(configs: Vec<HostConfig>) -> Net {
        Net {
            pool: pool(),
            hosts: configs.into_iter().map(Host::new).collect(),
            now: at(1_000),
            wire: vec![],
            received: vec![],
            events: vec![],
            lose: 0,
        }
    }

    pub fn pair() -> Net {
        Net::new(vec![config(1), config(2)])
    }

    /// Puts a frame on the wire: every other host gets it.
    pub fn put(&mut self, from: usize, bytes: &[u8]) {
        self.wire.push((from, bytes.to_vec()));
        if self.lose > 0 {
            self.lose -= 1;
            return;
        }
        for to in (0..self.hosts.len()).filter(|&to| to != from) {
            let frame = self.pool.alloc_from(bytes).unwrap();
            if let Input::Udp(datagram) = self.hosts[to].handle_frame(self.now, &frame) {
                self.received.push((to, datagram.src, datagram.dst, datagram.payload(&frame).to_vec()));
            }
        }
    }

    /// Lets hosts speak until all are silent.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            let mut silent = true;
            for from in 0..self.hosts.len() {
                let mut frame = self.pool.alloc().unwrap();
                if self.hosts[from].poll_transmit(self.now, &mut frame) {
                    silent = false;
                    let bytes = frame.data().to_vec();
                    self.put(from, &bytes);
                }
                while let Some(event) = self.hosts[from].poll_event() {
                    self.events.push((from, event));
                }
            }
            if silent {
                return;
            }
        }
        panic!("the hosts never fall silent");
    }

    /// Moves time on by `by`, stopping wherever a host asked to be called.
    pub fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        loop {
            self.settle();
            let next = self.hosts.iter().filter_map(Host::poll_timeout).min().unwrap_or(Instant::FAR_FUTURE);
            assert!(next > self.now, "a deadline in the past was not handled");
            self.now = next.min(end);
            for host in &mut self.hosts {
                host.handle_timeout(self.now);
            }
            if self.now == end {
                self.settle();
                return;
            }
        }
    }

    pub fn template(&mut self, from: usize, src: &str, dst: &str) -> Template {
        let (src, dst) = (sock(src), sock(dst));
        if let Route::Ready(template) = self.hosts[from].route(self.now, src, dst) {
            return template;
        }
        self.settle();
        match self.hosts[from].route(self.now, src, dst) {
            Route::Ready(template) => template,
            other => panic!("no template: {other:?}"),
        }
    }

    pub fn send(&mut self, from: usize, template: &Template, payload: &[u8]) {
        let mut bytes = vec![0xa5; template.header_len() + payload.len()];
        bytes[template.header_len()..].copy_from_slice(payload);
        template.seal(&mut bytes, 2);
        self.put(from, &bytes);
    }

    /// Resolves, sends `payload` from one host to another, and checks that it arrived as it left.
    pub fn exchange(&mut self, from: usize, to: usize, src: &str, dst: &str, payload: &[u8]) {
        let template = self.template(from, src, dst);
        let before = self.received.len();
        self.send(from, &template, payload);
        assert_eq!(self.received[before..], [(to, sock(src), sock(dst), payload.to_vec())]);
    }

    /// Frames on the wire since `mark` that are ARP requests, with their Ethernet destination.
    pub fn arp_requests(&self, mark: usize) -> Vec<MacAddr> {
        self.wire[mark..]
            .iter()
            .filter(|(_, b)| b[12..14] == [8, 6] && b[21] == 1)
            .map(|(_, b)| eth::Packet::new_unchecked(&b[..]).dst())
            .collect()
    }
}

/// One host, and the frames that it gets and sends, by the byte.
pub struct Solo {
    pub pool: Pool,
    pub host: Host,
    pub now: Instant,
}

impl Solo {
    pub fn new(config: HostConfig) -> Solo {
        Solo { pool: pool(), host: Host::new(config), now: at(1_000) }
    }

    pub fn give(&mut self, bytes: &[u8]) -> Input {
        let frame = self.pool.alloc_from(bytes).unwrap();
        self.host.handle_frame(self.now, &frame)
    }

    pub fn take(&mut self) -> Option<Vec<u8>> {
        let mut frame = self.pool.alloc().unwrap();
        self.host.poll_transmit(self.now, &mut frame).then(|| frame.data().to_vec())
    }
}

pub fn eth_frame(dst: MacAddr, src: MacAddr, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xa5; 14];
    eth::Repr { dst, src, ethertype }.emit(&mut eth::Packet::new_unchecked(&mut bytes[..]));
    bytes.extend_from_slice(packet);
    bytes
}

pub fn tagged(vid: u16, frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    bytes.extend([0x81, 0x00]);
    bytes.extend(vlan::Tag::new(vid).to_bits().to_be_bytes());
    bytes.extend_from_slice(&frame[12..]);
    bytes
}

pub fn arp_frame(eth_dst: MacAddr, repr: arp::Repr) -> Vec<u8> {
    let mut packet = [0xa5; arp::PACKET_LEN];
    repr.emit(&mut arp::Packet::new_unchecked(&mut packet[..]));
    eth_frame(eth_dst, repr.sender_mac, EtherType::ARP, &packet)
}

pub fn arp_reply(eth_dst: MacAddr, mac: MacAddr, ip: &str, target_mac: MacAddr, target: &str) -> Vec<u8> {
    arp_frame(
        eth_dst,
        arp::Repr {
            operation: arp::Operation::Reply,
            sender_mac: mac,
            sender_ip: v4(ip),
            target_mac,
            target_ip: v4(target),
        },
    )
}

pub fn arp_request(mac: MacAddr, ip: &str, target: &str) -> Vec<u8> {
    arp_frame(
        MacAddr::BROADCAST,
        arp::Repr {
            operation: arp::Operation::Request,
            sender_mac: mac,
            sender_ip: v4(ip),
            target_mac: MacAddr::ZERO,
            target_ip: v4(target),
        },
    )
}

/// An IPv4 or IPv6 packet with UDP in it, checksums right.
pub fn udp_packet(src: SocketAddr, dst: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let udp_len = 8 + payload.len();
    let (mut bytes, l4) = match (src.ip(), dst.ip()) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            let mut bytes = vec![0xa5; 20 + udp_len];
            ipv4::Repr {
                src: s,
                dst: d,
                protocol: Protocol::UDP,
                payload_len: udp_len as u16,
                ttl: 64,
                dscp: 0,
                ecn: 1,
                ident: 0,
                dont_fragment: true,
            }
            .emit(&mut ipv4::Packet::new_unchecked(&mut bytes[..]));
            (bytes, 20)
        }
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            let mut bytes = vec![0xa5; 40 + udp_len];
            ipv6::Repr {
                src: s,
                dst: d,
                next_header: Protocol::UDP,
                payload_len: udp_len as u16,
                hop_limit: 64,
                dscp: 0,
                ecn: 1,
                flow_label: 77,
            }
            .emit(&mut ipv6::Packet::new_unchecked(&mut bytes[..]));
            (bytes, 40)
        }
        _ => panic!("families differ"),
    };
    let mut header = udp::Packet::new_unchecked(&mut bytes[l4..]);
    udp::Repr { src_port: src.port(), dst_port: dst.port(), payload_len: payload.len() as u16 }
        .emit(&mut header);
    header.payload_mut().copy_from_slice(payload);
    header.fill_checksum(src.ip(), dst.ip());
    bytes
}

pub fn udp_frame(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (sock(src), sock(dst));
    let ethertype = if src.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    eth_frame(MAC_A, MAC_B, ethertype, &udp_packet(src, dst, payload))
}

pub fn icmp6_packet(src: &str, dst: &str, hop_limit: u8, message: icmpv6::Repr<'_>) -> Vec<u8> {
    let mut bytes = vec![0xa5; 40 + message.buffer_len()];
    ipv6::Repr {
        src: v6(src),
        dst: v6(dst),
        next_header: Protocol::ICMPV6,
        payload_len: message.buffer_len() as u16,
        hop_limit,
        dscp: 0,
        ecn: 0,
        flow_label: 0,
    }
    .emit(&mut ipv6::Packet::new_unchecked(&mut bytes[..]));
    message.emit(&mut icmpv6::Packet::new_unchecked(&mut bytes[40..]), v6(src), v6(dst));
    bytes
}

pub fn solicit(mac: MacAddr, src: &str, dst: &str, target: &str, source_mac: Option<MacAddr>) -> Vec<u8> {
    let message = ndisc::Repr::NeighbourSolicit { target: v6(target), source_mac };
    let packet = icmp6_packet(src, dst, 255, icmpv6::Repr::Ndisc(message));
    eth_frame(MacAddr::from_multicast_v6(v6(dst)), mac, EtherType::IPV6, &packet)
}

pub fn advert(
    eth_dst: MacAddr,
    mac: MacAddr,
    src: &str,
    dst: &str,
    (solicited, override_known): (bool, bool),
) -> Vec<u8> {
    let message = ndisc::Repr::NeighbourAdvert {
        router: false,
        solicited,
        override_known,
        target: v6(src),
        target_mac: Some(mac),
    };
    let packet = icmp6_packet(src, dst, 255, icmpv6::Repr::Ndisc(message));
    eth_frame(eth_dst, mac, EtherType::IPV6, &packet)
}
