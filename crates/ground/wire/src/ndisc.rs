//! Neighbour discovery (RFC 4861): solicitations, advertisements and their options, as bodies of [`crate::icmpv6`].
//!
//! A *body* is what follows type, code and checksum. Addresses and the hop limit, which the receiver must judge too, are
//! those of the IPv6 header.

use crate::field::{array, put, put_slice, slice, u8_at, u16_at, u32_at};
use crate::{Error, MacAddr, icmpv6::kind};
use core::net::Ipv6Addr;

/// The hop limit that neighbour discovery must have: no router let it in (RFC 4861 section 3.1).
pub const HOP_LIMIT: u8 = 255;

/// Where the fields are, from the start of the body.
mod at {
    pub const FLAGS: usize = 0;
    pub const TARGET: usize = 4;
    pub const NEIGHBOUR_OPTIONS: usize = 20;
    pub const SOLICIT_OPTIONS: usize = 4;
    pub const HOP_LIMIT: usize = 0;
    pub const ROUTER_FLAGS: usize = 1;
    pub const LIFETIME: usize = 2;
    pub const REACHABLE: usize = 4;
    pub const RETRANS: usize = 8;
    pub const ADVERT_OPTIONS: usize = 12;
}

mod option {
    pub const SOURCE_MAC: u8 = 1;
    pub const TARGET_MAC: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const MTU: u8 = 5;
    pub const MAC_LEN: usize = 8;
    pub const PREFIX_LEN: usize = 32;
    pub const MTU_LEN: usize = 8;
}

/// A prefix that a router advertises (section 4.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// The prefix; bits beyond `len` mean nothing.
    pub prefix: Ipv6Addr,
    /// Bits of the prefix.
    pub len: u8,
    /// Whether its addresses are on the link.
    pub on_link: bool,
    /// Whether hosts may make addresses of it.
    pub autonomous: bool,
    /// Seconds for which it is on the link; `u32::MAX` is forever.
    pub valid_s: u32,
    /// Seconds for which addresses made of it are preferred.
    pub preferred_s: u32,
}

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NdOption<'a> {
    /// The sender's Ethernet address.
    SourceMac(MacAddr),
    /// The target's Ethernet address.
    TargetMac(MacAddr),
    /// A prefix.
    Prefix(Prefix),
    /// The link's MTU in bytes.
    Mtu(u32),
    /// Any other kind, with what follows kind and length.
    Other(u8, &'a [u8]),
}

/// The options of a message, one at a time. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes of options.
    pub const fn new(options: &'a [u8]) -> Self {
        Options { rest: options }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<NdOption<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (kind, len) = (u8_at(self.rest, 0), usize::from(u8_at(self.rest, 1)) * 8);
        // A length of zero would loop for ever; the whole message must be dropped (section 4.6).
        if len == 0 || len > self.rest.len() {
            self.rest = &[];
            return Some(Err(Error::Malformed));
        }
        let (option, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(Ok(match (kind, len) {
            (option::SOURCE_MAC, option::MAC_LEN) => NdOption::SourceMac(MacAddr(array(option, 2))),
            (option::TARGET_MAC, option::MAC_LEN) => NdOption::TargetMac(MacAddr(array(option, 2))),
            (option::PREFIX, option::PREFIX_LEN) => NdOption::Prefix(Prefix {
                len: u8_at(option, 2),
                on_link: u8_at(option, 3) & 0x80 != 0,
                autonomous: u8_at(option, 3) & 0x40 != 0,
                valid_s: u32_at(option, 4),
                preferred_s: u32_at(option, 8),
                prefix: Ipv6Addr::from(array::<16>(option, 16)),
            }),
            (option::MTU, option::MTU_LEN) => NdOption::Mtu(u32_at(option, 4)),
            _ => NdOption::Other(kind, slice(option, 2, len)),
        }))
    }
}

/// A neighbour discovery message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repr {
    /// Routers, speak up.
    RouterSolicit {
        /// The sender's Ethernet address.
        source_mac: Option<MacAddr>,
    },
    /// Here is a router.
    RouterAdvert {
        /// The hop limit that hosts should use; zero says nothing.
        hop_limit: u8,
        /// Addresses come from DHCPv6.
        managed: bool,
        /// Other configuration comes from DHCPv6.
        other_config: bool,
        /// Seconds for which the sender is a default router; zero: it is none.
        lifetime_s: u16,
        /// Milliseconds for which a neighbour counts as reachable; zero says nothing.
        reachable_ms: u32,
        /// Milliseconds between solicitations; zero says nothing.
        retrans_ms: u32,
        /// The sender's Ethernet address.
        source_mac: Option<MacAddr>,
        /// The link's MTU in bytes.
        mtu: Option<u32>,
        /// The first prefix; [`Options`] has them all.
        prefix: Option<Prefix>,
    },
    /// Who has `target`?
    NeighbourSolicit {
        /// The address asked for.
        target: Ipv6Addr,
        /// The sender's Ethernet address.
        source_mac: Option<MacAddr>,
    },
    /// `target` is here.
    NeighbourAdvert {
        /// The sender is a router.
        router: bool,
        /// The answer to a solicitation.
        solicited: bool,
        /// Replaces what the receiver knew.
        override_known: bool,
        /// The address that is here.
        target: Ipv6Addr,
        /// Its Ethernet address.
        target_mac: Option<MacAddr>,
    },
}

impl Repr {
    /// Reads the body of an ICMPv6 message of type `kind`. `Malformed` for a multicast target (sections 7.1.1, 7.1.2) and
    /// for an option of length zero; options that a message does not use are skipped.
    pub fn parse(kind: u8, body: &[u8]) -> Result<Repr, Error> {
        let options_at = match kind {
            kind::ROUTER_SOLICIT => at::SOLICIT_OPTIONS,
            kind::ROUTER_ADVERT => at::ADVERT_OPTIONS,
            kind::NEIGHBOUR_SOLICIT | kind::NEIGHBOUR_ADVERT => at::NEIGHBOUR_OPTIONS,
            _ => return Err(Error::Unsupported),
        };
        let options = body.get(options_at..).ok_or(Error::Truncated)?;
        let (mut source, mut target_mac, mut link_mtu, mut first_prefix) = (None, None, None, None);
        for option in Options::new(options) {
            match option? {
                NdOption::SourceMac(mac) => source = source.or(Some(mac)),
                NdOption::TargetMac(mac) => target_mac = target_mac.or(Some(mac)),
                NdOption::Mtu(bytes) => link_mtu = link_mtu.or(Some(bytes)),
                NdOption::Prefix(prefix) => first_prefix = first_prefix.or(Some(prefix)),
                NdOption::Other(..) => {}
            }
        }
        let target = Ipv6Addr::from(array::<16>(body, at::TARGET));
        match kind {
            kind::ROUTER_SOLICIT => Ok(Repr::RouterSolicit { source_mac: source }),
            kind::ROUTER_ADVERT => Ok(Repr::RouterAdvert {
                hop_limit: u8_at(body, at::HOP_LIMIT),
                managed: u8_at(body, at::ROUTER_FLAGS) & 0x80 != 0,
                other_config: u8_at(body, at::ROUTER_FLAGS) & 0x40 != 0,
                lifetime_s: u16_at(body, at::LIFETIME),
                reachable_ms: u32_at(body, at::REACHABLE),
                retrans_ms: u32_at(body, at::RETRANS),
                source_mac: source,
                mtu: link_mtu,
                prefix: first_prefix,
            }),
            _ if target.is_multicast() => Err(Error::Malformed),
            kind::NEIGHBOUR_SOLICIT => Ok(Repr::NeighbourSolicit { target, source_mac: source }),
            _ => {
                let flags = u8_at(body, at::FLAGS);
                Ok(Repr::NeighbourAdvert {
                    router: flags & 0x80 != 0,
                    solicited: flags & 0x40 != 0,
                    override_known: flags & 0x20 != 0,
                    target,
                    target_mac,
                })
            }
        }
    }

    /// The ICMPv6 type of the message.
    pub const fn kind(&self) -> u8 {
        match self {
            Repr::RouterSolicit { .. } => kind::ROUTER_SOLICIT,
            Repr::RouterAdvert { .. } => kind::ROUTER_ADVERT,
            Repr::NeighbourSolicit { .. } => kind::NEIGHBOUR_SOLICIT,
            Repr::NeighbourAdvert { .. } => kind::NEIGHBOUR_ADVERT,
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn body_len(&self) -> usize {
        const fn mac_len(mac: &Option<MacAddr>) -> usize {
            if mac.is_some() { option::MAC_LEN } else { 0 }
        }
        match self {
            Repr::RouterSolicit { source_mac } => at::SOLICIT_OPTIONS + mac_len(source_mac),
            Repr::RouterAdvert { source_mac, mtu, prefix, .. } => {
                at::ADVERT_OPTIONS
                    + mac_len(source_mac)
                    + if mtu.is_some() { option::MTU_LEN } else { 0 }
                    + if prefix.is_some() { option::PREFIX_LEN } else { 0 }
            }
            Repr::NeighbourSolicit { source_mac: mac, .. }
            | Repr::NeighbourAdvert { target_mac: mac, .. } => at::NEIGHBOUR_OPTIONS + mac_len(mac),
        }
    }

    /// Writes the body; `body` holds at least [`body_len`](Self::body_len) bytes.
    pub fn emit(&self, body: &mut [u8]) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        match *self {
            Repr::RouterSolicit { source_mac } => {
                put(body, 0, [0; 4]);
                emit_mac(body, at::SOLICIT_OPTIONS, option::SOURCE_MAC, source_mac);
            }
            Repr::RouterAdvert {
                hop_limit,
                managed,
                other_config,
                lifetime_s,
                reachable_ms,
                retrans_ms,
                source_mac,
                mtu,
                prefix,
            } => {
                put(body, at::HOP_LIMIT, [hop_limit, flag(managed, 0x80) | flag(other_config, 0x40)]);
                put(body, at::LIFETIME, lifetime_s.to_be_bytes());
                put(body, at::REACHABLE, reachable_ms.to_be_bytes());
                put(body, at::RETRANS, retrans_ms.to_be_bytes());
                let mut end = emit_mac(body, at::ADVERT_OPTIONS, option::SOURCE_MAC, source_mac);
                if let Some(bytes) = mtu {
                    put(body, end, [option::MTU, 1, 0, 0]);
                    put(body, end + 4, bytes.to_be_bytes());
                    end += option::MTU_LEN;
                }
                if let Some(prefix) = prefix {
                    let flags = flag(prefix.on_link, 0x80) | flag(prefix.autonomous, 0x40);
                    put(body, end, [option::PREFIX, 4, prefix.len, flags]);
                    put(body, end + 4, prefix.valid_s.to_be_bytes());
                    put(body, end + 8, prefix.preferred_s.to_be_bytes());
                    put(body, end + 12, [0; 4]);
                    put_slice(body, end + 16, &prefix.prefix.octets());
                }
            }
            Repr::NeighbourSolicit { target, source_mac } => {
                put(body, 0, [0; 4]);
                put(body, at::TARGET, target.octets());
                emit_mac(body, at::NEIGHBOUR_OPTIONS, option::SOURCE_MAC, source_mac);
            }
            Repr::NeighbourAdvert { router, solicited, override_known, target, target_mac } => {
                let flags = flag(router, 0x80) | flag(solicited, 0x40) | flag(override_known, 0x20);
                put(body, at::FLAGS, [flags, 0, 0, 0]);
                put(body, at::TARGET, target.octets());
                emit_mac(body, at::NEIGHBOUR_OPTIONS, option::TARGET_MAC, target_mac);
            }
        }
    }
}

/// Writes a link-layer address option where there is an address, and says where the next option goes.
fn emit_mac(body: &mut [u8], at: usize, kind: u8, mac: Option<MacAddr>) -> usize {
    let Some(mac) = mac else { return at };
    put(body, at, [kind, 1]);
    put(body, at + 2, mac.0);
    at + option::MAC_LEN
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const TARGET: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
    const SOLICIT: [u8; 28] =
        [0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1, 1, 2, 0, 0, 0, 0, 9];
    const ADVERT: [u8; 28] =
        [0x60, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 2, 1, 2, 0, 0, 0, 0, 9];

    fn emitted(repr: Repr) -> vec::Vec<u8> {
        let mut body = vec![0xa5; repr.body_len()];
        repr.emit(&mut body);
        body
    }

    #[test]
    fn solicitations_and_advertisements_by_the_byte() {
        let solicit = Repr::NeighbourSolicit { target: TARGET, source_mac: Some(MAC) };
        assert_eq!(Repr::parse(kind::NEIGHBOUR_SOLICIT, &SOLICIT), Ok(solicit));
        assert_eq!(emitted(solicit), SOLICIT);
        let advert = Repr::NeighbourAdvert {
            router: false,
            solicited: true,
            override_known: true,
            target: TARGET,
            target_mac: Some(MAC),
        };
        assert_eq!(Repr::parse(kind::NEIGHBOUR_ADVERT, &ADVERT), Ok(advert));
        assert_eq!(emitted(advert), ADVERT);
    }

    #[test]
    fn a_router_advertisement_by_the_byte() {
        let repr = Repr::RouterAdvert {
            hop_limit: 64,
            managed: false,
            other_config: true,
            lifetime_s: 1800,
            reachable_ms: 0,
            retrans_ms: 1000,
            source_mac: Some(MAC),
            mtu: Some(1500),
            prefix: Some(Prefix {
                prefix: Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0),
                len: 64,
                on_link: true,
                autonomous: true,
                valid_s: 86_400,
                preferred_s: u32::MAX,
            }),
        };
        let bytes = [
            64, 0x40, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0x03, 0xe8, // fixed part
            1, 1, 2, 0, 0, 0, 0, 9, // source
            5, 1, 0, 0, 0, 0, 0x05, 0xdc, // MTU
            3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8, 0, 0,
            0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(emitted(repr), bytes);
        assert_eq!(Repr::parse(kind::ROUTER_ADVERT, &bytes), Ok(repr));
    }

    #[test]
    fn hostile_bodies_are_refused() {
        let mut body = SOLICIT;
        body[21] = 0;
        assert_eq!(Repr::parse(kind::NEIGHBOUR_SOLICIT, &body), Err(Error::Malformed));
        body[21] = 2;
        assert_eq!(Repr::parse(kind::NEIGHBOUR_SOLICIT, &body), Err(Error::Malformed));
        let mut body = SOLICIT;
        body[4] = 0xff;
        assert_eq!(Repr::parse(kind::NEIGHBOUR_SOLICIT, &body), Err(Error::Malformed));
        assert_eq!(Repr::parse(kind::NEIGHBOUR_SOLICIT, &SOLICIT[..19]), Err(Error::Truncated));
        assert_eq!(Repr::parse(kind::NEIGHBOUR_SOLICIT, &SOLICIT[..21]), Err(Error::Malformed));
        assert_eq!(Repr::parse(kind::REDIRECT, &SOLICIT), Err(Error::Unsupported));
    }

    #[test]
    fn unknown_options_are_skipped() {
        let mut body = vec![0u8; 20];
        body[4] = 0xfe;
        body.extend([14, 1, 1, 2, 3, 4, 5, 6]); // a nonce
        body.extend(&SOLICIT[20..]);
        let Ok(Repr::NeighbourSolicit { source_mac, .. }) = Repr::parse(kind::NEIGHBOUR_SOLICIT, &body)
        else {
            panic!()
        };
        assert_eq!(source_mac, Some(MAC));
    }

    proptest! {
        #[test]
        fn parse_emit(
            which in 0u8..4, bits: [bool; 3], target in 0u128..0xff << 120, mac: Option<[u8; 6]>,
            numbers: (u8, u16, u32, u32), mtu: Option<u32>,
            prefix: Option<(u128, u8, bool, bool, u32, u32)>,
        ) {
            let mac = mac.map(MacAddr);
            let target = target.into();
            let repr = match which {
                0 => Repr::RouterSolicit { source_mac: mac },
                1 => Repr::RouterAdvert {
                    hop_limit: numbers.0, managed: bits[0], other_config: bits[1], lifetime_s: numbers.1,
                    reachable_ms: numbers.2, retrans_ms: numbers.3, source_mac: mac, mtu,
                    prefix: prefix.map(|(p, len, on_link, autonomous, valid_s, preferred_s)| Prefix {
                        prefix: p.into(), len, on_link, autonomous, valid_s, preferred_s,
                    }),
                },
                2 => Repr::NeighbourSolicit { target, source_mac: mac },
                _ => Repr::NeighbourAdvert {
                    router: bits[0], solicited: bits[1], override_known: bits[2], target, target_mac: mac,
                },
            };
            prop_assert_eq!(Repr::parse(repr.kind(), &emitted(repr)), Ok(repr));
        }
    }
}
