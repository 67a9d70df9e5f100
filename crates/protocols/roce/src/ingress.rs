//! The way in: a frame is checked from the outside to the inside, then handed to whom it is for.

use crate::core::Core;
use crate::endpoint::{Endpoint, Verdict};
use crate::slab::NONE;
use crate::verbs::{GRH_LEN, QpKind, QpState};
use barewire_base::{DropReason, Instant};
use barewire_wire::roce::{self, ICRC_LEN, Operation, PKEY_DEFAULT, Segment, bth, icrc};
use barewire_wire::{EtherType, MacAddr, Protocol, eth, ipv4, ipv6, udp, vlan};
use std::net::IpAddr;

/// Congestion Experienced.
const CE: u8 = 3;

/// A packet, checked up to its ICRC.
pub(crate) struct Arrived<'a> {
    pub src_mac: MacAddr,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ecn: u8,
    pub segment: Segment<'a>,
    /// The IP header, for datagrams.
    ip_header: &'a [u8],
}

/// Takes a frame apart.
#[inline]
fn unwrap<'a>(core: &Core, frame: &'a [u8]) -> Result<Arrived<'a>, DropReason> {
    let link = eth::Packet::new_checked(frame)?;
    if link.dst() != core.config.mac {
        return Err(DropReason::NotOurMac);
    }
    let (mut ethertype, mut packet) = (link.ethertype(), link.payload());
    if ethertype == EtherType::VLAN || core.config.vlan.is_some() {
        if ethertype != EtherType::VLAN {
            return Err(DropReason::UnknownEtherType);
        }
        let tag = vlan::Packet::new_checked(packet)?;
        // A tag with VLAN 0 says only how urgent the frame is.
        if tag.tag().vid != core.config.vlan.unwrap_or(0) {
            return Err(DropReason::UnknownEtherType);
        }
        (ethertype, packet) = (tag.ethertype(), tag.payload());
    }
    let (v4, ip_len, total, src, dst, ecn) = if ethertype == EtherType::IPV4 {
        let ip = ipv4::Packet::new_checked(packet)?;
        if !ip.verify_checksum() {
            return Err(DropReason::BadChecksum);
        }
        if ip.is_fragment() {
            return Err(DropReason::Fragment);
        }
        if ip.protocol() != Protocol::UDP {
            return Err(DropReason::UnknownProtocol);
        }
        (true, ip.header_len(), ip.total_len(), IpAddr::V4(ip.src()), IpAddr::V4(ip.dst()), ip.ecn())
    } else if ethertype == EtherType::IPV6 {
        let ip = ipv6::Packet::new_checked(packet)?;
        if ip.next_header() != Protocol::UDP {
            return Err(DropReason::UnknownProtocol);
        }
        (false, ipv6::HEADER_LEN, ip.total_len(), IpAddr::V6(ip.src()), IpAddr::V6(ip.dst()), ip.ecn())
    } else {
        return Err(DropReason::UnknownEtherType);
    };
    if !core.config.addresses.contains(&dst) {
        return Err(DropReason::NotOurAddress);
    }
    // Link padding ends here.
    let packet = packet.get(..total).ok_or(DropReason::Truncated)?;
    let (ip_header, datagram) = packet.split_at_checked(ip_len).ok_or(DropReason::Truncated)?;
    let header = udp::Packet::new_checked(datagram)?;
    if header.dst_port() != roce::UDP_PORT {
        return Err(DropReason::NoListener);
    }
    if header.len() != datagram.len() {
        return Err(DropReason::Malformed);
    }
    let payload = &datagram[udp::HEADER_LEN..];
    if payload.len() < bth::HEADER_LEN + ICRC_LEN {
        return Err(DropReason::Truncated);
    }
    // The UDP checksum is not looked at: it is optional, and the ICRC covers all of it and more.
    if !icrc::check_known(packet, ip_len, v4) {
        return Err(DropReason::BadIcrc);
    }
    let segment = Segment::parse(payload)?;
    Ok(Arrived { src_mac: link.src(), src, dst, ecn, segment, ip_header })
}

impl Endpoint {
    /// Takes one frame, whole, from the Ethernet header on.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Verdict {
        self.core.counters.rx_frames.add(1);
        let result = match unwrap(&self.core, frame) {
            Ok(arrived) => self.dispatch(now, &arrived),
            Err(reason) => Err(reason),
        };
        match result {
            Ok(()) => Verdict::Consumed,
            Err(reason) => {
                self.core.counters.drops.count(reason);
                Verdict::Drop(reason)
            }
        }
    }

    #[inline]
    fn dispatch(&mut self, now: Instant, arrived: &Arrived<'_>) -> Result<(), DropReason> {
        let segment = &arrived.segment;
        // Full and limited members may talk, the partition must be the default one.
        if (segment.bth.pkey ^ PKEY_DEFAULT) & 0x7fff != 0 {
            return Err(DropReason::BadKey);
        }
        if segment.shape.datagram && segment.bth.dst_qpn == roce::QPN_GSI {
            return self.management(now, arrived);
        }
        let slot = self.core.numbers.get(segment.bth.dst_qpn).ok_or(DropReason::UnknownQp)?;
        let (qp, core) = (&mut self.qps[slot], &mut self.core);
        if segment.shape.operation == Operation::Congestion {
            if qp.path == NONE || !core.paths[qp.path].is_from(arrived.src, arrived.dst) {
                return Err(DropReason::WrongPeer);
            }
            if qp.state == QpState::Err {
                return Err(DropReason::BadState);
            }
            core.counters.cnp_received.add(1);
            qp.congested(core, now);
            return Ok(());
        }
        if segment.shape.datagram != (qp.kind == QpKind::Ud) {
            return Err(DropReason::BadState);
        }
        if segment.shape.datagram {
            let mut grh = [0; GRH_LEN];
            // An IPv4 header stands at the end (annex A17.4.5.1), without its options.
            let header = arrived.ip_header;
            let len = if arrived.src.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
            grh[GRH_LEN - len..].copy_from_slice(&header[..len]);
            return qp.receive_datagram(core, segment, &grh);
        }
        if qp.path == NONE {
            return Err(DropReason::BadState);
        }
        if !core.paths[qp.path].is_from(arrived.src, arrived.dst) {
            return Err(DropReason::WrongPeer);
        }
        if arrived.ecn == CE && qp.state != QpState::Err {
            core.counters.ecn_marked.add(1);
            if now.since(qp.cnp_last) >= core.config.cnp_interval || qp.cnp_last == Instant::ZERO {
                qp.cnp_due = true;
                qp.wake(core, slot);
            }
        }
        let result = match segment.shape.operation {
            Operation::Ack | Operation::ReadResponse | Operation::AtomicAck => {
                qp.response(core, slot, now, segment)
            }
            _ => qp.execute(core, slot, segment),
        };
        // A message for which nobody waits yet was nevertheless the next one.
        if qp.awaits_peer && matches!(result, Ok(()) | Err(DropReason::NoReceive)) {
            let conn = qp.conn;
            self.establish(conn);
        }
        result
    }
}
