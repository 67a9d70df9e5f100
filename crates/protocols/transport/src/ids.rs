//! Unguessable numbers: connection ids, first segment numbers, cookies.
//!
//! One 256-bit secret, drawn from the operating system by whoever builds the endpoint (or from a seed in a simulation),
//! keys SipHash-2-4 as a pseudo-random function. Ids are its outputs over a counter, cookies over the claim they
//! vouch for. The secret is never printed.

use barewire_base::{Duration, Instant};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

/// How long a cookie stays good, at least; twice that at most.
const COOKIE_EPOCH: Duration = Duration::from_secs(4);

/// Bits of a connection id that name the flow's slot: ids are looked up by index, not by hash.
pub(crate) const SLOT_BITS: u32 = 20;
/// Bits that name the engine that owns the flow, so that a frame at the wrong engine finds the right one.
pub(crate) const ENGINE_BITS: u32 = 4;

/// The engine that a connection id belongs to.
pub(crate) fn engine_of(cid: u64) -> u8 {
    ((cid >> SLOT_BITS) & ((1 << ENGINE_BITS) - 1)) as u8
}

/// The slot that a connection id belongs to.
pub(crate) fn slot_of(cid: u64) -> u32 {
    (cid & ((1 << SLOT_BITS) - 1)) as u32
}

/// Bits of the first number of a flow that are random. With the slot's it stays below 2^53, which every language's numbers hold, for
/// thousands of millions of flows.
const GENERATION_RANDOM_BITS: u32 = 31;

pub(crate) struct Ids {
    draw: [u8; 16],
    cookie: [u8; 16],
    counter: u64,
}

impl Ids {
    pub(crate) fn new(secret: [u8; 32]) -> Ids {
        let (mut draw, mut cookie) = ([0; 16], [0; 16]);
        draw.copy_from_slice(&secret[..16]);
        cookie.copy_from_slice(&secret[16..]);
        Ids { draw, cookie, counter: 0 }
    }

    /// Where the numbers of flows begin: not where those of the last endpoint on this host did, so that none of its names a flow of this
    /// one.
    pub(crate) fn first_generation(&self) -> u64 {
        let mut h = SipHasher24::new_with_key(&self.draw);
        h.write_u64(0);
        h.finish() >> (64 - GENERATION_RANDOM_BITS)
    }

    /// The next number that nobody outside can predict.
    pub(crate) fn draw(&mut self) -> u64 {
        self.counter += 1;
        let mut h = SipHasher24::new_with_key(&self.draw);
        h.write_u64(self.counter);
        h.finish()
    }

    /// A fresh connection id for `slot` of engine `engine`: 40 random bits above the place, never zero.
    pub(crate) fn cid(&mut self, slot: u32, engine: u8) -> u64 {
        let place = u64::from(slot) | (u64::from(engine) << SLOT_BITS);
        loop {
            let cid = (self.draw() << (SLOT_BITS + ENGINE_BITS)) | place;
            if cid >> (SLOT_BITS + ENGINE_BITS) != 0 {
                return cid;
            }
        }
    }

    fn cookie_at(&self, epoch: u64, peer: SocketAddr, local_udp_port: u16, cid: u64) -> [u8; 16] {
        let mut h = SipHasher128::new_with_key(&self.cookie);
        h.write_u64(epoch);
        match peer.ip() {
            IpAddr::V4(ip) => h.write(&ip.octets()),
            IpAddr::V6(ip) => h.write(&ip.octets()),
        }
        h.write_u16(peer.port());
        h.write_u16(local_udp_port);
        h.write_u64(cid);
        h.finish128().as_bytes()
    }

    /// The cookie that this peer has to bring back.
    pub(crate) fn cookie(&self, now: Instant, peer: SocketAddr, local_udp_port: u16, cid: u64) -> [u8; 16] {
        self.cookie_at(now.as_nanos() / COOKIE_EPOCH.as_nanos(), peer, local_udp_port, cid)
    }

    /// Whether `cookie` is one that we gave this peer lately.
    pub(crate) fn cookie_is_good(
        &self,
        now: Instant,
        peer: SocketAddr,
        local_udp_port: u16,
        cid: u64,
        cookie: &[u8; 16],
    ) -> bool {
        let epoch = now.as_nanos() / COOKIE_EPOCH.as_nanos();
        let same = |e: u64| {
            // Every byte is looked at, so that the time taken does not tell how many matched.
            let want = self.cookie_at(e, peer, local_udp_port, cid);
            want.iter().zip(cookie).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
        };
        same(epoch) || (epoch > 0 && same(epoch - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cid_says_where_it_belongs_and_nothing_else() {
        let mut ids = Ids::new([7; 32]);
        let (a, b) = (ids.cid(12_345, 3), ids.cid(12_345, 3));
        assert_eq!((slot_of(a), engine_of(a)), (12_345, 3));
        assert_ne!(a, b);
    }

    #[test]
    fn a_cookie_is_good_for_its_peer_and_its_time_only() {
        let ids = Ids::new([7; 32]);
        let peer: SocketAddr = "10.0.0.1:1000".parse().unwrap();
        let other: SocketAddr = "10.0.0.2:1000".parse().unwrap();
        let t = Instant::from_nanos(100_000_000_000);
        let c = ids.cookie(t, peer, 888, 42);
        assert!(ids.cookie_is_good(t + Duration::from_secs(4), peer, 888, 42, &c));
        assert!(!ids.cookie_is_good(t + Duration::from_secs(9), peer, 888, 42, &c));
        assert!(!ids.cookie_is_good(t, other, 888, 42, &c));
        assert!(!ids.cookie_is_good(t, peer, 889, 42, &c));
        assert!(!ids.cookie_is_good(t, peer, 888, 43, &c));
        assert!(!Ids::new([8; 32]).cookie_is_good(t, peer, 888, 42, &c));
    }
}
