//! Receive side scaling: which queue of a card a packet will come in on.
//!
//! A card hashes addresses and UDP ports (Toeplitz) and looks the queue up in a table. Who opens a flow chooses its own UDP port, so
//! the answers come in on a queue of its choice. Source: Microsoft, "RSS hashing types" and "Verifying the RSS hash calculation"; the
//! kernel's `Documentation/networking/scaling.rst`.

use crate::interface::{Ask, ETHTOOL_GRXFH};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// `ETH_RSS_HASH_TOP` (`linux/ethtool_netlink.h`, `enum ethtool_rss_hash_func`).
const TOEPLITZ: u8 = 1;
/// `UDP_V4_FLOW`, `UDP_V6_FLOW` (`linux/ethtool.h`).
const UDP_FLOWS: [u32; 2] = [0x02, 0x06];
/// `RXH_IP_SRC | RXH_IP_DST | RXH_L4_B_0_1 | RXH_L4_B_2_3`.
const ALL_FIELDS: u64 = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;
/// The longest hashed input: two IPv6 addresses, two ports.
const INPUT_MAX: usize = 36;

/// How a card chooses the queue of a UDP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rss {
    key: Vec<u8>,
    table: Vec<u32>,
    /// Whether ports are hashed: over IPv4, over IPv6.
    hashes_ports: [bool; 2],
}

impl Rss {
    /// What the driver of `interface` says, in the caller's network namespace. `None`: it does not say, or hashes in another way than
    /// Toeplitz, or no UDP ports (as many cards do until told: `ethtool -N eth0 rx-flow-hash udp4 sdfn`).
    pub fn of(interface: &str) -> Option<Rss> {
        if interface.len() >= libc::IFNAMSIZ {
            return None;
        }
        let ask = Ask::new(interface).ok()?;
        let (table, key, function) = ask.rss()?;
        let rss = Rss {
            key,
            table,
            hashes_ports: UDP_FLOWS
                .map(|flow| ask.flow_hash(flow).is_ok_and(|f| f & ALL_FIELDS == ALL_FIELDS)),
        };
        (function == TOEPLITZ && rss.hashes_ports.contains(&true)).then_some(rss)
    }

    /// From a hash key and a table of queues, for cards that hash UDP ports. `None` for a key that is shorter than the hash needs, or an
    /// empty table.
    pub fn new(key: Vec<u8>, table: Vec<u32>) -> Option<Rss> {
        (key.len() >= INPUT_MAX + 4 && !table.is_empty()).then_some(Rss {
            key,
            table,
            hashes_ports: [true; 2],
        })
    }

    /// The same, for cards that hash UDP ports over one version of IP only: over IPv4, over IPv6. `None`: over neither.
    pub fn hashing_ports(self, hashes_ports: [bool; 2]) -> Option<Rss> {
        hashes_ports.contains(&true).then_some(Rss { hashes_ports, ..self })
    }

    /// The queue on which packets from `src` to `dst` come in; `None` where the card does not hash their ports.
    pub fn queue(&self, src: SocketAddr, dst: SocketAddr) -> Option<u32> {
        if !self.hashes_ports[usize::from(src.is_ipv6())] {
            return None;
        }
        let mut input = [0; INPUT_MAX];
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            input[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        match (src.ip(), dst.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => [a, b].iter().for_each(|ip| put(&ip.octets())),
            (IpAddr::V6(a), IpAddr::V6(b)) => [a, b].iter().for_each(|ip| put(&ip.octets())),
            _ => return None,
        }
        [src, dst].iter().for_each(|end| put(&end.port().to_be_bytes()));
        let hash = toeplitz(&self.key, &input[..len])?;
        self.table.get(hash as usize % self.table.len()).copied()
    }
}

/// The Toeplitz hash. `None` when the key is too short for the input.
fn toeplitz(key: &[u8], input: &[u8]) -> Option<u32> {
    if key.len() < input.len() + 4 {
        return None;
    }
    let mut hash = 0;
    for (i, byte) in input.iter().enumerate() {
        // Five bytes of key: the 32 bits under each of the eight bits.
        let window = key[i..i + 4].iter().fold(0u64, |w, b| w << 8 | u64::from(*b)) << 8
            | u64::from(key.get(i + 4).copied().unwrap_or(0));
        for bit in 0..8 {
            if byte & 0x80 >> bit != 0 {
                hash ^= (window >> (8 - bit)) as u32;
            }
        }
    }
    Some(hash)
}

impl Ask {
    /// `struct ethtool_rxnfc` has the flow's type in word 1 and the hashed fields in words 2 and 3.
    fn flow_hash(&self, flow: u32) -> io::Result<u64> {
        let mut words = [0u32; 64];
        (words[0], words[1]) = (ETHTOOL_GRXFH, flow);
        self.ethtool_words(&mut words)?;
        let bytes = [words[2].to_ne_bytes(), words[3].to_ne_bytes()].concat();
        Ok(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the flows of Microsoft's verification suite.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (src, dst, hash) in [
            ("66.9.149.187:2794", "161.142.100.80:1766", 0x51cc_c178_u32),
            ("199.92.111.2:14230", "65.69.140.83:4739", 0xc626_b0ea),
            ("[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x4020_7d3d),
        ] {
            // A table with one entry more than there are 16-bit values tells the whole hash in two steps.
            for size in [128, 65_537] {
                let rss = Rss::new(KEY.to_vec(), (0..size).collect()).unwrap();
                assert_eq!(rss.queue(at(src), at(dst)), Some(hash % size), "{src} to {dst}");
            }
        }
    }

    #[test]
    fn ports_spread_over_all_queues() {
        let rss = Rss::new(KEY.to_vec(), (0..128).map(|i| i % 4).collect()).unwrap();
        let server: SocketAddr = "10.0.0.2:900".parse().unwrap();
        let mut counts = [0; 4];
        for port in 32768..33768 {
            let queue = rss.queue(server, SocketAddr::from(([10, 0, 0, 1], port))).unwrap();
            counts[queue as usize] += 1;
        }
        assert!(counts.iter().all(|n| (200..300).contains(n)), "{counts:?}");
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        assert_eq!(Rss::new(KEY[..39].to_vec(), vec![0]), None);
        assert_eq!(Rss::new(KEY.to_vec(), vec![]), None);
        assert_eq!(Rss::of("lo"), None);
        assert_eq!(Rss::of("no-such-interface-at-all"), None);
        let rss = Rss::new(KEY.to_vec(), vec![0, 1]).unwrap();
        let (v4, v6) = ("10.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
        assert_eq!(rss.queue(v4, v6), None);
        assert_eq!(rss.clone().hashing_ports([false, false]), None);
        let addresses_only = rss.hashing_ports([false, true]).unwrap();
        assert_eq!(addresses_only.queue(v4, v4), None);
    }
}
