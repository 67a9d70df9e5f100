//! Randomness for handshakes, from one seed, in a way that what was drawn before cannot be found from what is kept.

use ring::digest::{SHA256, digest};
use zeroize::{Zeroize, Zeroizing};

/// A generator that replaces its state with every draw, by a function that cannot be turned around.
pub(crate) struct HandshakeRng(Zeroizing<[u8; 32]>);

fn derive(what: &[u8], from: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut input = Zeroizing::new([0; 64]);
    input[..what.len()].copy_from_slice(what);
    input[32..].copy_from_slice(from);
    let mut out = Zeroizing::new([0; 32]);
    out.copy_from_slice(digest(&SHA256, &*input).as_ref());
    out
}

impl HandshakeRng {
    /// Takes the endpoint's secret apart: one for connection ids and cookies, and a generator. Neither tells of the other.
    pub(crate) fn split(mut secret: [u8; 32]) -> ([u8; 32], HandshakeRng) {
        let ids = *derive(b"barewire ids", &secret);
        let draw = HandshakeRng(derive(b"barewire handshakes", &secret));
        secret.zeroize();
        (ids, draw)
    }

    /// 32 bytes.
    pub(crate) fn next(&mut self) -> Zeroizing<[u8; 32]> {
        let out = derive(b"barewire out", &self.0);
        self.0 = derive(b"barewire next", &self.0);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_replay_from_their_seed() {
        let ((ids, mut a), (_, mut b)) = (HandshakeRng::split([7; 32]), HandshakeRng::split([7; 32]));
        let first = a.next();
        assert_eq!(*first, *b.next());
        assert_ne!(*first, *a.next());
        assert_ne!(ids, *first);
        assert_ne!(HandshakeRng::split([8; 32]).0, ids);
    }
}
