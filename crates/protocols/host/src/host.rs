//! The host: its calls, and the frames that it sends of its own accord.

use crate::config::{Addresses, Hop};
use crate::ingress::ALL_NODES;
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
/// Announcements of our addresses, and the time between two (RFC 5227 section 1.1: ANNOUNCE_NUM, ANNOUNCE_INTERVAL).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
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
    announcing: Announcing,
    /// The latest time that a frame came with, for calls that bring none.
    pub(crate) now: Instant,
    /// The MAC that was ours before it changed: neighbours send there until they have learned the other.
    pub(crate) former_mac: Option<MacAddr>,
}

/// How far the announcement of our addresses is.
struct Announcing {
    /// Rounds that are still to come.
    rounds: u8,
    /// When the next one is.
    due: Instant,
    /// In this round: the next address, IPv4 before IPv6. Beyond the last: the round is over.
    address: usize,
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
            announcing: Announcing { rounds: 0, due: Instant::FAR_FUTURE, address: usize::MAX },
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

    /// Packets have at most `mtu` bytes from now on: no more than it was made for.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.config.mtu = mtu.min(self.config.mtu);
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
        self.route_by(src, dst, |neighbours, ip, counters| neighbours.lookup(now, ip, counters))
    }

    /// [`route`](Self::route) for a single answer to whoever sent something, perhaps under another's address: the template is
    /// not to be kept. Of next hops that are not known few are resolved at a time, and they take no place that another needs.
    pub fn route_for_stranger(&mut self, now: Instant, src: SocketAddr, dst: SocketAddr) -> Route {
        self.route_by(src, dst, |neighbours, ip, counters| neighbours.lookup_courtesy(now, ip, counters))
    }

    fn route_by(
        &mut self,
        src: SocketAddr,
        dst: SocketAddr,
        lookup: impl FnOnce(&mut Neighbours, IpAddr, &HostCounters) -> Lookup,
    ) -> Route {
        let ours = self.addresses.is_local(src.ip());
        let hop = self.addresses.next_hop(dst.ip()).filter(|_| ours);
        let (mac, ttl) = match hop {
            None if ours && self.addresses.is_local(dst.ip()) => (self.config.mac, ipv4::TTL_DEFAULT),
            Some(Hop::Group(mac)) => (mac, TTL_GROUP),
            Some(Hop::Neighbour(ip)) => match lookup(&mut self.neighbours, ip, &self.counters) {
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

    /// Bits of the longest prefix of ours that holds `dst`, all of them for a gateway: of several hosts in one program, the one that
    /// knows most of an address is nearest to it. `None` where `dst` is not on the link.
    pub fn prefix_to(&self, dst: IpAddr) -> Option<u8> {
        self.addresses.prefix_to(dst)
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

    /// Tells the host that the peer `ip` was heard from, at `heard`, in a way that proves that our packets reach it (RFC 4861
    /// section 7.3.1): an acknowledgement, not just any packet. Keeps its next hop from being probed, and from being forgotten
    /// when the table is full.
    #[inline]
    pub fn confirm(&mut self, heard: Instant, ip: IpAddr) {
        if let Some(Hop::Neighbour(hop)) = self.addresses.next_hop(ip) {
            self.neighbours.confirm(heard, hop);
        }
    }

    /// Tells the host that nothing comes back from the peer `ip` (RFC 4861 section 7.3.3), time-out after time-out: its next
    /// hop is asked whether it is still there, and if it is not, all are asked who has its place. One that was confirmed within
    /// a second is left in peace until then.
    pub fn suspect(&mut self, now: Instant, ip: IpAddr) {
        if let Some(Hop::Neighbour(hop)) = self.addresses.next_hop(ip) {
            self.neighbours.suspect(now, hop, &self.counters);
        }
    }

    /// Says to all on the link which addresses are ours (ARP announcements, RFC 5227 section 2.3; unsolicited neighbour
    /// advertisements, RFC 4861 section 7.2.6): at once, and again after two seconds. For a host that has just started: others
    /// may remember its addresses with another's MAC.
    pub fn announce(&mut self) {
        self.announcing = Announcing { rounds: ANNOUNCEMENTS - 1, due: Instant::FAR_FUTURE, address: 0 };
    }

    /// Does what is due at `now`: retries, ageing, giving up, announcements.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.neighbours.handle_timeout(now, &self.counters);
        if self.announcing.due <= now {
            self.announcing.due = Instant::FAR_FUTURE;
            self.announcing.rounds -= 1;
            self.announcing.address = 0;
        }
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) may have a frame.
    #[inline]
    pub fn has_transmit(&self) -> bool {
        self.neighbours.has_questions()
            || !self.control.is_empty()
            || !self.bulk.is_empty()
            || self.announcing.address != usize::MAX
    }

    /// Writes the next frame of the host's own (ARP, neighbour discovery, ICMP) into `frame`, which arrives empty. False:
    /// nothing to send. A frame without room for it loses it, counted.
    pub fn poll_transmit(&mut self, now: Instant, frame: &mut Frame) -> bool {
        if self.announcing.address != usize::MAX && self.write_announcement(now, frame) {
            self.counters.tx_frames.add(1);
            return true;
        }
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
        let due = self.announcing.due;
        let announcement = (due != Instant::FAR_FUTURE).then_some(due);
        self.neighbours.poll_timeout().into_iter().chain(announcement).min()
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

    /// Writes the announcement of the next address. False: all are announced, for now.
    #[cold]
    fn write_announcement(&mut self, now: Instant, frame: &mut Frame) -> bool {
        let (v4, at) = (self.config.ipv4.len(), self.announcing.address);
        self.announcing.address += 1;
        if let Some(&(sender_ip, _)) = self.config.ipv4.get(at) {
            let repr = arp::Repr {
                operation: arp::Operation::Request,
                sender_mac: self.config.mac,
                sender_ip,
                target_mac: MacAddr::ZERO,
                target_ip: sender_ip,
            };
            if frame.set_len(link_len(&self.config) + arp::PACKET_LEN) {
                self.emit_arp(frame.data_mut(), MacAddr::BROADCAST, &repr);
            }
        } else if let Some(&(target, _)) = self.config.ipv6.get(at - v4) {
            let message = self.advert(target, false);
            if frame.set_len(self.icmp6_len(&message)) {
                let group = MacAddr::from_multicast_v6(ALL_NODES);
                self.emit_icmp6(frame.data_mut(), group, target, ALL_NODES, ndisc::HOP_LIMIT, &message);
            }
        } else {
            self.announcing.address = usize::MAX;
            if self.announcing.rounds > 0 {
                self.announcing.due = now + ANNOUNCE_INTERVAL;
            }
            return false;
        }
        if frame.is_empty() {
            self.counters.drops.count(DropReason::TooLarge);
            return false;
        }
        self.counters.adverts_sent.add(1);
        true
    }

    /// The advertisement that `target` is ours.
    pub(crate) fn advert(&self, target: Ipv6Addr, solicited: bool) -> icmpv6::Repr<'static> {
        icmpv6::Repr::Ndisc(ndisc::Repr::NeighbourAdvert {
            router: false,
            solicited,
            override_known: true,
            target,
            target_mac: Some(self.config.mac),
        })
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
