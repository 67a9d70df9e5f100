//! ARP (RFC 826, RFC 5227): answers for our addresses, and what may be learned.

use crate::Host;
use crate::ingress::Link;
use crate::template::link_len;
use barewire_base::{DropReason, Instant};
use barewire_wire::arp::{Operation, PACKET_LEN, Packet, Repr};
use core::net::IpAddr;

impl Host {
    pub(crate) fn handle_arp(&mut self, now: Instant, link: &Link, packet: &[u8]) -> Result<(), DropReason> {
        if !link.to_us && !link.dst.is_broadcast() {
            return Err(DropReason::NotOurMac);
        }
        let message = Repr::parse(&Packet::new_checked(packet)?)?;
        let mac = self.sender(message.sender_mac)?;
        let ip = message.sender_ip;
        let for_us = self.addresses.is_local4(message.target_ip.to_bits());
        if self.addresses.is_local4(ip.to_bits()) {
            self.counters.address_conflicts.add(1);
            return Err(DropReason::BadNeighbour);
        }
        // A probe (RFC 5227) has no sender address yet: it is answered, for it asks for ours, and teaches nothing.
        let probe = ip.is_unspecified() && message.operation == Operation::Request;
        if !probe && !self.addresses.is_source4(ip.to_bits()) {
            return Err(DropReason::Malformed);
        }
        let on_link = !probe && self.addresses.is_on_link(IpAddr::V4(ip));
        match message.operation {
            Operation::Request if for_us => {
                if probe {
                    self.counters.address_conflicts.add(1);
                } else if on_link {
                    self.neighbours.asked_us(now, ip.into(), mac, &self.counters);
                }
                self.answer_arp(&Repr {
                    operation: Operation::Reply,
                    sender_mac: self.config.mac,
                    sender_ip: message.target_ip,
                    target_mac: mac,
                    target_ip: ip,
                })
            }
            Operation::Request => {
                // An announcement, or a question to somebody else.
                if on_link {
                    self.neighbours.claimed(now, ip.into(), mac, &self.counters);
                }
                Err(DropReason::NotOurAddress)
            }
            Operation::Reply if !on_link => Err(DropReason::BadNeighbour),
            Operation::Reply => {
                let to_us = link.to_us && for_us && message.target_mac == self.config.mac;
                if to_us && self.neighbours.answered(now, ip.into(), mac, true, &self.counters) {
                    return Ok(());
                }
                if !to_us {
                    self.neighbours.claimed(now, ip.into(), mac, &self.counters);
                }
                Err(DropReason::BadNeighbour)
            }
        }
    }

    fn answer_arp(&mut self, reply: &Repr) -> Result<(), DropReason> {
        let len = link_len(&self.config) + PACKET_LEN;
        let slot = self.control.push(len).ok_or(DropReason::RingFull)?;
        let l3 =
            crate::template::emit_link(slot, &self.config, reply.target_mac, barewire_wire::EtherType::ARP);
        reply.emit(&mut Packet::new_unchecked(&mut slot[l3..]));
        self.counters.adverts_sent.add(1);
        Ok(())
    }
}
