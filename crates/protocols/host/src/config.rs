//! What a host is told about itself, and the questions that its addresses answer.

use barewire_wire::MacAddr;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a host is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Our Ethernet address.
    pub mac: MacAddr,
    /// Largest IP packet that the link carries, in bytes.
    pub mtu: u16,
    /// Our IPv4 addresses with the length of their on-link prefix. The first is preferred as a source.
    pub ipv4: Vec<(Ipv4Addr, u8)>,
    /// Our IPv6 addresses with the length of their on-link prefix. The first is preferred as a source. `fe80::/10` is
    /// on-link always.
    pub ipv6: Vec<(Ipv6Addr, u8)>,
    /// Next hop towards IPv4 addresses that are not on the link; itself taken to be on it.
    pub gateway4: Option<Ipv4Addr>,
    /// Next hop towards IPv6 addresses that are not on the link; itself taken to be on it.
    pub gateway6: Option<Ipv6Addr>,
    /// Most neighbours known at once, at most [`NEIGHBOURS_LIMIT`](crate::NEIGHBOURS_LIMIT).
    pub neighbours_max: usize,
    /// The VLAN: its tag is put on what leaves and required on what arrives. `None`: untagged, or tagged with priority
    /// only (VLAN 0).
    pub vlan: Option<u16>,
    /// Compute the UDP checksum over IPv4 too. When false the field says "none" (zero) and integrity is the payload's
    /// own matter. Over IPv6 it is always computed.
    pub udp_checksum4: bool,
    /// Key of the neighbour table's hash. Set it from the system's random source where strangers share the link, so that
    /// they cannot choose addresses that collide.
    pub hash_key: u64,
}

impl HostConfig {
    /// A host with no addresses yet: MTU 1500, 1024 neighbours, untagged, no UDP checksum over IPv4.
    pub fn new(mac: MacAddr) -> Self {
        HostConfig {
            mac,
            mtu: 1500,
            ipv4: Vec::new(),
            ipv6: Vec::new(),
            gateway4: None,
            gateway6: None,
            neighbours_max: 1024,
            vlan: None,
            udp_checksum4: false,
            hash_key: 0,
        }
    }
}

/// One address of ours and the prefix that is on the link with it.
#[derive(Clone, Copy)]
struct Local<A> {
    addr: A,
    mask: A,
}

/// Where a packet goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hop {
    /// To a neighbour that has to be resolved.
    Neighbour(IpAddr),
    /// To a group or to all: the MAC follows from the address.
    Group(MacAddr),
}

/// Our addresses in the form that the data path asks for.
pub(crate) struct Addresses {
    v4: Box<[Local<u32>]>,
    v6: Box<[Local<u128>]>,
    /// Broadcast addresses of our subnets.
    broadcast4: Box<[u32]>,
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<Ipv6Addr>,
}

impl Addresses {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let v4: Box<[Local<u32>]> = config
            .ipv4
            .iter()
            .map(|&(addr, len)| Local {
                addr: addr.to_bits(),
                mask: u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0),
            })
            .collect();
        let v6 = config
            .ipv6
            .iter()
            .map(|&(addr, len)| Local {
                addr: addr.to_bits(),
                mask: u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0),
            })
            .collect();
        // A /31 or /32 has no broadcast address (RFC 3021).
        let broadcast4 = v4.iter().filter(|l| l.mask.leading_ones() < 31).map(|l| l.addr | !l.mask).collect();
        Addresses { v4, v6, broadcast4, gateway4: config.gateway4, gateway6: config.gateway6 }
    }

    #[inline]
    pub(crate) fn is_local4(&self, addr: u32) -> bool {
        self.v4.iter().any(|l| l.addr == addr)
    }

    #[inline]
    pub(crate) fn is_local6(&self, addr: u128) -> bool {
        self.v6.iter().any(|l| l.addr == addr)
    }

    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.is_local4(ip.to_bits()),
            IpAddr::V6(ip) => self.is_local6(ip.to_bits()),
        }
    }

    /// Whether a packet that arrives may come from `addr`.
    #[inline]
    pub(crate) fn is_source4(&self, addr: u32) -> bool {
        barewire_wire::is_source_v4(Ipv4Addr::from_bits(addr))
            && !self.is_local4(addr)
            && !self.broadcast4.contains(&addr)
    }

    /// Whether a packet that arrives may come from `addr`.
    #[inline]
    pub(crate) fn is_source6(&self, addr: u128) -> bool {
        barewire_wire::is_source_v6(Ipv6Addr::from_bits(addr)) && !self.is_local6(addr)
    }

    /// Whether `group` is the solicited-node group of an address of ours.
    pub(crate) fn is_solicited_node(&self, group: Ipv6Addr) -> bool {
        self.v6.iter().any(|l| barewire_wire::solicited_node(Ipv6Addr::from_bits(l.addr)) == group)
    }

    /// Bits of the longest prefix of ours that holds `ip`; all of them for a gateway. `None`: it is not on the link.
    pub(crate) fn prefix_to(&self, ip: IpAddr) -> Option<u8> {
        /// `fe80::/10`.
        const LINK_LOCAL: u32 = 10;
        let longest = match ip {
            IpAddr::V4(ip) => {
                let (bits, gateway) = (ip.to_bits(), (self.gateway4 == Some(ip)).then_some(32));
                let near = self.v4.iter().filter(|l| (l.addr ^ bits) & l.mask == 0);
                near.map(|l| l.mask.leading_ones()).chain(gateway).max()
            }
            IpAddr::V6(ip) => {
                let (bits, gateway) = (ip.to_bits(), (self.gateway6 == Some(ip)).then_some(128));
                let any = (ip.is_unicast_link_local() && !self.v6.is_empty()).then_some(LINK_LOCAL);
                let near = self.v6.iter().filter(|l| (l.addr ^ bits) & l.mask == 0);
                near.map(|l| l.mask.leading_ones()).chain(gateway).chain(any).max()
            }
        };
        longest.map(|bits| bits as u8)
    }

    /// Whether `ip` is a neighbour: in a prefix of ours, or a gateway.
    pub(crate) fn is_on_link(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => {
                let bits = ip.to_bits();
                self.gateway4 == Some(ip) || self.v4.iter().any(|l| (l.addr ^ bits) & l.mask == 0)
            }
            IpAddr::V6(ip) => {
                let bits = ip.to_bits();
                self.gateway6 == Some(ip)
                    || ip.is_unicast_link_local() && !self.v6.is_empty()
                    || self.v6.iter().any(|l| (l.addr ^ bits) & l.mask == 0)
            }
        }
    }

    /// Where a packet to `dst` goes next; `None` when there is no way: no address of ours in the family, no gateway, or an
    /// address that no packet on a wire may have or that is our own.
    pub(crate) fn next_hop(&self, dst: IpAddr) -> Option<Hop> {
        if self.is_local(dst) {
            return None;
        }
        match dst {
            IpAddr::V4(ip) => {
                if self.v4.is_empty() {
                    return None;
                }
                if ip.is_multicast() {
                    return Some(Hop::Group(MacAddr::from_multicast_v4(ip)));
                }
                if ip.is_broadcast() || self.broadcast4.contains(&ip.to_bits()) {
                    return Some(Hop::Group(MacAddr::BROADCAST));
                }
                if !barewire_wire::is_source_v4(ip) {
                    return None;
                }
                if self.is_on_link(dst) {
                    return Some(Hop::Neighbour(dst));
                }
                self.gateway4
                    .filter(|&gateway| !self.is_local(gateway.into()))
                    .map(|g| Hop::Neighbour(g.into()))
            }
            IpAddr::V6(ip) => {
                if self.v6.is_empty() {
                    return None;
                }
                if ip.is_multicast() {
                    return Some(Hop::Group(MacAddr::from_multicast_v6(ip)));
                }
                if !barewire_wire::is_source_v6(ip) {
                    return None;
                }
                if self.is_on_link(dst) {
                    return Some(Hop::Neighbour(dst));
                }
                self.gateway6
                    .filter(|&gateway| !self.is_local(gateway.into()))
                    .map(|g| Hop::Neighbour(g.into()))
            }
        }
    }

    /// The address of ours to use towards `dst`: the one with the longest prefix that holds the next hop, else (IPv6) the
    /// first of the same scope, else the first of the family.
    pub(crate) fn source_for(&self, dst: IpAddr) -> Option<IpAddr> {
        let near = match self.next_hop(dst) {
            Some(Hop::Neighbour(hop)) => hop,
            Some(Hop::Group(_)) => dst,
            None if self.is_local(dst) => return Some(dst),
            None => return None,
        };
        match (dst, near) {
            (IpAddr::V4(_), IpAddr::V4(near)) => {
                let bits = near.to_bits();
                let holder = self
                    .v4
                    .iter()
                    .rev() // max_by_key keeps the last of equals: the first in the configuration
                    .filter(|l| (l.addr ^ bits) & l.mask == 0)
                    .max_by_key(|l| l.mask.leading_ones());
                holder.or(self.v4.first()).map(|l| Ipv4Addr::from_bits(l.addr).into())
            }
            (IpAddr::V6(dst), IpAddr::V6(near)) => {
                let bits = near.to_bits();
                let scope = |ip: Ipv6Addr| ip.is_unicast_link_local() || ip.octets()[..2] == [0xff, 0x02];
                let fits = |l: &&Local<u128>| scope(Ipv6Addr::from_bits(l.addr)) == scope(dst);
                let holder = self
                    .v6
                    .iter()
                    .rev()
                    .filter(|l| (l.addr ^ bits) & l.mask == 0)
                    .filter(fits)
                    .max_by_key(|l| l.mask.leading_ones());
                let chosen = holder.or_else(|| self.v6.iter().find(fits)).or(self.v6.first());
                chosen.map(|l| Ipv6Addr::from_bits(l.addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Addresses {
        let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, 1]));
        config.ipv4 = vec![
            ("10.0.0.1".parse().unwrap(), 8),
            ("10.1.2.3".parse().unwrap(), 24),
            ("192.0.2.9".parse().unwrap(), 32),
        ];
        config.ipv6 = vec![("2001:db8::1".parse().unwrap(), 64), ("fe80::1".parse().unwrap(), 64)];
        config.gateway4 = Some("10.1.2.254".parse().unwrap());
        config.gateway6 = Some("fe80::fe".parse().unwrap());
        Addresses::new(&config)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn sources_follow_prefix_and_scope() {
        let a = addresses();
        let source = |dst: &str| a.source_for(ip(dst)).unwrap().to_string();
        assert_eq!(source("10.9.9.9"), "10.0.0.1");
        assert_eq!(source("10.1.2.200"), "10.1.2.3");
        assert_eq!(source("8.8.8.8"), "10.1.2.3");
        assert_eq!(source("2001:db8::77"), "2001:db8::1");
        assert_eq!(source("2001:db9::77"), "2001:db8::1");
        assert_eq!(source("fe80::77"), "fe80::1");
        assert_eq!(source("ff02::1"), "fe80::1");
        assert_eq!(source("10.0.0.1"), "10.0.0.1");
        assert_eq!(a.source_for(ip("127.0.0.1")), None);
    }

    #[test]
    fn hops_follow_prefix_and_gateway() {
        let a = addresses();
        assert_eq!(a.next_hop(ip("10.200.0.1")), Some(Hop::Neighbour(ip("10.200.0.1"))));
        assert_eq!(a.next_hop(ip("192.0.2.8")), Some(Hop::Neighbour(ip("10.1.2.254"))));
        assert_eq!(a.next_hop(ip("2001:db8:1::1")), Some(Hop::Neighbour(ip("fe80::fe"))));
        assert_eq!(a.next_hop(ip("10.1.2.255")), Some(Hop::Group(MacAddr::BROADCAST)));
        assert_eq!(a.next_hop(ip("255.255.255.255")), Some(Hop::Group(MacAddr::BROADCAST)));
        assert_eq!(a.next_hop(ip("224.0.0.1")), Some(Hop::Group(MacAddr([1, 0, 0x5e, 0, 0, 1]))));
        for nowhere in ["0.0.0.0", "127.0.0.1", "240.0.0.1", "10.0.0.1", "::", "::1", "2001:db8::1"] {
            assert_eq!(a.next_hop(ip(nowhere)), None, "{nowhere}");
        }
    }

    #[test]
    fn the_longest_prefix_says_how_near_an_address_is() {
        let a = addresses();
        for (to, bits) in [
            ("10.9.9.9", Some(8)),
            ("10.1.2.9", Some(24)),
            ("10.1.2.254", Some(32)),
            ("192.0.2.9", Some(32)),
            ("192.0.2.8", None),
            ("2001:db8::77", Some(64)),
            ("2001:db9::77", None),
            ("fe80::77", Some(64)),
            ("fe80:1::77", Some(10)),
            ("fe80::fe", Some(128)),
        ] {
            assert_eq!(a.prefix_to(ip(to)), bits, "{to}");
        }
        let everything =
            HostConfig { ipv4: vec![("10.0.0.1".parse().unwrap(), 0)], ..HostConfig::new(MacAddr::ZERO) };
        assert_eq!(Addresses::new(&everything).prefix_to(ip("1.2.3.4")), Some(0));
    }

    #[test]
    fn impossible_sources_are_told() {
        let a = addresses();
        let bits = |t: &str| t.parse::<Ipv4Addr>().unwrap().to_bits();
        assert!(a.is_source4(bits("10.2.3.4")));
        for no in ["10.0.0.1", "10.255.255.255", "10.1.2.255", "0.0.0.0", "127.0.0.1", "224.0.0.1"] {
            assert!(!a.is_source4(bits(no)), "{no}");
        }
    }

    #[test]
    fn zero_and_oversized_prefixes_are_harmless() {
        let mut config = HostConfig::new(MacAddr::ZERO);
        config.ipv4 = vec![("10.0.0.1".parse().unwrap(), 0), ("10.0.0.2".parse().unwrap(), 200)];
        config.ipv6 = vec![("fd00::1".parse().unwrap(), 0), ("fd00::2".parse().unwrap(), 255)];
        let a = Addresses::new(&config);
        assert!(a.is_on_link(ip("1.2.3.4")) && a.is_on_link(ip("2001::1")));
    }
}
