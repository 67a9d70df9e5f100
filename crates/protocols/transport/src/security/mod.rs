//! Who is there, and who can read it: keys, trusted peers, the handshake, and what seals each packet.
//!
//! What flows through: [`Security`] says which peers are trusted (`Security::way_to` for a client, `Security::admits` for a server);
//! [`noise`] runs Noise IK or XX inside INIT, ACCEPT and CONFIRM, and ends in two secrets; [`packet`] seals and opens every packet
//! of the flow with keys from these; [`guard`] keeps both for one flow and wipes them when it ends. [`steps`] is what the endpoint
//! does at each packet of a handshake.
//!
//! Randomness is handed in: the endpoint's secret seeds a generator that forgets what it has given out (`draw`).

mod draw;
pub(crate) mod guard;
mod keys;
pub(crate) mod noise;
pub(crate) mod packet;
mod steps;

pub(crate) use draw::Draw;
pub use keys::{KeyError, PrivateKey, PublicKey};
pub use packet::Cipher;
pub(crate) use steps::Ration;

use std::net::IpAddr;

/// Log2 of the packets after which a key is replaced: well below what AES-128-GCM bears (RFC 9001, 6.6: 2^23).
pub const REKEY_DEFAULT: u8 = 22;
/// Least and most of it. The least is the anti-replay window: packets in it need at most three keys.
pub const REKEY_MIN: u8 = packet::WINDOW_BITS;
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
        let (a, b, bits) = match (self.address.to_canonical(), ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        let host_bits = bits - u32::from(self.prefix).min(bits);
        (a ^ b).checked_shr(host_bits).unwrap_or(0) == 0
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Network {
        Network { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }
}

/// A peer that is trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// What people call it.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// Where it may be. Flows to and from these addresses are encrypted, whatever [`Security::require`] says. Empty: anywhere.
    pub addresses: Vec<Network>,
}

/// Number of a peer in [`Security::peers`].
pub(crate) type PeerNumber = u16;
/// The number that stands for this host itself.
pub(crate) const SELF: PeerNumber = u16::MAX;
/// Most trusted peers.
pub const PEERS_MAX: usize = 4096;

/// Keys and trust of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Security {
    key: PrivateKey,
    public: PublicKey,
    peers: Vec<Peer>,
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
pub(crate) enum Way {
    Plain,
    /// To the one peer whose key is known.
    Known(PeerNumber),
    /// To any peer that is trusted there.
    Any,
}

impl Security {
    /// Encryption by this key, with nobody trusted yet.
    pub fn new(key: PrivateKey) -> Security {
        let public = key.public();
        Security {
            own: Peer { name: "self".to_owned(), key: public, addresses: Vec::new() },
            public,
            key,
            peers: Vec::new(),
            require: true,
            ciphers: Cipher::best_first(),
            rekey: REKEY_DEFAULT,
            handshakes_per_second: 1000,
        }
    }

    /// Trusts one more peer. False: there are [`PEERS_MAX`], or one with this key.
    pub fn trust(&mut self, peer: Peer) -> bool {
        let new = self.peers.len() < PEERS_MAX && self.peers.iter().all(|p| p.key != peer.key);
        if new {
            self.peers.push(peer);
        }
        new
    }

    /// Our public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Who is trusted.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    pub(crate) fn private(&self) -> &PrivateKey {
        &self.key
    }

    /// How a flow to `remote` is to be made.
    pub(crate) fn way_to(&self, local: IpAddr, remote: IpAddr) -> Way {
        if local == remote {
            // Whatever network a peer may be in: this is us.
            return if self.require { Way::Known(SELF) } else { Way::Plain };
        }
        let mut at =
            self.peers.iter().enumerate().filter(|(_, p)| p.addresses.iter().any(|a| a.contains(remote)));
        match (at.next(), at.next()) {
            (Some((n, _)), None) => Way::Known(n as PeerNumber),
            (Some(_), Some(_)) => Way::Any,
            (None, _) if self.require => Way::Any,
            (None, _) => Way::Plain,
        }
    }

    /// The peer with this key, if it may be at `remote`. Looks at every one: the time does not tell which.
    pub(crate) fn admits(&self, key: &PublicKey, local: IpAddr, remote: IpAddr) -> Option<PeerNumber> {
        let mut found = (*key == self.public && local == remote).then_some(SELF);
        for (n, peer) in self.peers.iter().enumerate() {
            let here = peer.addresses.is_empty() || peer.addresses.iter().any(|a| a.contains(remote));
            if (peer.key == *key) & here {
                found = Some(n as PeerNumber);
            }
        }
        found
    }

    /// The peer with this number.
    pub(crate) fn peer(&self, number: PeerNumber) -> &Peer {
        self.peers.get(usize::from(number)).unwrap_or(&self.own)
    }

    pub(crate) fn key_of(&self, number: PeerNumber) -> &PublicKey {
        &self.peer(number).key
    }

    /// Whether some trusted peer is expected at this address.
    pub(crate) fn expects(&self, local: IpAddr, remote: IpAddr) -> bool {
        local == remote || self.peers.iter().any(|p| p.addresses.iter().any(|a| a.contains(remote)))
    }

    /// Whether these are values that an endpoint can work with.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.ciphers.is_empty() {
            return Err("at least one cipher");
        }
        if !noise::is_rekey(self.rekey) {
            return Err("rekey must be from 10 to 23");
        }
        if self.handshakes_per_second == 0 {
            return Err("handshakes_per_second must be above zero");
        }
        Ok(())
    }

    /// Whether a plain flow from `remote` is refused.
    pub(crate) fn refuses_plain(&self, local: IpAddr, remote: IpAddr) -> bool {
        self.require || self.way_to(local, remote) != Way::Plain
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
            assert_eq!(s.way_to(us, ip("10.0.0.2")), Way::Known(0));
            assert_eq!(s.way_to(us, ip("10.0.0.3")), Way::Any, "one of two");
            let elsewhere = if require { Way::Any } else { Way::Plain };
            assert_eq!(s.way_to(us, ip("10.0.1.3")), elsewhere);
            let own = if require { Way::Known(SELF) } else { Way::Plain };
            assert_eq!(s.way_to(us, us), own, "also where a peer's network has our address");
            assert!(s.refuses_plain(us, ip("10.0.0.2")));
            assert_eq!(s.refuses_plain(us, ip("10.0.1.3")), require);
        }
        assert_eq!(s.admits(&key(2), us, ip("10.0.0.77")), Some(0));
        assert_eq!(s.admits(&key(2), us, ip("10.0.1.77")), None);
        assert_eq!(s.admits(&key(4), us, ip("10.0.1.77")), Some(2));
        assert_eq!(s.admits(&key(9), us, ip("10.0.0.2")), None);
        assert_eq!((s.admits(&key(1), us, us), s.admits(&key(1), us, ip("10.0.0.2"))), (Some(SELF), None));
    }
}
