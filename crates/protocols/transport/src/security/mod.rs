//! Who is there, and who can read it: keys, trusted peers, the handshake, and what seals each packet.
//!
//! What flows through: [`Security`] says which peers are trusted (`Security::way_to` for a client, `Security::admits` for a server);
//! `noise` runs Noise IK or XX inside INIT, ACCEPT and CONFIRM, and ends in two secrets; `packet` seals and opens every packet
//! of the flow with keys from these; `guard` keeps both for one flow and wipes them when it ends. `steps` is what the endpoint
//! does at each packet of a handshake.
//!
//! Randomness is handed in: the endpoint's secret seeds a generator that forgets what it has given out (`draw`).

pub(crate) mod guard;
mod keys;
pub(crate) mod noise;
pub(crate) mod packet;
mod primitives;
mod random;
mod steps;
#[cfg(test)]
mod zeroized;

pub use keys::{KeyError, PrivateKey, PublicKey};
pub use packet::Cipher;
pub(crate) use random::HandshakeRng;
pub(crate) use steps::{Handshakes, Ration};

use std::collections::HashMap;
use std::net::IpAddr;

/// Log2 of the packets after which a key is replaced: well below what AES-128-GCM bears (RFC 9001, 6.6: 2^23).
pub const REKEY_DEFAULT: u8 = 22;
/// Least and most of it. The receiver has the next key and no other: all that can be under way at once, a window of segments in pieces,
/// may be lost, and what comes after it must still be within that key.
pub const REKEY_MIN: u8 = 13;
/// See [`REKEY_MIN`].
pub const REKEY_MAX: u8 = 23;

/// Addresses that share a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// One of them.
    pub address: IpAddr,
    /// Bits that all have in common.
    pub prefix: u8,
}

impl Network {
    /// Whether `ip` is one of them.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ((a_v4, a, len), (b_v4, b, _)) = (bits(self.address), bits(ip));
        a_v4 == b_v4 && masked(a, len, self.prefix) == masked(b, len, self.prefix)
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Network {
        Network { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }
}

/// Which peers are expected where: the longest prefix that holds an address decides, as in a route table. It costs the same however
/// many peers there are, since anybody's INIT makes us look.
#[derive(Clone, Debug, Default, PartialEq)]
struct Places {
    /// The families and prefix lengths in use, longest first.
    lengths: Vec<(bool, u8)>,
    at: HashMap<(bool, u8, u128), Vec<PeerNumber>>,
}

/// Whether it is IPv4, its bits, and how many.
fn bits(ip: IpAddr) -> (bool, u128, u8) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => (true, u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (false, ip.to_bits(), 128),
    }
}

fn masked(address: u128, len: u8, prefix: u8) -> u128 {
    let host_bits = u32::from(len - prefix.min(len));
    address.checked_shr(host_bits).unwrap_or(0)
}

impl Places {
    fn add(&mut self, network: &Network, peer: PeerNumber) {
        let (is_v4, address, len) = bits(network.address);
        let prefix = network.prefix.min(len);
        if let Err(at) = self.lengths.binary_search_by(|l| (prefix, is_v4).cmp(&(l.1, l.0))) {
            self.lengths.insert(at, (is_v4, prefix));
        }
        let peers = self.at.entry((is_v4, prefix, masked(address, len, prefix))).or_default();
        if !peers.contains(&peer) {
            peers.push(peer);
        }
    }

    /// The peers whose network holds `ip`, those with the longest prefix only, and whether that is the address alone.
    fn find(&self, ip: IpAddr) -> (&[PeerNumber], bool) {
        let (is_v4, address, len) = bits(ip);
        let family = self.lengths.iter().filter(|l| l.0 == is_v4);
        for &(_, prefix) in family {
            if let Some(peers) = self.at.get(&(is_v4, prefix, masked(address, len, prefix))) {
                return (peers, prefix == len);
            }
        }
        (&[], false)
    }
}

/// A peer that is trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// What people call it.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// Where it may be. Flows to and from these addresses are encrypted, whatever [`Security::require`] says. Of peers whose
    /// networks hold an address, those with the longest prefix are expected there, and no others. Empty: anywhere but at an
    /// address that another peer has for itself; flows to it are then encrypted only with [`Security::require`].
    pub addresses: Vec<Network>,
}

/// Number of a peer in [`Security::peers`].
pub type PeerNumber = u16;
/// The number that stands for this host itself.
pub(crate) const SELF: PeerNumber = u16::MAX;
/// Most trusted peers.
pub const PEERS_MAX: usize = 4096;

/// Keys and trust of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Security {
    key: PrivateKey,
    peers: Vec<Peer>,
    places: Places,
    /// This host, as its own peer.
    own: Peer,
    /// Take and make no plain flows at all. False: peers without a key are talked to in the clear, except at addresses of
    /// trusted peers.
    pub require: bool,
    /// The ciphers that this machine offers and takes, best first.
    pub ciphers: Vec<Cipher>,
    /// Log2 of the packets after which a key is replaced.
    pub rekey: u8,
    /// Handshakes that a server computes in a second, at most; strangers get half. One takes about 0.2 ms.
    pub handshakes_per_second: u32,
}

/// How to connect to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerKey {
    Plain,
    /// To the one peer whose key is known.
    Known(PeerNumber),
    /// To any peer that is trusted there.
    Any,
}

impl Security {
    /// Encryption by this key, with nobody trusted yet.
    pub fn new(key: PrivateKey) -> Security {
        Security {
            own: Peer { name: "self".to_owned(), key: key.public(), addresses: Vec::new() },
            key,
            peers: Vec::new(),
            places: Places::default(),
            require: true,
            ciphers: Cipher::best_first(),
            rekey: REKEY_DEFAULT,
            handshakes_per_second: 1000,
        }
    }

    /// Trusts one more peer. False: there are [`PEERS_MAX`], or one with this key, or it is our own.
    pub fn trust(&mut self, peer: Peer) -> bool {
        let new = self.peers.len() < PEERS_MAX
            && peer.key != self.own.key
            && self.peers.iter().all(|p| p.key != peer.key);
        if new {
            let number = self.peers.len() as PeerNumber;
            peer.addresses.iter().for_each(|network| self.places.add(network, number));
            self.peers.push(peer);
        }
        new
    }

    /// Trusted peers to which this host makes no encrypted flow, as it takes plain ones and does not know where they are.
    pub fn reached_in_the_clear(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|p| !self.require && p.addresses.is_empty())
    }

    /// Our public key.
    pub fn public(&self) -> &PublicKey {
        &self.own.key
    }

    /// Who is trusted.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    pub(crate) fn private(&self) -> &PrivateKey {
        &self.key
    }

    /// How a flow to `remote` is to be made.
    pub(crate) fn way_to(&self, local: IpAddr, remote: IpAddr) -> PeerKey {
        if local == remote {
            // Whatever network a peer may be in: this is us.
            return if self.require { PeerKey::Known(SELF) } else { PeerKey::Plain };
        }
        match self.places.find(remote).0 {
            [one] => PeerKey::Known(*one),
            [] if !self.require => PeerKey::Plain,
            _ => PeerKey::Any,
        }
    }

    /// The peer with this key, if it may be at `remote`. Compares with every one: the time does not tell which.
    pub(crate) fn admits(&self, key: &PublicKey, local: IpAddr, remote: IpAddr) -> Option<PeerNumber> {
        let (expected, alone) = self.places.find(remote);
        // Whoever has our private key is us, at whichever of our addresses.
        let mut found = (*key == self.own.key && (local == remote || !alone)).then_some(SELF);
        for (n, peer) in self.peers.iter().enumerate() {
            let n = n as PeerNumber;
            let here = if peer.addresses.is_empty() { !alone } else { expected.contains(&n) };
            if (peer.key == *key) & here {
                found = Some(n);
            }
        }
        found
    }

    /// The peer with this number, as events name it; this host itself for a number that no peer has.
    pub fn peer(&self, number: PeerNumber) -> &Peer {
        self.peers.get(usize::from(number)).unwrap_or(&self.own)
    }

    pub(crate) fn key_of(&self, number: PeerNumber) -> &PublicKey {
        &self.peer(number).key
    }

    /// Whether some trusted peer is expected at this address.
    pub(crate) fn expects(&self, local: IpAddr, remote: IpAddr) -> bool {
        local == remote || !self.places.find(remote).0.is_empty()
    }

    /// Whether these are values that an endpoint can work with.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.ciphers.is_empty() {
            return Err("at least one cipher");
        }
        if !noise::is_rekey(self.rekey) {
            return Err("rekey must be from 13 to 23");
        }
        if self.handshakes_per_second == 0 {
            return Err("handshakes_per_second must be above zero");
        }
        Ok(())
    }

    /// Whether a plain flow from `remote` is refused.
    pub(crate) fn refuses_plain(&self, local: IpAddr, remote: IpAddr) -> bool {
        self.way_to(local, remote) != PeerKey::Plain
    }

    /// The bits of our ciphers.
    pub(crate) fn offers(&self) -> u8 {
        self.ciphers.iter().fold(0, |bits, c| bits | c.code())
    }

    /// The best of ours among the `offered`.
    pub(crate) fn choose(&self, offered: u8) -> Option<Cipher> {
        self.ciphers.iter().copied().find(|c| c.code() & offered != 0)
    }
}

/// Something that whoever runs this side may want to read: who was refused, and why. At most a few in a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Who.
    pub remote: std::net::SocketAddr,
    /// Why, as it was counted.
    pub reason: barewire_base::DropReason,
    /// The key that it proved to have, where it came to that.
    pub key: Option<PublicKey>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use barewire_base::DropReason::*;
        let why = match self.reason {
            NoKey => "it wants an encrypted flow, and this side has no key",
            WrongKey => "its handshake is made for another key than ours",
            NotTrusted => "its key is not trusted at that address",
            Downgrade => "it does not encrypt, and this side wants that",
            RateLimited => "more handshakes came than are computed in a second",
            Altered => "its handshake was altered on the way, or made up",
            other => other.as_str(),
        };
        write!(f, "{} refused: {why}", self.remote)?;
        match &self.key {
            Some(key) => write!(f, " (public key {key})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_hold_what_shares_their_prefix() {
        let network = |text, prefix| Network { address: ip(text), prefix };
        assert!(
            network("10.1.2.3", 24).contains(ip("10.1.2.200"))
                && !network("10.1.2.3", 24).contains(ip("10.1.3.3"))
        );
        assert!(
            network("10.1.2.3", 0).contains(ip("99.1.2.3"))
                && !network("10.1.2.3", 0).contains(ip("fd00::1"))
        );
        assert!(
            network("fd00::", 64).contains(ip("fd00::9:8"))
                && !network("fd00::", 64).contains(ip("fd00:1::"))
        );
        assert!(network("::", 0).contains(ip("fd00::1")));
        assert!(
            network("10.1.2.3", 32).contains(ip("::ffff:10.1.2.3")),
            "one address, however it is written"
        );
        assert!(!Network::from(ip("10.1.2.3")).contains(ip("10.1.2.2")));
    }

    #[test]
    fn policy_says_who_is_talked_to_how() {
        let key = |n| PrivateKey::from_bytes([n; 32]).public();
        let mut s = Security::new(PrivateKey::from_bytes([1; 32]));
        let peer = |n, addresses: &[&str]| {
            let network = |a: &&str| match a.split_once('/') {
                Some((a, prefix)) => Network { address: ip(a), prefix: prefix.parse().unwrap() },
                None => ip(a).into(),
            };
            Peer { name: format!("{n}"), key: key(n), addresses: addresses.iter().map(network).collect() }
        };
        assert!(
            s.trust(peer(2, &["10.0.0.0/24"])) && s.trust(peer(3, &["10.0.0.3"])) && s.trust(peer(4, &[]))
        );
        assert!(!s.trust(peer(4, &["10.0.0.9"])), "each key once");
        let us = ip("10.0.0.1");
        for require in [true, false] {
            s.require = require;
            assert_eq!(s.way_to(us, ip("10.0.0.2")), PeerKey::Known(0));
            assert_eq!(s.way_to(us, ip("10.0.0.3")), PeerKey::Known(1), "the longest prefix");
            let elsewhere = if require { PeerKey::Any } else { PeerKey::Plain };
            assert_eq!(s.way_to(us, ip("10.0.1.3")), elsewhere);
            let own = if require { PeerKey::Known(SELF) } else { PeerKey::Plain };
            assert_eq!(s.way_to(us, us), own, "also where a peer's network has our address");
            assert!(s.refuses_plain(us, ip("10.0.0.2")));
            assert_eq!(s.refuses_plain(us, ip("10.0.1.3")), require);
        }
        assert_eq!(s.admits(&key(2), us, ip("10.0.0.77")), Some(0));
        assert_eq!(s.admits(&key(2), us, ip("10.0.1.77")), None);
        assert_eq!(s.admits(&key(4), us, ip("10.0.1.77")), Some(2));
        assert_eq!(s.admits(&key(9), us, ip("10.0.0.2")), None);
        let own = |at| s.admits(&key(1), us, ip(at));
        assert_eq!((own("10.0.0.1"), own("10.0.0.2"), own("10.0.0.3")), (Some(SELF), Some(SELF), None));
        assert_eq!(s.admits(&key(2), us, ip("10.0.0.3")), None, "that address is another's alone");
        assert_eq!(
            (s.admits(&key(3), us, ip("10.0.0.3")), s.admits(&key(4), us, ip("10.0.0.3"))),
            (Some(1), None)
        );
        assert_eq!(s.reached_in_the_clear().map(|p| &p.name[..]).collect::<Vec<_>>(), ["4"]);
        assert!(!s.trust(peer(1, &[])), "not ourselves");
        assert!(s.trust(peer(5, &["10.0.0.0/24"])));
        assert_eq!(s.way_to(us, ip("10.0.0.2")), PeerKey::Any, "one of two");
        assert_eq!(s.way_to(us, ip("10.0.0.3")), PeerKey::Known(1));
        assert_eq!(s.way_to(us, ip("::ffff:10.0.0.3")), PeerKey::Known(1));
        assert!(s.trust(peer(6, &["::/0", "fd00::/8"])));
        assert_eq!(
            (s.way_to(us, ip("fd01::1")), s.way_to(us, ip("99.0.0.1"))),
            (PeerKey::Known(4), PeerKey::Plain)
        );
    }
}
