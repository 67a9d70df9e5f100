//! The host: its calls, and the frames that it sends of its own accord.

use crate::config::{Addresses, Hop};
use crate::limit::Bucket;
use crate::neighbour::{Lookup, Neighbours, Question};
use crate::reply::Replies;
use crate::template::{emit_link, link_len};
use crate::{HostConfig, HostCounters, HostEvent, NeighbourView, Route, Template};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::Frame;
use barewire_wire::{EtherType, MacAddr, Protocol, arp, icmpv6, ipv4, ipv6, ndisc, solicited_node};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// ARP replies and neighbour advertisements that may wait.
const CONTROL_SLOTS: usize = 64;
/// Bytes of the longest of them: a tagged neighbour advertisement.
const CONTROL_LEN: usize = 96;
/// Echo replies and ICMP errors that may wait: what a burst can cause.
const BULK_SLOTS: usize = 32;
/// Echo requests answered per second, and at once.
const ECHO_RATE: u64 = 10_000;
const ECHO_BURST: u64 = 128;
/// ICMP errors sent per second, and at once (RFC 4443 section 2.4 (f)).
const ERROR_RATE: u64 = 100;
const ERROR_BURST: u64 = 10;
/// The TTL of packets to groups: they stay on the link.
const TTL_GROUP: u8 = 1;
/// The least MTU of a link that carries IPv6 (RFC 8200 section 5).
pub(crate) const MTU_MIN_V6: usize = 1280;

const SECOND_NS: u64 = 1_000_000_000;

/// One host on one port.
pub struct Host {
    pub(crate) config: HostConfig,
    pub(crate) addresses: Addresses,
    pub(crate) neighbours: Neighbours,
    pub(crate) counters: HostCounters,
    /// Small frames of address resolution, which go first.
    pub(crate) control: Replies,
    /// Echo replies and errors.
    pub(crate) bulk: Replies,
    pub(crate) echo_limit: Bucket,
    pub(crate) error_limit: Bucket,
    /// The latest time that a frame came with, for calls that bring none.
    pub(crate) now: Instant,
    /// The MAC that was ours before it changed: neighbours send there until they have learned the other.
    pub(crate) former_mac: Option<MacAddr>,
}

impl Host {
    /// A host of `config`. The only allocations it ever makes. Prefix lengths beyond the address and `neighbours_max`
    /// beyond its bounds are cut to them.
    pub fn new(config: HostConfig) -> Host {
        let bulk_len = link_len(&config) + usize::from(config.mtu).max(MTU_MIN_V6);
        Host {
            addresses: Addresses::new(&config),
            neighbours: Neighbours::new(config.neighbours_max, config.hash_key),
            counters: HostCounters::default(),
            control: Replies::new(CONTROL_SLOTS, CONTROL_LEN),
            bulk: Replies::new(BULK_SLOTS, bulk_len),
            echo_limit: Bucket::new(Duration::from_nanos(SECOND_NS / ECHO_RATE), ECHO_BURST),
            error_limit: Bucket::new(Duration::from_nanos(SECOND_NS / ERROR_RATE), ERROR_BURST),
            now: Instant::ZERO,
            former_mac: None,
            config,
        }
    }

    /// Our MAC is another from now on. Templates are stale, neighbours that we speak with are asked again, by which they learn it,
    /// and what still comes to the former one is taken.
    pub fn set_mac(&mut self, now: Instant, mac: MacAddr) {
        if mac != self.config.mac {
            self.former_mac = Some(std::mem::replace(&mut self.config.mac, mac));
            self.neighbours.own_mac_changed(now, &self.counters);
        }
    }

    /// What it was made of.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// The headers towards `dst` from `src`, which must be an address of ours of the same family. Starts resolution when
    /// the next hop is unknown. Groups and broadcast addresses need none; their packets have a TTL of 1. A destination
    /// of our own gets headers to our own MAC: whoever sends such a frame keeps it from the port and hands it to
    /// [`handle_local`](Self::handle_local).
    pub fn route(&mut self, now: Instant, src: SocketAddr, dst: SocketAddr) -> Route {
        let ours = self.addresses.is_local(src.ip());
        let hop = self.addresses.next_hop(dst.ip()).filter(|_| ours);
        let (mac, ttl) = match hop {
            None if ours && self.addresses.is_local(dst.ip()) => (self.config.mac, ipv4::TTL_DEFAULT),
            Some(Hop::Group(mac)) => (mac, TTL_GROUP),
            Some(Hop::Neighbour(ip)) => match self.neighbours.lookup(now, ip, &self.counters) {
                Lookup::Mac(mac) => (mac, ipv4::TTL_DEFAULT),
                Lookup::Pending => return Route::Pending,
                Lookup::Unreachable => return Route::Unreachable,
            },
            None => {
                self.counters.unroutable.add(1);
                return Route::Unreachable;
            }
        };
        match Template::new(&self.config, mac, src, dst, ttl, self.neighbours.generation()) {
            Some(template) => Route::Ready(template),
            None => {
                self.counters.unroutable.add(1);
                Route::Unreachable
            }
        }
    }

    /// The address of ours to use towards `dst`; `None` when there is no way there.
    pub fn source_for(&self, dst: IpAddr) -> Option<IpAddr> {
        self.addresses.source_for(dst)
    }

    /// The neighbour that packets to `dst` go through, `dst` itself when it is on the link; `None` for groups and where
    /// there is no way.
    pub fn next_hop(&self, dst: IpAddr) -> Option<IpAddr> {
        match self.addresses.next_hop(dst)? {
            Hop::Neighbour(ip) => Some(ip),
            Hop::Group(_) => None,
        }
    }

    /// Whether `ip` is an address of ours.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        self.addresses.is_local(ip)
    }

    /// Bumped whenever a template made earlier may be stale: a neighbour's MAC changed, or it does not answer any more.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.neighbours.generation()
    }

    /// Tells the host that the peer `ip` was heard from in a way that proves that our packets reach it (RFC 4861 section
    /// 7.3.1): an acknowledgement, not just any packet. Keeps its next hop from being probed.
    #[inline]
    pub fn confirm(&mut self, now: Instant, ip: IpAddr) {
        if let Some(Hop::Neighbour(hop)) = self.addresses.next_hop(ip) {
            self.neighbours.confirm(now, hop);
        }
    }

    /// Does what is due at `now`: retries, ageing, giving up.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.neighbours.handle_timeout(now, &self.counters);
    }

    /// Writes the next frame of the host's own (ARP, neighbour discovery, ICMP) into `frame`, which arrives empty. False:
    /// nothing to send. A frame without room for it loses it, counted.
    pub fn poll_transmit(&mut self, _now: Instant, frame: &mut Frame) -> bool {
        while let Some(question) = self.neighbours.next_question() {
            if self.write_question(question, frame) {
                self.counters.solicitations_sent.add(1);
                self.counters.tx_frames.add(1);
                return true;
            }
            self.counters.drops.count(DropReason::TooLarge);
        }
        while let Some(bytes) = match self.control.pop() {
            Some(bytes) => Some(bytes),
            None => self.bulk.pop(),
        } {
            if frame.set_len(bytes.len()) {
                frame.data_mut().copy_from_slice(bytes);
                self.counters.tx_frames.add(1);
                return true;
            }
            self.counters.drops.count(DropReason::TooLarge);
        }
        false
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.neighbours.poll_timeout()
    }

    /// The next event. The queue is bounded; what finds it full is counted and lost.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.neighbours.poll_event()
    }

    /// What has passed.
    pub fn counters(&self) -> &HostCounters {
        &self.counters
    }

    /// The neighbour table.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourView> {
        self.neighbours.iter()
    }

    fn write_question(&self, question: Question, frame: &mut Frame) -> bool {
        let src = self.addresses.source_for(question.ip);
        match question.ip {
            IpAddr::V4(target_ip) => {
                let Some(IpAddr::V4(sender_ip)) = src.or(Some(Ipv4Addr::UNSPECIFIED.into())) else {
                    return false;
                };
                if !frame.set_len(link_len(&self.config) + arp::PACKET_LEN) {
                    return false;
                }
                let repr = arp::Repr {
                    operation: arp::Operation::Request,
                    sender_mac: self.config.mac,
                    sender_ip,
                    target_mac: MacAddr::ZERO,
                    target_ip,
                };
                self.emit_arp(frame.data_mut(), question.to.unwrap_or(MacAddr::BROADCAST), &repr);
            }
            IpAddr::V6(target) => {
                let Some(IpAddr::V6(src)) = src else { return false };
                let (mac, dst) = match question.to {
                    Some(mac) => (mac, target),
                    None => {
                        let group = solicited_node(target);
                        (MacAddr::from_multicast_v6(group), group)
                    }
                };
                let repr = icmpv6::Repr::Ndisc(ndisc::Repr::NeighbourSolicit {
                    target,
                    source_mac: Some(self.config.mac),
                });
                if !frame.set_len(self.icmp6_len(&repr)) {
                    return false;
                }
                self.emit_icmp6(frame.data_mut(), mac, src, dst, ndisc::HOP_LIMIT, &repr);
            }
        }
        true
    }

    /// Writes an ARP frame that fills `frame`.
    pub(crate) fn emit_arp(&self, frame: &mut [u8], to: MacAddr, repr: &arp::Repr) {
        let l3 = emit_link(frame, &self.config, to, EtherType::ARP);
        repr.emit(&mut arp::Packet::new_unchecked(&mut frame[l3..]));
    }

    /// Bytes of the frame that [`emit_icmp6`](Self::emit_icmp6) fills.
    pub(crate) fn icmp6_len(&self, repr: &icmpv6::Repr<'_>) -> usize {
        link_len(&self.config) + ipv6::HEADER_LEN + repr.buffer_len()
    }

    /// Writes an ICMPv6 frame that fills `frame`.
    pub(crate) fn emit_icmp6(
        &self,
        frame: &mut [u8],
        to: MacAddr,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        hop_limit: u8,
        repr: &icmpv6::Repr<'_>,
    ) {
        let l3 = emit_link(frame, &self.config, to, EtherType::IPV6);
        write_icmp6(&mut frame[l3..], src, dst, hop_limit, repr);
    }
}

/// Writes an IPv6 packet with an ICMPv6 message that fills `packet`.
pub(crate) fn write_icmp6(
    packet: &mut [u8],
    src: Ipv6Addr,
    dst: Ipv6Addr,
    hop_limit: u8,
    repr: &icmpv6::Repr<'_>,
) {
    ipv6::Repr {
        src,
        dst,
        next_header: Protocol::ICMPV6,
        payload_len: repr.buffer_len() as u16,
        hop_limit,
        dscp: 0,
        ecn: 0,
        flow_label: 0,
    }
    .emit(&mut ipv6::Packet::new_unchecked(&mut *packet));
    repr.emit(&mut icmpv6::Packet::new_unchecked(&mut packet[ipv6::HEADER_LEN..]), src, dst);
}
