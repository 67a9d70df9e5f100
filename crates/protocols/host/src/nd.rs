//! Neighbour discovery (RFC 4861): answers for our addresses, and what may be learned. No address is configured by it.

use crate::Host;
use crate::host::write_icmp6;
use crate::ingress::{ALL_NODES, Link};
use crate::template::emit_link;
use barewire_base::{DropReason, Instant};
use barewire_wire::{EtherType, MacAddr, ipv6, ndisc, solicited_node};
use core::net::{IpAddr, Ipv6Addr};

impl Host {
    /// Handles a message whose checksum holds.
    pub(crate) fn handle_ndisc(
        &mut self,
        now: Instant,
        link: &Link,
        packet: &ipv6::Packet<&[u8]>,
        message: ndisc::Repr,
    ) -> Result<(), DropReason> {
        if packet.hop_limit() != ndisc::HOP_LIMIT {
            return Err(DropReason::BadNeighbour);
        }
        let (src, dst) = (packet.src(), packet.dst());
        match message {
            ndisc::Repr::NeighbourSolicit { target, source_mac } => {
                self.solicited(now, link, src, dst, target, source_mac)
            }
            _ if src.is_unspecified() => Err(DropReason::BadNeighbour),
            ndisc::Repr::NeighbourAdvert { solicited, override_known, target, target_mac, .. } => {
                // A solicited advertisement to a group is a contradiction (section 7.1.2).
                if self.addresses.is_local6(target.to_bits()) {
                    self.counters.address_conflicts.add(1);
                    return Err(DropReason::BadNeighbour);
                }
                let ip = IpAddr::V6(target);
                let mac = target_mac.or(self.neighbours.known_mac(ip)).ok_or(DropReason::BadNeighbour)?;
                let mac = self.sender(mac).map_err(|_| DropReason::BadNeighbour)?;
                let to_us = link.to_us && self.addresses.is_local6(dst.to_bits());
                if solicited && !to_us || !self.addresses.is_on_link(ip) {
                    return Err(DropReason::BadNeighbour);
                }
                if solicited && self.neighbours.answered(now, ip, mac, override_known, &self.counters) {
                    return Ok(());
                }
                if !solicited && override_known {
                    self.neighbours.claimed(now, ip, mac, &self.counters);
                }
                Err(DropReason::BadNeighbour)
            }
            ndisc::Repr::RouterAdvert { .. } => {
                self.counters.router_adverts_ignored.add(1);
                Ok(())
            }
            ndisc::Repr::RouterSolicit { .. } => Ok(()),
        }
    }

    fn solicited(
        &mut self,
        now: Instant,
        link: &Link,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        target: Ipv6Addr,
        source_mac: Option<MacAddr>,
    ) -> Result<(), DropReason> {
        if !self.addresses.is_local6(target.to_bits()) {
            return Err(DropReason::NotOurAddress);
        }
        if src.is_unspecified() {
            // Somebody is about to take our address (section 7.1.1; RFC 4862 section 5.4.3): say to all that it is ours.
            if dst != solicited_node(target) || source_mac.is_some() {
                return Err(DropReason::BadNeighbour);
            }
            self.sender(link.src)?;
            self.counters.address_conflicts.add(1);
            return self.advertise(MacAddr::from_multicast_v6(ALL_NODES), target, ALL_NODES, false);
        }
        let mac = self.sender(source_mac.unwrap_or(link.src))?;
        if self.addresses.is_on_link(IpAddr::V6(src)) {
            self.neighbours.asked_us(now, src.into(), mac, &self.counters);
        }
        self.advertise(mac, target, src, true)
    }

    /// Says to `dst` at `mac` that `target` is ours.
    fn advertise(
        &mut self,
        mac: MacAddr,
        target: Ipv6Addr,
        dst: Ipv6Addr,
        solicited: bool,
    ) -> Result<(), DropReason> {
        let message = self.advert(target, solicited);
        let len = self.icmp6_len(&message);
        let slot = self.control.push(len).ok_or(DropReason::RingFull)?;
        let l3 = emit_link(slot, &self.config, mac, EtherType::IPV6);
        write_icmp6(&mut slot[l3..], target, dst, ndisc::HOP_LIMIT, &message);
        self.counters.adverts_sent.add(1);
        Ok(())
    }
}
