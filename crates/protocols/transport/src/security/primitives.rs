//! What snow computes with where secrets stay behind: X25519 and the handshake's cipher, in memory that is written over before it is
//! given back. snow's own leave the host's private key there after each handshake.

use curve25519_dalek::MontgomeryPoint;
use snow::Error;
use snow::types::{Cipher, Dh, Random};
use zeroize::Zeroizing;

/// X25519 (RFC 7748).
#[derive(Default)]
pub(super) struct X25519 {
    private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl X25519 {
    pub(super) fn of(private: &[u8; 32]) -> X25519 {
        let mut dh = X25519::default();
        dh.set(private);
        dh
    }

    pub(super) fn public(&self) -> [u8; 32] {
        self.public
    }

    /// What both have in common; all zeros with a `public` that is no usable key.
    pub(super) fn agree(&self, public: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(MontgomeryPoint(*public).mul_clamped(*self.private).to_bytes())
    }

    fn derive(&mut self) {
        self.public = match *self.private == [0; 32] {
            // Nobody's, in the place of one that is to be forgotten.
            true => [0; 32],
            false => MontgomeryPoint::mul_base_clamped(*self.private).to_bytes(),
        };
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        for (to, from) in self.private.iter_mut().zip(private) {
            *to = *from;
        }
        self.derive();
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        rng.try_fill_bytes(&mut *self.private)?;
        self.derive();
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public = public.first_chunk().ok_or(Error::Dh)?;
        out.get_mut(..32).ok_or(Error::Dh)?.copy_from_slice(&*self.agree(public));
        Ok(())
    }
}

/// A cipher whose key is overwritten with it.
pub(super) struct Wiped(pub Box<dyn Cipher>);

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.set(&[0; 32]);
        // Or the compiler might find that nobody reads it any more.
        std::hint::black_box(&mut self.0);
    }
}

impl Cipher for Wiped {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0.set(key);
    }

    fn encrypt(&self, nonce: u64, header: &[u8], text: &[u8], out: &mut [u8]) -> usize {
        self.0.encrypt(nonce, header, text, out)
    }

    fn decrypt(&self, nonce: u64, header: &[u8], text: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        self.0.decrypt(nonce, header, text, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> [u8; 32] {
        let byte = |i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
        std::array::from_fn(byte)
    }

    /// RFC 7748, 6.1.
    #[test]
    fn two_agree_as_in_the_standard() {
        let alice = X25519::of(&hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"));
        let bob = X25519::of(&hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
        assert_eq!(alice.public(), hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
        assert_eq!(bob.public(), hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
        let common = hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        assert_eq!((*alice.agree(&bob.public()), *bob.agree(&alice.public())), (common, common));
        assert_eq!(*alice.agree(&[0; 32]), [0; 32]);
        let mut out = [0; 32];
        alice.dh(&bob.public(), &mut out).unwrap();
        assert_eq!(out, common);
        assert!(alice.dh(&[1; 31], &mut out).is_err());
    }
}
