//! The legs of a stack: its ports, each with a host of its own, and which of them a packet leaves by.
//!
//! ```text
//! from an address of ours   the leg that has it
//! from any                  the leg that has the destination, else the one whose network holds it by the longest prefix, else the first
//!                           with a gateway of the family; from the address that this leg's host chooses. A link-local destination
//!                           that several legs may have: the one on the link that the caller names, else none
//! ```
//! A flow stays with its leg: its packets carry an address of that leg, and answers to them come back to it.

use barewire_base::{Counter, DropCounters, DropReason, Instant};
use barewire_frame::{BURST_MAX, Burst, Frame, Pool};
use barewire_host::{Host, HostEvent};
use barewire_port::{Port, PortError};
use std::cmp::Reverse;
use std::net::IpAddr;

/// Frames received in one cycle from a port of memory. Two ends that answer each other would else take turns with whole
/// windows, each idle while the other works; where sending costs a system call, large bursts are worth that.
const RX_BURST_MEMORY: usize = 8;

/// Transmit bursts of one port in one cycle.
pub(crate) const TX_BURSTS_PER_CYCLE: usize = 4;

/// What a stack counts besides what its port, host and endpoint count themselves.
#[derive(Debug, Default)]
pub struct StackCounters {
    /// Frames dropped between port and endpoint, by reason.
    pub drops: DropCounters,
    /// Frames handed to another engine that owns their flow.
    pub forwarded: Counter,
    /// Frames to our own address, which never reach the port.
    pub looped: Counter,
}

/// Where the frames that a stack fills come from. Dropped after the legs: a port gives its frames back when it is dropped.
pub(crate) struct Supply {
    /// An empty frame kept for the next transmission, so that asking for work costs no allocation.
    spare: Option<Frame>,
    pub(crate) pool: Pool,
    pub(crate) counters: StackCounters,
}

impl Supply {
    pub(crate) fn new(pool: Pool) -> Supply {
        Supply { spare: None, pool, counters: StackCounters::default() }
    }

    /// An empty frame. `None`, counted: the pool has none.
    #[inline]
    fn take(&mut self) -> Option<Frame> {
        let frame = self.spare.take().or_else(|| self.pool.alloc());
        if frame.is_none() {
            self.counters.drops.count(DropReason::PoolEmpty);
        }
        frame
    }
}

/// A port with the host on it, and the frames between the two.
pub struct Leg {
    pub(crate) port: Box<dyn Port>,
    pub(crate) host: Host,
    pub(crate) rx: Burst,
    pub(crate) tx: Burst,
    /// Frames to ourselves. Empty between calls.
    pub(crate) looped: Burst,
    pub(crate) mac: [u8; 6],
    /// What the port failed with last, where it is one of several.
    pub(crate) failed: Option<PortError>,
    /// The port took nothing: when to offer it the same again.
    pub(crate) blocked_until: Option<Instant>,
    /// Frames that went into `tx` so far, wrapping.
    filled: u32,
    /// The index of the port's interface, where it has one.
    pub(crate) interface: Option<u32>,
    pub(crate) is_shut: bool,
}

impl Leg {
    pub(crate) fn new(port: Box<dyn Port>, host: Host) -> Leg {
        let rx_limit = if port.caps().lossless_bits { RX_BURST_MEMORY } else { BURST_MAX };
        Leg {
            port,
            mac: host.config().mac.0,
            host,
            rx: Burst::with_limit(rx_limit),
            tx: Burst::new(),
            looped: Burst::new(),
            failed: None,
            blocked_until: None,
            filled: 0,
            interface: None,
            is_shut: false,
        }
    }

    /// The port, to look at its capabilities and counters.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// The port, to prepare a wait on it.
    pub fn port_mut(&mut self) -> &mut dyn Port {
        &mut *self.port
    }

    /// The host: its addresses, neighbours and counters.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The host, to change its configuration.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Says which interface of the kernel the port stands on, by its index.
    pub fn set_interface(&mut self, index: u32) {
        self.interface = Some(index);
    }

    /// Shut, a leg sends nothing: what would leave by it is lost and counted, as on a port that is down.
    pub fn set_shut(&mut self, is_shut: bool) {
        self.is_shut = is_shut;
    }

    /// Takes the host's events; whether there were any: next hops that were found, lost, or found elsewhere.
    pub(crate) fn neighbours_changed(&mut self) -> bool {
        let mut changed = false;
        while let Some(HostEvent::Resolved(_) | HostEvent::Unreachable(_) | HostEvent::Moved(_)) =
            self.host.poll_event()
        {
            changed = true;
        }
        changed
    }

    /// Runs the host's timers, where one is due. Whether a neighbour was found or lost.
    #[inline]
    pub(crate) fn run_timers(&mut self, now: Instant) -> bool {
        let is_due = self.host.poll_timeout().is_some_and(|at| at <= now);
        if is_due {
            self.host.handle_timeout(now);
        }
        is_due && self.neighbours_changed()
    }

    /// The frames that wait for room in the port, here or in it: the number of the first, as [`fill`](Self::fill) counts them, and how
    /// many.
    pub(crate) fn waiting(&self) -> (u32, u32) {
        let count = (self.tx.len() + self.port.tx_waiting()) as u32;
        (self.filled.wrapping_sub(count), count)
    }

    /// Fills the transmit burst with what `next` writes; frames to ourselves go to `looped`. The host has the first frame of each burst,
    /// also when it is the last of the pool: an endpoint may always have a segment to send, and a host that does not answer for its address
    /// is soon sent nothing any more. `next` is told the frame's number. Whether there may be more to send.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        now: Instant,
        supply: &mut Supply,
        mut next: impl FnMut(&mut Host, &mut Frame, u32) -> bool,
    ) -> bool {
        let mut hosts_turn = self.host.has_transmit();
        while self.tx.room() > 0 && self.looped.room() > 0 {
            let Some(mut frame) = supply.take() else { return false };
            let filled = std::mem::take(&mut hosts_turn) && self.host.poll_transmit(now, &mut frame);
            if !filled && !next(&mut self.host, &mut frame, self.filled) {
                supply.spare = Some(frame);
                return false;
            }
            let to_us = frame.data().first_chunk() == Some(&self.mac);
            let burst = if to_us { &mut self.looped } else { &mut self.tx };
            self.filled = self.filled.wrapping_add(u32::from(!to_us));
            if burst.push(frame).is_err() {
                break;
            }
        }
        true
    }

    /// When host or port have something to do though nothing arrives.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.host.poll_timeout().into_iter().chain(self.port.next_deadline()).min()
    }
}

/// The address that packets to `dst` come from, which is of the leg that they leave by: each leg with the index of its interface. `link` is
/// the one that `dst` is on, where that matters. `None`: there is no way there, or nobody knows which.
pub(crate) fn choose<'a>(
    legs: impl Iterator<Item = (Option<u32>, &'a Host)> + Clone,
    dst: IpAddr,
    link: Option<u32>,
) -> Option<IpAddr> {
    // What is ours is nearer than what is on a link, and a link is nearer than what lies behind a gateway.
    let nearness = |host: &Host| match host.is_local(dst) {
        true => (2, 0),
        false => host.prefix_to(dst).map_or((0, 0), |bits| (1, bits)),
    };
    let ways = legs.enumerate().filter_map(|(leg, (interface, host))| {
        Some((nearness(host), Reverse(leg), interface, host.source_for(dst)?))
    });
    if matches!(dst, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
        // The same address may be on every link.
        let named = ways.clone().find(|&(_, _, interface, _)| link.is_some() && link == interface);
        let nearest = ways.clone().map(|(near, ..)| near).max()?;
        let mut only = ways.filter(|(near, ..)| *near == nearest);
        let way = named.or_else(|| only.next().filter(|_| only.next().is_none()))?;
        return Some(way.3);
    }
    ways.max_by_key(|&(near, leg, ..)| (near, leg)).map(|(.., source)| source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_host::HostConfig;
    use barewire_wire::MacAddr;

    /// A host with addresses of both families, and a gateway where the text has one: `10.0.0.1/24 fd00::1/64 via 10.0.0.254`.
    fn host(text: &str) -> Host {
        let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, 1]));
        let (addresses, gateways) = text.split_once(" via ").unwrap_or((text, ""));
        for word in addresses.split(' ') {
            let (ip, bits) = word.split_once('/').unwrap();
            match ip.parse().unwrap() {
                IpAddr::V4(ip) => config.ipv4.push((ip, bits.parse().unwrap())),
                IpAddr::V6(ip) => config.ipv6.push((ip, bits.parse().unwrap())),
            }
        }
        for word in gateways.split(' ').filter(|word| !word.is_empty()) {
            match word.parse().unwrap() {
                IpAddr::V4(ip) => config.gateway4 = Some(ip),
                IpAddr::V6(ip) => config.gateway6 = Some(ip),
            }
        }
        Host::new(config)
    }

    fn check(hosts: &[&str], expected: &[(&str, Option<(usize, &str)>)]) {
        let hosts: Vec<Host> = hosts.iter().map(|text| host(text)).collect();
        for (dst, way) in expected {
            let way = way.map(|(leg, source)| (leg, source.parse().unwrap()));
            let chosen = choose(hosts.iter().map(|host| (None, host)), dst.parse().unwrap(), None);
            let leg_of = |source| hosts.iter().position(|host| host.is_local(source)).unwrap();
            assert_eq!(chosen.map(|source| (leg_of(source), source)), way, "{dst}");
        }
    }

    #[test]
    fn the_longest_prefix_decides_and_the_leg_gives_the_source() {
        check(
            &["10.0.0.1/8 fd00::1/48", "10.1.0.1/16 192.0.2.1/24 fd00::1:1/64", "10.1.2.1/24"],
            &[
                ("10.9.9.9", Some((0, "10.0.0.1"))),
                ("10.1.9.9", Some((1, "10.1.0.1"))),
                ("10.1.2.9", Some((2, "10.1.2.1"))),
                ("192.0.2.9", Some((1, "192.0.2.1"))),
                ("fd00::9", Some((1, "fd00::1:1"))),
                ("fd00:0:0:1::9", Some((0, "fd00::1"))),
                ("198.51.100.1", None),
                ("fd01::1", None),
                ("127.0.0.1", None),
            ],
        );
    }

    #[test]
    fn an_address_of_ours_is_its_own_legs_whatever_holds_it() {
        check(
            &["10.1.2.1/32 10.0.0.1/8", "10.0.0.2/8"],
            &[("10.0.0.2", Some((1, "10.0.0.2"))), ("10.1.2.1", Some((0, "10.1.2.1")))],
        );
        check(&["10.0.0.1/30", "10.0.0.2/16"], &[("10.0.0.2", Some((1, "10.0.0.2")))]);
    }

    #[test]
    fn beyond_the_networks_the_first_gateway_of_the_family_decides() {
        let hosts =
            ["10.0.0.1/24 fd00::1/64", "10.1.0.1/24 fd01::1/64 via fd01::fe", "10.2.0.1/24 via 10.2.0.254"];
        check(
            &hosts,
            &[
                ("198.51.100.1", Some((2, "10.2.0.1"))),
                ("2001:db8::1", Some((1, "fd01::1"))),
                ("10.0.0.9", Some((0, "10.0.0.1"))),
                ("10.2.0.254", Some((2, "10.2.0.1"))),
            ],
        );
        check(
            &["10.0.0.1/24 via 10.0.0.254", "10.1.0.1/24 via 10.1.0.254"],
            &[("198.51.100.1", Some((0, "10.0.0.1"))), ("10.1.0.254", Some((1, "10.1.0.1")))],
        );
        // On a link to everything nothing is behind a gateway.
        check(
            &["10.0.0.1/24 via 10.0.0.254", "10.1.0.1/0"],
            &[("198.51.100.1", Some((1, "10.1.0.1"))), ("10.0.0.7", Some((0, "10.0.0.1")))],
        );
    }

    #[test]
    fn a_link_local_destination_is_on_the_link_that_is_named_or_that_alone_may_have_it() {
        let hosts = ["10.0.0.1/24", "10.1.0.1/24 fe80::1/64", "fe80::2/64", "fd00::1/64"].map(host);
        let way = |count: usize, dst: &str, link| {
            let legs = (7..).map(Some).zip(&hosts[..count]);
            choose(legs, dst.parse().unwrap(), link).map(|ip| ip.to_string())
        };
        assert_eq!(way(1, "fe80::9", None), None, "no address of the family");
        assert_eq!(way(2, "fe80::9", None).as_deref(), Some("fe80::1"));
        assert_eq!(way(3, "fe80::9", None), None, "on either link");
        assert_eq!(way(4, "fe80::9", Some(8)).as_deref(), Some("fe80::1"));
        assert_eq!(way(4, "fe80::9", Some(9)).as_deref(), Some("fe80::2"));
        assert_eq!(way(4, "fe80::9", Some(10)).as_deref(), Some("fd00::1"));
        assert_eq!(way(4, "fe80::9", Some(7)), None, "none of those that may have it");
        assert_eq!(way(4, "fe80::2", None).as_deref(), Some("fe80::2"), "ours");
        assert_eq!(
            way(4, "fd00::9", Some(8)).as_deref(),
            Some("fd00::1"),
            "only such addresses are on a link"
        );
        check(&["10.0.0.1/24"], &[("fe80::9", None), ("fd00::1", None)]);
    }
}
