//! Ethernet addresses.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An Ethernet address, in the order of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// No address.
    pub const ZERO: MacAddr = MacAddr([0; 6]);
    /// Every station.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether it names a group of stations; true of the broadcast address too.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it is `ff:ff:ff:ff:ff:ff`.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == MacAddr::BROADCAST
    }

    /// Whether it can be the address of one station: neither a group nor zero.
    #[inline]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != MacAddr::ZERO
    }

    /// The group address of an IPv4 multicast group (RFC 1112 section 6.4): the low 23 bits survive.
    pub const fn from_multicast_v4(group: Ipv4Addr) -> MacAddr {
        let [_, b, c, d] = group.octets();
        MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address of an IPv6 multicast group (RFC 2464 section 7): the low 32 bits survive.
    pub const fn from_multicast_v6(group: Ipv6Addr) -> MacAddr {
        let o = group.octets();
        MacAddr([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Not an Ethernet address: six pairs of hexadecimal digits with `:` or `-` between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not an Ethernet address: expected six pairs of hexadecimal digits such as 02:00:00:00:00:01",
        )
    }
}

impl core::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let &[a0, a1, s, b0, b1, s2, c0, c1, s3, d0, d1, s4, e0, e1, s5, f0, f1] = text.as_bytes() else {
            return Err(ParseMacError);
        };
        if !matches!(s, b':' | b'-') || [s2, s3, s4, s5].iter().any(|&x| x != s) {
            return Err(ParseMacError);
        }
        let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8).ok_or(ParseMacError);
        let mut mac = [0; 6];
        let pairs = [(a0, a1), (b0, b1), (c0, c1), (d0, d1), (e0, e1), (f0, f1)];
        for (byte, (high, low)) in mac.iter_mut().zip(pairs) {
            *byte = digit(high)? << 4 | digit(low)?;
        }
        Ok(MacAddr(mac))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_goes_round() {
        let mac = MacAddr([0x02, 0x1a, 0xff, 0x00, 0x9c, 0x7e]);
        assert_eq!(mac.to_string(), "02:1a:ff:00:9c:7e");
        assert_eq!("02:1a:ff:00:9c:7e".parse(), Ok(mac));
        assert_eq!("02-1A-FF-00-9C-7E".parse(), Ok(mac));
    }

    #[test]
    fn bad_text_is_refused() {
        for text in ["", "02:1a:ff:00:9c", "02:1a:ff:00:9c:7", "02:1a:ff:00:9c:7g", "02:1a-ff:00:9c:7e"] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
        assert_eq!("021aff009c7e00000".parse::<MacAddr>(), Err(ParseMacError));
        assert_eq!("02:1a:ff:00:9c:+e".parse::<MacAddr>(), Err(ParseMacError));
    }

    #[test]
    fn groups_and_stations_are_told_apart() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::ZERO.is_multicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
        let group = MacAddr::from_multicast_v4(Ipv4Addr::new(239, 0xff, 1, 2));
        assert_eq!(group.0, [0x01, 0x00, 0x5e, 0x7f, 1, 2]);
        assert!(group.is_multicast() && !group.is_broadcast());
        let group = MacAddr::from_multicast_v6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0x1234));
        assert_eq!(group.0, [0x33, 0x33, 0xff, 0, 0x12, 0x34]);
    }
}
