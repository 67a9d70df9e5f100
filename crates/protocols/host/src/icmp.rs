//! ICMP of both families: echoes answered, errors counted, port unreachables sent and passed on.

use crate::host::{MTU_MIN_V6, write_icmp6};
use crate::ingress::{Link, must_verify};
use crate::template::{emit_link, link_len};
use crate::{Datagram, Host};
use barewire_base::{DropReason, Instant};
use barewire_frame::{ChecksumState, Frame};
use barewire_wire::{EtherType, MacAddr, Protocol, eth, icmpv4, icmpv6, ipv4, ipv6, udp, vlan};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most bytes of an ICMP error over IPv4 (RFC 1812 section 4.3.2.3).
const ERROR_MAX_V4: usize = 576;
const CHECKSUM_AT: usize = 2;

impl Host {
    pub(crate) fn handle_icmp4(
        &mut self,
        now: Instant,
        link: &Link,
        packet: &ipv4::Packet<&[u8]>,
        l4: usize,
        state: ChecksumState,
    ) -> Result<Option<Datagram>, DropReason> {
        let message = icmpv4::Packet::new_checked(packet.payload())?;
        let message = if is_unfinished(state, l4)? {
            icmpv4::Repr::parse_unverified(&message)?
        } else {
            icmpv4::Repr::parse(&message)?
        };
        match message {
            icmpv4::Repr::EchoRequest { ident, seq, data } => {
                let to = self.sender(link.src)?;
                let reply = icmpv4::Repr::EchoReply { ident, seq, data };
                self.admit_echo(now, ipv4::HEADER_LEN + reply.buffer_len())?;
                self.send_icmp4(to, packet.dst(), packet.src(), &reply)?;
                self.counters.echoes_answered.add(1);
            }
            icmpv4::Repr::Unreachable { code, original, .. } => {
                self.counters.icmp_errors.add(1);
                if code == icmpv4::unreachable::PORT {
                    return Ok(self.quoted4(original, l4 + icmpv4::HEADER_LEN));
                }
            }
            icmpv4::Repr::EchoReply { .. } => {}
        }
        Ok(None)
    }

    /// The datagram of ours that an ICMP error quotes, which stands at `at` of its frame.
    fn quoted4(&self, original: &[u8], at: usize) -> Option<Datagram> {
        // By hand: an IPv4 view wants the whole packet, and this one is cut short.
        let header_len = usize::from(original.first()? & 0x0f) * 4;
        let plain = original[0] >> 4 == 4 && header_len >= ipv4::HEADER_LEN;
        let head: &[u8; ipv4::HEADER_LEN] = original.first_chunk()?;
        let unfragmented = u16::from_be_bytes([head[6], head[7]]) & 0x3fff == 0;
        if !plain || !unfragmented || head[9] != Protocol::UDP.0 {
            return None;
        }
        let address = |i: usize| Ipv4Addr::new(head[i], head[i + 1], head[i + 2], head[i + 3]);
        self.quoted(original, header_len, at, address(12).into(), address(16).into(), (head[1] & 3, head[8]))
    }

    fn quoted6(&self, original: &[u8], at: usize) -> Option<Datagram> {
        let head: &[u8; ipv6::HEADER_LEN] = original.first_chunk()?;
        if head[0] >> 4 != 6 || head[6] != Protocol::UDP.0 {
            return None;
        }
        let address = |i: usize| head[i..].first_chunk::<16>().map(|&octets| Ipv6Addr::from(octets));
        let (src, dst) = (address(8)?, address(24)?);
        self.quoted(original, ipv6::HEADER_LEN, at, src.into(), dst.into(), (head[1] >> 4 & 3, head[7]))
    }

    fn quoted(
        &self,
        original: &[u8],
        l4: usize,
        at: usize,
        src: IpAddr,
        dst: IpAddr,
        (ecn, ttl): (u8, u8),
    ) -> Option<Datagram> {
        let header = original.get(l4..)?.first_chunk::<{ udp::HEADER_LEN }>()?;
        let half = |i: usize| u16::from_be_bytes([header[i], header[i + 1]]);
        let start = l4 + udp::HEADER_LEN;
        let said = usize::from(half(4)).checked_sub(udp::HEADER_LEN)?;
        if !self.addresses.is_local(src) || self.addresses.is_local(dst) {
            return None;
        }
        Some(Datagram {
            src: SocketAddr::new(src, half(0)),
            dst: SocketAddr::new(dst, half(2)),
            payload_start: u16::try_from(at + start).ok()?,
            payload_len: said.min(original.len() - start) as u16,
            ecn,
            ttl,
        })
    }

    pub(crate) fn handle_icmp6(
        &mut self,
        now: Instant,
        link: &Link,
        packet: &ipv6::Packet<&[u8]>,
        upper: &ipv6::Upper,
        state: ChecksumState,
    ) -> Result<Option<Datagram>, DropReason> {
        let (src, dst) = (packet.src(), packet.dst());
        let message = icmpv6::Packet::new_checked(packet.upper_payload(upper))?;
        let message = if is_unfinished(state, link.l3 + upper.at)? {
            icmpv6::Repr::parse_unverified(&message)?
        } else {
            icmpv6::Repr::parse(&message, src, dst)?
        };
        if let icmpv6::Repr::Ndisc(message) = message {
            return self.handle_ndisc(now, link, packet, message).map(|()| None);
        }
        if src.is_unspecified() {
            return Err(DropReason::Malformed);
        }
        if !self.addresses.is_local6(dst.to_bits()) {
            return Err(DropReason::NotOurAddress);
        }
        if !link.to_us {
            return Err(DropReason::NotOurMac);
        }
        match message {
            icmpv6::Repr::EchoRequest { ident, seq, data } => {
                let to = self.sender(link.src)?;
                let reply = icmpv6::Repr::EchoReply { ident, seq, data };
                self.admit_echo(now, ipv6::HEADER_LEN + reply.buffer_len())?;
                let slot = self.bulk.push(self.icmp6_len(&reply)).ok_or(DropReason::RingFull)?;
                let l3 = emit_link(slot, &self.config, to, EtherType::IPV6);
                write_icmp6(&mut slot[l3..], dst, src, ipv6::HOP_LIMIT_DEFAULT, &reply);
                self.counters.echoes_answered.add(1);
            }
            icmpv6::Repr::Unreachable { code, original } => {
                self.counters.icmp_errors.add(1);
                if code == icmpv6::unreachable::PORT {
                    return Ok(self.quoted6(original, link.l3 + upper.at + icmpv6::HEADER_LEN));
                }
            }
            icmpv6::Repr::TooBig { .. } => self.counters.icmp_errors.add(1),
            icmpv6::Repr::EchoReply { .. } | icmpv6::Repr::Ndisc(_) => {}
        }
        Ok(None)
    }

    /// Whether an echo reply whose IP packet has `len` bytes may be sent.
    fn admit_echo(&mut self, now: Instant, len: usize) -> Result<(), DropReason> {
        if len > usize::from(self.config.mtu) {
            return Err(DropReason::TooLarge);
        }
        if self.echo_limit.take(now) { Ok(()) } else { Err(DropReason::RateLimited) }
    }

    /// Queues an ICMP message in an IPv4 packet.
    fn send_icmp4(
        &mut self,
        to: MacAddr,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        message: &icmpv4::Repr<'_>,
    ) -> Result<(), DropReason> {
        let len = link_len(&self.config) + ipv4::HEADER_LEN + message.buffer_len();
        let slot = self.bulk.push(len).ok_or(DropReason::RingFull)?;
        let l3 = emit_link(slot, &self.config, to, EtherType::IPV4);
        ipv4::Repr {
            src,
            dst,
            protocol: Protocol::ICMP,
            payload_len: message.buffer_len() as u16,
            ttl: ipv4::TTL_DEFAULT,
            dscp: 0,
            ecn: 0,
            ident: 0,
            dont_fragment: true,
        }
        .emit(&mut ipv4::Packet::new_unchecked(&mut slot[l3..]));
        message.emit(&mut icmpv4::Packet::new_unchecked(&mut slot[l3 + ipv4::HEADER_LEN..]));
        Ok(())
    }

    /// Tells the sender of `datagram`, which came in `frame`, that nobody listens there (RFC 1122 section 4.1.3.1, RFC
    /// 4443 section 3.1). At most 100 a second; more are counted as `RateLimited`. Goes to the MAC that the frame came
    /// from.
    pub fn port_unreachable(&mut self, frame: &Frame, datagram: &Datagram) {
        if let Err(reason) = self.send_port_unreachable(frame.data(), datagram) {
            self.counters.drops.count(reason);
        }
    }

    fn send_port_unreachable(&mut self, frame: &[u8], datagram: &Datagram) -> Result<(), DropReason> {
        let to = self.sender(eth::Packet::new_checked(frame)?.src())?;
        let l3 = vlan::untag(frame)?.payload_at;
        if !self.error_limit.take(self.now) {
            return Err(DropReason::RateLimited);
        }
        match (datagram.dst.ip(), datagram.src.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let packet = ipv4::Packet::new_checked(&frame[l3..])?;
                let room =
                    ERROR_MAX_V4.min(usize::from(self.config.mtu)).saturating_sub(ipv4::HEADER_LEN + 8);
                let original = &frame[l3..l3 + packet.total_len().min(room)];
                let message = icmpv4::Repr::Unreachable { code: icmpv4::unreachable::PORT, mtu: 0, original };
                self.send_icmp4(to, src, dst, &message)?;
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let packet = ipv6::Packet::new_checked(&frame[l3..])?;
                let room = MTU_MIN_V6 - ipv6::HEADER_LEN - icmpv6::HEADER_LEN;
                let original = &frame[l3..l3 + packet.total_len().min(room)];
                let message = icmpv6::Repr::Unreachable { code: icmpv6::unreachable::PORT, original };
                let slot = self.bulk.push(self.icmp6_len(&message)).ok_or(DropReason::RingFull)?;
                let l3 = emit_link(slot, &self.config, to, EtherType::IPV6);
                write_icmp6(&mut slot[l3..], src, dst, ipv6::HOP_LIMIT_DEFAULT, &message);
            }
            _ => return Err(DropReason::Malformed),
        }
        self.counters.unreachables_sent.add(1);
        Ok(())
    }
}

/// Whether the sender left the checksum to an offload. Hardware that verifies knows UDP and TCP, so its word counts for
/// nothing here.
fn is_unfinished(state: ChecksumState, l4: usize) -> Result<bool, DropReason> {
    match state {
        ChecksumState::Partial { .. } => must_verify(state, l4, CHECKSUM_AT).map(|verify| !verify),
        _ => Ok(false),
    }
}
