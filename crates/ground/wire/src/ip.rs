//! What IPv4 and IPv6 share: protocol numbers and which addresses a sender may have.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// An IP protocol or IPv6 next header (IANA "Assigned Internet Protocol Numbers").
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// ICMP for IPv4.
    pub const ICMP: Protocol = Protocol(1);
    /// IGMP.
    pub const IGMP: Protocol = Protocol(2);
    /// TCP.
    pub const TCP: Protocol = Protocol(6);
    /// UDP.
    pub const UDP: Protocol = Protocol(17);
    /// IPv6 routing header.
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Protocol = Protocol(44);
    /// ICMP for IPv6.
    pub const ICMPV6: Protocol = Protocol(58);
    /// Nothing follows.
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Whether an IPv4 packet on a wire may come from `addr`: not "this network" (0/8), loopback (127/8), multicast (224/4),
/// nor reserved or broadcast (240/4) (RFC 1122 section 3.2.1.3). Says nothing of a subnet's own broadcast address.
#[inline]
pub const fn is_source_v4(addr: Ipv4Addr) -> bool {
    let first = addr.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// Whether an IPv6 packet on a wire may come from `addr`: not unspecified, loopback, multicast (RFC 4291 sections 2.5.2,
/// 2.5.3, 2.7), nor an IPv4-mapped address (section 2.5.5.2).
#[inline]
pub const fn is_source_v6(addr: Ipv6Addr) -> bool {
    // One comparison covers all of ::/80: `::`, `::1`, IPv4-mapped and the deprecated IPv4-compatible addresses.
    let bits = addr.to_bits();
    bits >> 48 != 0 && bits >> 120 != 0xff
}

/// The solicited-node group of an address (RFC 4291 section 2.7.1): the low 24 bits under `ff02::1:ff00:0`.
#[inline]
pub const fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | addr.to_bits() & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_judged() {
        let v4 = |a: [u8; 4]| is_source_v4(a.into());
        assert!(v4([10, 0, 0, 1]) && v4([223, 255, 255, 255]) && v4([169, 254, 0, 1]));
        assert!(!v4([0, 0, 0, 0]) && !v4([127, 0, 0, 1]) && !v4([224, 0, 0, 1]) && !v4([255, 255, 255, 255]));
        let v6 = |a: &str| is_source_v6(a.parse().unwrap());
        assert!(v6("fe80::1") && v6("2001:db8::1") && v6("fd00::1"));
        assert!(!v6("::") && !v6("::1") && !v6("ff02::1") && !v6("::ffff:10.0.0.1") && !v6("::10.0.0.1"));
    }

    #[test]
    fn solicited_node_keeps_24_bits() {
        let addr: Ipv6Addr = "2001:db8::12:3456:789a".parse().unwrap();
        assert_eq!(solicited_node(addr), "ff02::1:ff56:789a".parse::<Ipv6Addr>().unwrap());
    }
}
