//! The way in: a fast path of fixed offsets for UDP without surprises, and a general path that says why the rest is what
//! it is. The fast path accepts nothing that the general path would refuse.

use crate::{Datagram, Host, Input};
use barewire_base::{DropReason, Instant};
use barewire_frame::{ChecksumState, Frame};
use barewire_wire::{EtherType, MacAddr, Protocol, checksum, eth, ipv4, ipv6, udp, vlan};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const ETH: usize = eth::HEADER_LEN;
const TAGGED: usize = ETH + vlan::TAG_LEN;
const UDP_CHECKSUM_AT: usize = 6;

/// What the link layer says of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub src: MacAddr,
    pub dst: MacAddr,
    /// Addressed to our MAC, not to a group.
    pub to_us: bool,
    /// Where the packet starts.
    pub l3: usize,
}

/// `N` big-endian bytes at a constant place of a header whose length the compiler knows.
macro_rules! be {
    ($ty:ty, $header:expr, $at:expr) => {{
        const N: usize = size_of::<$ty>();
        let mut bytes = [0u8; N];
        bytes.copy_from_slice(&$header[$at..$at + N]);
        <$ty>::from_be_bytes(bytes)
    }};
}

impl Host {
    /// Handles one received frame. A drop is counted here; the caller needs not.
    #[inline]
    pub fn handle_frame(&mut self, now: Instant, frame: &Frame) -> Input {
        self.counters.rx_frames.add(1);
        self.now = now;
        let (data, state) = (frame.data(), frame.checksum());
        let fast = match self.config.vlan {
            None => self.fast::<ETH, false>(data, state),
            Some(vid) if is_tagged(data, vid) => self.fast::<TAGGED, false>(data, state),
            Some(_) => None,
        };
        if let Some(datagram) = fast {
            self.counters.rx_datagrams.add(1);
            return Input::Udp(datagram);
        }
        self.slow(now, data, state)
    }

    /// Handles a frame that this host itself sent to an address of its own and that never left it: a UDP datagram whose
    /// source is ours, which [`handle_frame`](Self::handle_frame) takes for a stranger's lie. Its checksums are believed.
    #[inline]
    pub fn handle_local(&mut self, now: Instant, frame: &Frame) -> Input {
        self.counters.rx_frames.add(1);
        self.now = now;
        let (data, state) = (frame.data(), ChecksumState::Verified);
        let datagram = match self.config.vlan {
            None => self.fast::<ETH, true>(data, state),
            Some(_) => self.fast::<TAGGED, true>(data, state),
        };
        match datagram {
            Some(datagram) => {
                self.counters.rx_datagrams.add(1);
                Input::Udp(datagram)
            }
            None => {
                self.counters.drops.count(DropReason::Malformed);
                Input::Drop(DropReason::Malformed)
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn slow(&mut self, now: Instant, data: &[u8], state: ChecksumState) -> Input {
        match self.general(now, data, state) {
            Ok(input) => {
                self.counters.rx_datagrams.add(u64::from(matches!(input, Input::Udp(_))));
                input
            }
            Err(reason) => {
                self.counters.drops.count(reason);
                Input::Drop(reason)
            }
        }
    }

    /// UDP in IPv4 or IPv6 without options, intact, to an address of ours; anything else is `None`. `LOCAL`: from an
    /// address of ours too, which a stranger may not use.
    #[inline(always)]
    fn fast<const L3: usize, const LOCAL: bool>(
        &self,
        data: &[u8],
        state: ChecksumState,
    ) -> Option<Datagram> {
        let head: &[u8; L3] = data.first_chunk()?;
        if head[..6] != self.config.mac.0 {
            return None;
        }
        let packet = &data[L3..];
        match be!(u16, head, L3 - 2) {
            0x0800 => self.fast_v4::<LOCAL>(packet, L3, state),
            0x86dd => self.fast_v6::<LOCAL>(packet, L3, state),
            _ => None,
        }
    }

    #[inline(always)]
    fn fast_v4<const LOCAL: bool>(&self, packet: &[u8], l3: usize, state: ChecksumState) -> Option<Datagram> {
        const L4: usize = ipv4::HEADER_LEN;
        let h: &[u8; L4 + udp::HEADER_LEN] = packet.first_chunk()?;
        let (total_len, udp_len) = (usize::from(be!(u16, h, 2)), usize::from(be!(u16, h, L4 + 4)));
        let plain = h[0] == 0x45 && h[9] == Protocol::UDP.0 && be!(u16, h, 6) & 0x3fff == 0;
        if !plain || total_len > packet.len() || udp_len < udp::HEADER_LEN || L4 + udp_len > total_len {
            return None;
        }
        let (src, dst) = (be!(u32, h, 12), be!(u32, h, 16));
        let (src_port, dst_port) = (be!(u16, h, L4), be!(u16, h, L4 + 2));
        let from = if LOCAL { self.addresses.is_local4(src) } else { self.addresses.is_source4(src) };
        if !self.addresses.is_local4(dst) || !from || dst_port == 0 {
            return None;
        }
        if state != ChecksumState::Verified {
            if !checksum::is_intact(checksum::sum(&h[..L4])) {
                return None;
            }
            let verify = must_verify(state, l3 + L4, UDP_CHECKSUM_AT).ok()?;
            if verify && be!(u16, h, L4 + UDP_CHECKSUM_AT) != 0 {
                let pseudo = checksum::pseudo_v4(src.into(), dst.into(), Protocol::UDP.0, udp_len as u16);
                if !checksum::is_intact(pseudo + checksum::sum(&packet[L4..L4 + udp_len])) {
                    return None;
                }
            }
        }
        Some(Datagram {
            src: SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(src)), src_port),
            dst: SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(dst)), dst_port),
            payload_start: (l3 + L4 + udp::HEADER_LEN) as u16,
            payload_len: (udp_len - udp::HEADER_LEN) as u16,
            ecn: h[1] & 3,
            ttl: h[8],
        })
    }

    #[inline(always)]
    fn fast_v6<const LOCAL: bool>(&self, packet: &[u8], l3: usize, state: ChecksumState) -> Option<Datagram> {
        const L4: usize = ipv6::HEADER_LEN;
        let h: &[u8; L4 + udp::HEADER_LEN] = packet.first_chunk()?;
        let (payload_len, udp_len) = (usize::from(be!(u16, h, 4)), usize::from(be!(u16, h, L4 + 4)));
        let plain = h[0] >> 4 == 6 && h[6] == Protocol::UDP.0;
        if !plain || L4 + payload_len > packet.len() || udp_len < udp::HEADER_LEN || udp_len > payload_len {
            return None;
        }
        let (src, dst) = (be!(u128, h, 8), be!(u128, h, 24));
        let (src_port, dst_port) = (be!(u16, h, L4), be!(u16, h, L4 + 2));
        let from = if LOCAL { self.addresses.is_local6(src) } else { self.addresses.is_source6(src) };
        if !self.addresses.is_local6(dst) || !from || dst_port == 0 {
            return None;
        }
        let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
        let check = be!(u16, h, L4 + UDP_CHECKSUM_AT);
        if must_verify(state, l3 + L4, UDP_CHECKSUM_AT).ok()? {
            let pseudo = checksum::pseudo_v6(src, dst, Protocol::UDP.0, udp_len as u32);
            if check == 0 || !checksum::is_intact(pseudo + checksum::sum(&packet[L4..L4 + udp_len])) {
                return None;
            }
        } else if check == 0 && state == ChecksumState::Verified {
            return None;
        }
        Some(Datagram {
            src: SocketAddr::new(IpAddr::V6(src), src_port),
            dst: SocketAddr::new(IpAddr::V6(dst), dst_port),
            payload_start: (l3 + L4 + udp::HEADER_LEN) as u16,
            payload_len: (udp_len - udp::HEADER_LEN) as u16,
            ecn: h[1] >> 4 & 3,
            ttl: h[7],
        })
    }

    /// The whole truth about any frame: what it is, or why it is dropped.
    fn general(&mut self, now: Instant, data: &[u8], state: ChecksumState) -> Result<Input, DropReason> {
        let frame = eth::Packet::new_checked(data)?;
        let (src, dst) = (frame.src(), frame.dst());
        let to_us = dst == self.config.mac || Some(dst) == self.former_mac;
        if !to_us && !dst.is_multicast() {
            return Err(DropReason::NotOurMac);
        }
        let untagged = vlan::untag(data)?;
        let ours = match (self.config.vlan, untagged.tags) {
            (None, [None, _]) => true,
            (wanted, [Some(tag), None]) => {
                // No VLAN and the priority-only VLAN 0 are one (IEEE 802.1Q section 6.8).
                frame.ethertype() == EtherType::VLAN && tag.vid == wanted.unwrap_or(0)
            }
            _ => false,
        };
        if !ours {
            return Err(DropReason::UnknownEtherType);
        }
        let link = Link { src, dst, to_us, l3: untagged.payload_at };
        let packet = &data[link.l3..];
        match untagged.ethertype {
            EtherType::ARP => self.handle_arp(now, &link, packet).map(|()| Input::Consumed),
            EtherType::IPV4 => self.general_v4(now, &link, packet, state),
            EtherType::IPV6 => self.general_v6(now, &link, packet, state),
            _ => Err(DropReason::UnknownEtherType),
        }
    }

    fn general_v4(
        &mut self,
        now: Instant,
        link: &Link,
        packet: &[u8],
        state: ChecksumState,
    ) -> Result<Input, DropReason> {
        let packet = ipv4::Packet::new_checked(packet)?;
        if state != ChecksumState::Verified && !packet.verify_checksum() {
            return Err(DropReason::BadChecksum);
        }
        let (src, dst) = (packet.src(), packet.dst());
        if !self.addresses.is_source4(src.to_bits()) {
            return Err(DropReason::Malformed);
        }
        if !self.addresses.is_local4(dst.to_bits()) {
            return Err(DropReason::NotOurAddress);
        }
        if !link.to_us {
            return Err(DropReason::NotOurMac);
        }
        if packet.is_fragment() {
            return Err(DropReason::Fragment);
        }
        let l4 = link.l3 + packet.header_len();
        match packet.protocol() {
            Protocol::UDP => {
                let meta = (packet.ecn(), packet.ttl());
                udp_datagram(packet.payload(), l4, src.into(), dst.into(), meta, state).map(Input::Udp)
            }
            Protocol::ICMP => self.handle_icmp4(now, link, &packet, l4, state).map(or_consumed),
            _ => Err(DropReason::UnknownProtocol),
        }
    }

    fn general_v6(
        &mut self,
        now: Instant,
        link: &Link,
        packet: &[u8],
        state: ChecksumState,
    ) -> Result<Input, DropReason> {
        let packet = ipv6::Packet::new_checked(packet)?;
        let (src, dst) = (packet.src(), packet.dst());
        // Only duplicate address detection comes from nowhere; `handle_icmp6` lets nothing else through.
        if !self.addresses.is_source6(src.to_bits()) && !src.is_unspecified() {
            return Err(DropReason::Malformed);
        }
        let local = self.addresses.is_local6(dst.to_bits());
        let ours = local || dst == ALL_NODES || self.addresses.is_solicited_node(dst);
        if !ours {
            return Err(DropReason::NotOurAddress);
        }
        let upper = packet.upper()?;
        if upper.fragment {
            // Neighbour discovery in fragments must be dropped too (RFC 6980).
            return Err(DropReason::Fragment);
        }
        let l4 = link.l3 + upper.at;
        if upper.protocol == Protocol::ICMPV6 {
            return self.handle_icmp6(now, link, &packet, &upper, state).map(or_consumed);
        }
        if src.is_unspecified() {
            return Err(DropReason::Malformed);
        }
        if !local {
            return Err(DropReason::NotOurAddress);
        }
        if !link.to_us {
            return Err(DropReason::NotOurMac);
        }
        match upper.protocol {
            Protocol::UDP => {
                let meta = (packet.ecn(), packet.hop_limit());
                udp_datagram(packet.upper_payload(&upper), l4, src.into(), dst.into(), meta, state)
                    .map(Input::Udp)
            }
            _ => Err(DropReason::UnknownProtocol),
        }
    }

    /// The MAC that a frame of control came from, which answers go to: a station other than ourselves.
    pub(crate) fn sender(&self, mac: MacAddr) -> Result<MacAddr, DropReason> {
        if mac.is_unicast() && mac != self.config.mac { Ok(mac) } else { Err(DropReason::Malformed) }
    }
}

/// An ICMP error may quote a datagram of ours; all else is the host's own business.
fn or_consumed(quoted: Option<Datagram>) -> Input {
    quoted.map_or(Input::Consumed, Input::PortUnreachable)
}

/// `ff02::1`.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

#[inline(always)]
fn is_tagged(data: &[u8], vid: u16) -> bool {
    data.first_chunk::<TAGGED>()
        .is_some_and(|head| be!(u16, head, 12) == EtherType::VLAN.0 && be!(u16, head, 14) & 0x0fff == vid)
}

/// Whether a transport checksum is the receiver's to verify. A checksum that the sender left to an offload is unfinished,
/// not wrong: the frame never crossed a wire. `UnfinishedChecksum` when it is said to be somewhere that it is not.
#[inline(always)]
pub(crate) fn must_verify(state: ChecksumState, l4: usize, field: usize) -> Result<bool, DropReason> {
    match state {
        ChecksumState::Unknown => Ok(true),
        ChecksumState::Verified => Ok(false),
        ChecksumState::Partial { start, offset } => {
            if usize::from(start) == l4 && usize::from(offset) == field {
                Ok(false)
            } else {
                Err(DropReason::UnfinishedChecksum)
            }
        }
    }
}

/// A UDP datagram behind an IP header of any length. `segment` is what the IP packet carries, and starts at `l4`.
fn udp_datagram(
    segment: &[u8],
    l4: usize,
    src: IpAddr,
    dst: IpAddr,
    (ecn, ttl): (u8, u8),
    state: ChecksumState,
) -> Result<Datagram, DropReason> {
    let header = udp::Packet::new_checked(segment)?;
    if must_verify(state, l4, UDP_CHECKSUM_AT)? {
        let intact = match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => header.verify_v4(s, d),
            (IpAddr::V6(s), IpAddr::V6(d)) => header.verify_v6(s, d),
            _ => false,
        };
        if !intact {
            return Err(DropReason::BadChecksum);
        }
    } else if state == ChecksumState::Verified && src.is_ipv6() && header.checksum() == 0 {
        return Err(DropReason::BadChecksum);
    }
    if header.dst_port() == 0 {
        return Err(DropReason::Malformed);
    }
    let payload_start = u16::try_from(l4 + udp::HEADER_LEN).map_err(|_| DropReason::TooLarge)?;
    Ok(Datagram {
        src: SocketAddr::new(src, header.src_port()),
        dst: SocketAddr::new(dst, header.dst_port()),
        payload_start,
        payload_len: (header.len() - udp::HEADER_LEN) as u16,
        ecn,
        ttl,
    })
}

#[cfg(test)]
#[path = "ingress_tests.rs"]
mod tests;
