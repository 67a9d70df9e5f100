//! Paths: the headers towards a peer, made once and shared by all queue pairs and connections that use it.

use crate::index::Index;
use crate::slab::{NONE, Slab};
use crate::verbs::Handle;
use crate::{Config, PathId, VerbError};
use barewire_wire::roce::icrc::HeaderCrc;
use barewire_wire::roce::{self, ICRC_LEN, bth};
use barewire_wire::{EtherType, MacAddr, Protocol, checksum, eth, ipv4, ipv6, udp, vlan};
use std::net::IpAddr;

/// Bytes of the longest headers in front of the BTH.
pub(crate) const HEADER_MAX: usize = eth::HEADER_LEN + vlan::TAG_LEN + ipv6::HEADER_LEN + udp::HEADER_LEN;

/// The way to a peer. Whoever makes it has resolved the MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathSpec {
    /// MAC address of the peer, or of the router towards it.
    pub dst_mac: MacAddr,
    /// Our address, one of the endpoint's.
    pub src: IpAddr,
    /// The peer's address, of the same family.
    pub dst: IpAddr,
    /// Time to live.
    pub hop_limit: u8,
    /// DS code point of data packets, 6 bits.
    pub dscp: u8,
}

impl PathSpec {
    /// A path with 64 hops and the default code point.
    pub const fn new(dst_mac: MacAddr, src: IpAddr, dst: IpAddr) -> PathSpec {
        PathSpec { dst_mac, src, dst, hop_limit: 64, dscp: 0 }
    }
}

pub(crate) struct Path {
    alive: bool,
    generation: u32,
    pub(crate) spec: PathSpec,
    /// Ethernet, VLAN, IP and UDP with lengths, checksums and the source port zero.
    header: [u8; HEADER_MAX],
    l3: u8,
    len: u8,
    pub(crate) v4: bool,
    /// Sum of the IPv4 header, or of the pseudo-header over IPv6, with what is zero in `header`.
    sum: u32,
    udp_checksum: bool,
    /// CRC over IP header, UDP header and BTH with all of that zero.
    crc: u32,
    /// Queue pairs and connections that use it.
    refs: u32,
    /// How often applications asked for it and have not let it go: that keeps it.
    pins: u32,
    /// Headers and messages of the connection manager, made when it first speaks to this peer.
    pub(crate) gsi: Option<Box<crate::cm::template::Gsi>>,
}

impl Default for Path {
    fn default() -> Self {
        let spec = PathSpec::new(MacAddr::ZERO, IpAddr::from([0; 4]), IpAddr::from([0; 4]));
        Path {
            alive: false,
            generation: 0,
            spec,
            header: [0; HEADER_MAX],
            l3: 0,
            len: 0,
            v4: true,
            sum: 0,
            udp_checksum: false,
            crc: 0,
            refs: 0,
            pins: 0,
            gsi: None,
        }
    }
}

impl Path {
    fn new(config: &Config, spec: PathSpec) -> Path {
        let mut header = [0; HEADER_MAX];
        let v4 = spec.src.is_ipv4();
        let ethertype = if v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        let outer = if config.vlan.is_some() { EtherType::VLAN } else { ethertype };
        eth::Repr { dst: spec.dst_mac, src: config.mac, ethertype: outer }
            .emit(&mut eth::Packet::new_unchecked(&mut header[..]));
        let mut l3 = eth::HEADER_LEN;
        if let Some(vid) = config.vlan {
            vlan::Repr { tag: vlan::Tag::new(vid), ethertype }
                .emit(&mut vlan::Packet::new_unchecked(&mut header[l3..]));
            l3 += vlan::TAG_LEN;
        }
        let (l4, sum) = match (spec.src, spec.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut ip = ipv4::Packet::new_unchecked(&mut header[l3..]);
                ipv4::Repr {
                    src,
                    dst,
                    protocol: Protocol::UDP,
                    payload_len: 0,
                    ttl: spec.hop_limit,
                    dscp: spec.dscp,
                    ecn: 0,
                    ident: 0,
                    dont_fragment: true,
                }
                .emit(&mut ip);
                ip.set_total_len(0);
                ip.set_checksum(0);
                (l3 + ipv4::HEADER_LEN, checksum::sum(&header[l3..l3 + ipv4::HEADER_LEN]))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                ipv6::Repr {
                    src,
                    dst,
                    next_header: Protocol::UDP,
                    payload_len: 0,
                    hop_limit: spec.hop_limit,
                    dscp: spec.dscp,
                    ecn: 0,
                    flow_label: 0,
                }
                .emit(&mut ipv6::Packet::new_unchecked(&mut header[l3..]));
                (l3 + ipv6::HEADER_LEN, checksum::pseudo_v6(src, dst, Protocol::UDP.0, 0))
            }
            // `Paths::add` refuses them.
            _ => (l3, 0),
        };
        udp::Packet::new_unchecked(&mut header[l4..]).set_dst_port(roce::UDP_PORT);
        let mut covered = [0; HEADER_MAX + bth::HEADER_LEN];
        covered[..HEADER_MAX].copy_from_slice(&header);
        let crc =
            HeaderCrc::new(&covered[l3..l4 + udp::HEADER_LEN + bth::HEADER_LEN]).map_or(0, HeaderCrc::crc);
        Path {
            alive: true,
            generation: 0,
            spec,
            header,
            l3: l3 as u8,
            len: (l4 + udp::HEADER_LEN) as u8,
            v4,
            sum,
            udp_checksum: !v4 && config.udp_checksum6,
            crc,
            refs: 0,
            pins: 0,
            gsi: None,
        }
    }

    /// Whether a packet came from the other end to ours.
    #[inline]
    pub(crate) fn is_from(&self, src: IpAddr, dst: IpAddr) -> bool {
        self.spec.dst == src && self.spec.src == dst
    }

    /// Where the BTH starts.
    #[inline]
    pub(crate) fn bth_at(&self) -> usize {
        usize::from(self.len)
    }

    /// Where what follows the BTH starts.
    #[inline]
    pub(crate) fn body_at(&self) -> usize {
        usize::from(self.len) + bth::HEADER_LEN
    }

    /// The CRC over the headers of packets to one queue pair in the default partition, with lengths, opcode, flags and sequence
    /// number zero.
    #[inline]
    pub(crate) fn header_crc(&self, src_port: u16, dst_qpn: u32) -> u32 {
        let ports = if self.v4 { 5 } else { 10 };
        let state = HeaderCrc::from_crc(self.crc, self.v4);
        state
            .changed_half(ports, 0, src_port)
            .changed_half(ports + 2, 1, roce::PKEY_DEFAULT)
            .changed(ports + 3, dst_qpn)
            .crc()
    }

    /// Writes headers and ICRC around the `body` bytes that stand at [`body_at`](Self::body_at), and pads them. `crc` came from
    /// [`header_crc`](Self::header_crc) for the same port and queue pair. Bytes of the frame.
    #[inline]
    pub(crate) fn seal(
        &self,
        buf: &mut [u8],
        mut head: bth::Repr,
        crc: u32,
        src_port: u16,
        ecn: u8,
        body: usize,
    ) -> usize {
        let pad = body.wrapping_neg() & 3;
        head.pad = pad as u8;
        let (bth_at, body_at) = (self.bth_at(), self.body_at());
        let end = body_at + body + pad;
        buf[end - pad..end].fill(0);
        buf[..bth_at].copy_from_slice(&self.header[..bth_at]);
        let udp_len = (end + ICRC_LEN - bth_at + udp::HEADER_LEN) as u16;
        let words = head.to_words();
        for (i, word) in words.iter().enumerate() {
            buf[bth_at + 4 * i..][..4].copy_from_slice(&word.to_be_bytes());
        }
        self.write_lengths(buf, src_port, udp_len, ecn);
        let state = HeaderCrc::from_crc(crc, self.v4);
        let (state, first) = if self.v4 {
            (state.changed_half(0, 1, udp_len + ipv4::HEADER_LEN as u16), 5)
        } else {
            (state.changed_half(1, 0, udp_len), 10)
        };
        // The partition key is in the state already.
        let state = state
            .changed_half(first + 1, 0, udp_len)
            .changed_half(first + 2, 0, (words[0] >> 16) as u16)
            .changed(first + 4, words[2]);
        let icrc = state.finish(&buf[body_at..end]);
        buf[end..end + ICRC_LEN].copy_from_slice(&icrc.to_le_bytes());
        let end = end + ICRC_LEN;
        self.fill_udp_checksum(&mut buf[..end], src_port, udp_len);
        end
    }

    /// Sets source port, lengths and the IPv4 checksum in headers that were copied from ours.
    #[inline]
    pub(crate) fn write_lengths(&self, buf: &mut [u8], src_port: u16, udp_len: u16, ecn: u8) {
        let (l3, l4) = (usize::from(self.l3), self.bth_at() - udp::HEADER_LEN);
        if self.v4 {
            let total = udp_len + ipv4::HEADER_LEN as u16;
            let check = checksum::finish(self.sum + u32::from(total) + u32::from(ecn));
            buf[l3 + 1] |= ecn;
            buf[l3 + 2..l3 + 4].copy_from_slice(&total.to_be_bytes());
            buf[l3 + 10..l3 + 12].copy_from_slice(&check.to_be_bytes());
        } else {
            buf[l3 + 1] |= ecn << 4;
            buf[l3 + 4..l3 + 6].copy_from_slice(&udp_len.to_be_bytes());
        }
        buf[l4..l4 + 2].copy_from_slice(&src_port.to_be_bytes());
        buf[l4 + 4..l4 + 6].copy_from_slice(&udp_len.to_be_bytes());
    }

    /// Computes the UDP checksum, last of all, where one is wanted. (The ICRC takes the field for ones.)
    #[inline]
    pub(crate) fn fill_udp_checksum(&self, frame: &mut [u8], src_port: u16, udp_len: u16) {
        if self.udp_checksum {
            let l4 = self.bth_at() - udp::HEADER_LEN;
            let ports = u32::from(src_port) + u32::from(roce::UDP_PORT);
            let sum = self.sum + ports + 2 * u32::from(udp_len) + checksum::sum(&frame[self.bth_at()..]);
            frame[l4 + 6..l4 + 8].copy_from_slice(&checksum::finish_udp(sum).to_be_bytes());
        }
    }

    /// The headers as they are kept, for templates.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header[..self.bth_at()]
    }

    /// Where the IP header starts.
    pub(crate) fn l3(&self) -> usize {
        usize::from(self.l3)
    }
}

/// All paths.
pub(crate) struct Paths {
    entries: Slab<Path>,
    by_spec: Index,
    salt: u64,
    /// The one found last: most packets come from few peers.
    last: u32,
    /// Where the search for a path to forget goes on.
    hand: u32,
}

impl Paths {
    pub(crate) fn new(limit: usize, salt: u64) -> Paths {
        Paths { entries: Slab::new(limit), by_spec: Index::new(salt), salt, last: NONE, hand: 0 }
    }

    fn key(&self, dst_mac: MacAddr, src: IpAddr, dst: IpAddr) -> u64 {
        let mut key = self.salt;
        let mut mix = |word: u64| {
            key = (key ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            key ^= key >> 29;
        };
        let m = dst_mac.0;
        mix(u64::from_be_bytes([0, 0, m[0], m[1], m[2], m[3], m[4], m[5]]));
        for addr in [src, dst] {
            match addr {
                IpAddr::V4(v4) => mix(u64::from(v4.to_bits())),
                IpAddr::V6(v6) => {
                    mix((v6.to_bits() >> 64) as u64 ^ 1 << 40);
                    mix(v6.to_bits() as u64);
                }
            }
        }
        key
    }

    /// The path over which a frame came, if there is one.
    pub(crate) fn find(&mut self, dst_mac: MacAddr, src: IpAddr, dst: IpAddr) -> Option<u32> {
        let same = |p: &Path| p.alive && (p.spec.dst_mac, p.spec.src, p.spec.dst) == (dst_mac, src, dst);
        if self.entries.get(self.last).is_some_and(same) {
            return Some(self.last);
        }
        let id = self.by_spec.get(self.key(dst_mac, src, dst))?;
        if !self.entries.get(id).is_some_and(same) {
            return None;
        }
        self.last = id;
        Some(id)
    }

    /// The path that goes there, made if need be.
    pub(crate) fn add(&mut self, config: &Config, spec: PathSpec, pinned: bool) -> Result<u32, VerbError> {
        if spec.src.is_ipv4() != spec.dst.is_ipv4() || spec.dscp > 63 || !config.addresses.contains(&spec.src)
        {
            return Err(VerbError::Invalid);
        }
        if let Some(id) = self.find(spec.dst_mac, spec.src, spec.dst) {
            self.entries[id].pins += u32::from(pinned);
            return Ok(id);
        }
        let id = match self.entries.take() {
            Some(id) => id,
            None => self.evict().ok_or(VerbError::Limit)?,
        };
        let key = self.key(spec.dst_mac, spec.src, spec.dst);
        if self.by_spec.get(key).is_some() || !self.by_spec.insert(key, id) {
            self.entries[id].alive = false;
            self.entries.give(id);
            return Err(VerbError::Limit);
        }
        let generation = self.entries[id].generation.wrapping_add(1);
        self.entries[id] = Path { generation, pins: u32::from(pinned), ..Path::new(config, spec) };
        self.last = id;
        Ok(id)
    }

    /// Forgets a path that nobody uses, in favour of another.
    fn evict(&mut self) -> Option<u32> {
        // From where the last search ended, or strangers with ever new addresses would make each other wait for a whole one.
        let count = self.entries.len() as u32;
        let id = (0..count).map(|i| (self.hand + i) % count).find(|&id| {
            let path = &self.entries[id];
            path.alive && path.pins == 0 && path.refs == 0
        })?;
        self.hand = id + 1;
        self.forget(id);
        Some(id)
    }

    fn forget(&mut self, id: u32) {
        let spec = self.entries[id].spec;
        self.by_spec.remove(self.key(spec.dst_mac, spec.src, spec.dst));
        self.entries[id] = Path { generation: self.entries[id].generation, ..Path::default() };
        if self.last == id {
            self.last = NONE;
        }
    }

    /// Takes the application's hand off a path.
    pub(crate) fn unpin(&mut self, id: PathId) -> Result<(), VerbError> {
        let slot = self.slot(id).ok_or(VerbError::Unknown)?;
        let path = &mut self.entries[slot];
        path.pins = path.pins.checked_sub(1).ok_or(VerbError::Unknown)?;
        Ok(())
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Path> {
        self.entries.get(id).filter(|p| p.alive)
    }

    /// Users of all paths, in sum.
    pub(crate) fn refs(&self) -> usize {
        (0..self.entries.touched()).map(|id| self.entries[id].refs as usize).sum()
    }

    pub(crate) fn hold(&mut self, id: u32) {
        self.entries[id].refs += 1;
    }

    pub(crate) fn release(&mut self, id: u32) {
        if let Some(path) = self.entries.get_mut(id) {
            path.refs = path.refs.saturating_sub(1);
        }
    }

    /// The place of a path that is still the one meant.
    #[inline]
    pub(crate) fn slot(&self, id: PathId) -> Option<u32> {
        let Handle { slot, generation } = id.0;
        self.get(slot).filter(|p| p.generation == generation).map(|_| slot)
    }

    /// The name of the path in a place.
    pub(crate) fn id(&self, slot: u32) -> PathId {
        PathId(Handle { slot, generation: self.entries[slot].generation })
    }
}

impl std::ops::Index<u32> for Paths {
    type Output = Path;
    #[inline]
    fn index(&self, id: u32) -> &Path {
        &self.entries[id]
    }
}

impl std::ops::IndexMut<u32> for Paths {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Path {
        &mut self.entries[id]
    }
}
