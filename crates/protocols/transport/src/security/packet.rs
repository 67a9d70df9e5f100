//! What seals and opens packets.
//!
//! Each direction of a flow has a chain of keys of its own. A packet's number is its nonce, and says which key of the chain it
//! takes: the first 2^rekey numbers the first key, and so on. So both ends change keys at the same packet without a word about it,
//! and a repeated segment, being a new packet, has a new number.
//!
//! The number's low half travels in the clear; the receiver completes it from what it has seen. What is in the common header is
//! authenticated, what follows it encrypted as well.

use barewire_base::DropReason;
use barewire_wire::msg::{COMMON_LEN, TAG_LEN, secure};
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use zeroize::Zeroizing;

/// Log2 of the packets behind the latest one of which it is known whether they came.
pub(crate) const WINDOW_BITS: u8 = 10;
const WINDOW: u64 = 1 << WINDOW_BITS;
/// Packets that fail before a flow is ended: the least of what its ciphers bear (RFC 9001, 6.6: 2^36 for ChaCha20-Poly1305).
pub(crate) const FORGERIES_MAX: u64 = 1 << 36;

/// What encrypts the packets of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-128-GCM: fastest where the CPU has instructions for it.
    Aes128Gcm,
    /// ChaCha20-Poly1305: fast without.
    ChaCha20Poly1305,
}

impl Cipher {
    /// Both, the faster one on this CPU first.
    pub fn best_first() -> Vec<Cipher> {
        #[cfg(target_arch = "x86_64")]
        let aes = std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let aes = std::arch::is_aarch64_feature_detected!("aes")
            && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let aes = false;
        let mut both = vec![Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm];
        if aes {
            both.reverse();
        }
        both
    }

    /// The name that `stat` shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "aes-128-gcm",
            Cipher::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Cipher::Aes128Gcm => secure::CIPHER_AES_128_GCM,
            Cipher::ChaCha20Poly1305 => secure::CIPHER_CHACHA20_POLY1305,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Cipher> {
        [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305].into_iter().find(|c| c.code() == code)
    }
}

/// A length for HKDF.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(prk: &Prk, label: &[u8], out: &mut [u8]) {
    let info = [label];
    let done = prk.expand(&info, Len(out.len())).and_then(|okm| okm.fill(out));
    debug_assert!(done.is_ok(), "HKDF gives up to 8160 bytes");
}

type Secret = Zeroizing<[u8; 32]>;

/// The first secret of a direction: bound to everything that both sides said in the handshake.
pub(crate) fn first_secret(transcript: &[u8], from_noise: &[u8; 32]) -> Secret {
    let prk = Salt::new(HKDF_SHA256, transcript).extract(from_noise);
    let mut secret = Secret::default();
    expand(&prk, b"barewire message flow", &mut *secret);
    secret
}

/// One key of a chain.
pub(super) struct Key {
    aead: LessSafeKey,
    iv: [u8; 12],
}

/// Written over, whatever its flow's end is. Copies that the compiler made on the way here, in registers or on the stack, are not found.
impl Drop for Key {
    fn drop(&mut self) {
        self.aead = blank();
        self.iv = [0; 12];
        // Or the compiler might find that nobody reads them any more.
        std::hint::black_box(self);
    }
}

/// The key of all zeros: AES's, whose round keys take the most room.
fn blank() -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[0; 16]).expect("a key as long as its algorithm says"))
}

impl Key {
    pub(super) fn new(cipher: Cipher, bytes: &[u8; 32], iv: [u8; 12]) -> Key {
        let (algorithm, len) = match cipher {
            Cipher::Aes128Gcm => (&AES_128_GCM, 16),
            Cipher::ChaCha20Poly1305 => (&CHACHA20_POLY1305, 32),
        };
        let key = UnboundKey::new(algorithm, &bytes[..len]).expect("a key as long as its algorithm says");
        Key { aead: LessSafeKey::new(key), iv }
    }

    /// In the place of one that is not there yet, or no more.
    fn wiped() -> Key {
        Key { aead: blank(), iv: [0; 12] }
    }

    /// The key that `secret` gives, and puts the next secret in its place.
    fn take(cipher: Cipher, secret: &mut Secret) -> Key {
        let prk = Prk::new_less_safe(HKDF_SHA256, &**secret);
        let (mut bytes, mut iv) = (Secret::default(), [0; 12]);
        expand(&prk, b"barewire key", &mut *bytes);
        expand(&prk, b"barewire iv", &mut iv);
        expand(&prk, b"barewire next", &mut **secret);
        Key::new(cipher, &bytes, iv)
    }

    #[inline]
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (n, b) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *n ^= b;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// One direction out.
pub(crate) struct Sealer {
    key: Key,
    secret: Secret,
    cipher: Cipher,
    rekey: u8,
    /// Number of the next packet.
    next: u64,
}

impl Sealer {
    pub(crate) fn wiped() -> Sealer {
        let cipher = Cipher::ChaCha20Poly1305;
        Sealer { key: Key::wiped(), secret: Secret::default(), cipher, rekey: super::REKEY_DEFAULT, next: 0 }
    }

    pub(crate) fn new(cipher: Cipher, mut secret: Secret, rekey: u8) -> Sealer {
        Sealer { key: Key::take(cipher, &mut secret), secret, cipher, rekey, next: 0 }
    }

    /// Seals a packet whose header and text are written and whose last [`TAG_LEN`] bytes are left for the tag. True: it took a
    /// new key for it.
    #[inline]
    pub(crate) fn seal(&mut self, packet: &mut [u8]) -> bool {
        let number = self.next;
        self.next += 1;
        let updates = number != 0 && number & ((1 << self.rekey) - 1) == 0;
        if updates {
            self.update();
        }
        packet[..4].copy_from_slice(&(number as u32).to_be_bytes());
        let (header, rest) = packet.split_at_mut(COMMON_LEN);
        let (text, room) = rest.split_at_mut(rest.len() - TAG_LEN);
        let tag = self.key.aead.seal_in_place_separate_tag(self.key.nonce(number), Aad::from(&*header), text);
        // It fails for texts of gigabytes only.
        room.copy_from_slice(tag.as_ref().map_or(&[0; TAG_LEN][..], Tag::as_ref));
        updates
    }

    #[cold]
    fn update(&mut self) {
        self.key = Key::take(self.cipher, &mut self.secret);
    }
}

/// One direction in.
pub(crate) struct Opener {
    /// The last key, the one in use, and the next.
    keys: [Key; 3],
    secret: Secret,
    cipher: Cipher,
    rekey: u8,
    /// Which key of the chain is in use.
    epoch: u64,
    /// One past the highest number that came.
    top: u64,
    /// Which of the [`WINDOW`] numbers below `top` came, at the number modulo the window.
    came: [u64; (WINDOW / 64) as usize],
    /// Packets that failed.
    pub forged: u64,
}

impl Opener {
    pub(crate) fn wiped() -> Opener {
        Opener {
            keys: [Key::wiped(), Key::wiped(), Key::wiped()],
            secret: Secret::default(),
            cipher: Cipher::ChaCha20Poly1305,
            rekey: super::REKEY_DEFAULT,
            epoch: 0,
            top: 0,
            came: [0; (WINDOW / 64) as usize],
            forged: 0,
        }
    }

    pub(crate) fn new(cipher: Cipher, mut secret: Secret, rekey: u8) -> Opener {
        let (first, second) = (Key::take(cipher, &mut secret), Key::take(cipher, &mut secret));
        let keys = [Key::wiped(), first, second];
        Opener { keys, secret, cipher, rekey, ..Opener::wiped() }
    }

    /// The whole number of which these are the low bits: the one nearest to what is expected.
    #[inline]
    fn complete(&self, low: u32) -> u64 {
        let near = self.top & !0xffff_ffff | u64::from(low);
        if near + (1 << 31) < self.top {
            near + (1 << 32)
        } else if near > self.top + (1 << 31) && near >= 1 << 32 {
            near - (1 << 32)
        } else {
            near
        }
    }

    #[inline]
    fn has_come(&self, number: u64) -> bool {
        self.came[(number % WINDOW / 64) as usize] >> (number % 64) & 1 != 0
    }

    /// Opens a packet in place and says how long it is without its tag. A packet that fails leaves nothing of itself behind, neither
    /// here nor, in the clear, in its bytes.
    #[inline]
    pub(crate) fn open(&mut self, packet: &mut [u8]) -> Result<usize, DropReason> {
        if packet.len() < COMMON_LEN + TAG_LEN {
            return Err(DropReason::Truncated);
        }
        let (header, rest) = packet.split_at_mut(COMMON_LEN);
        let number = self.complete(u32::from_be_bytes([header[0], header[1], header[2], header[3]]));
        if number < self.top && (self.top - number > WINDOW || self.has_come(number)) {
            return Err(DropReason::Replayed);
        }
        // In the window there are at most two keys, and nobody gets further ahead of us than one.
        let Some(key) =
            (number >> self.rekey).checked_add(1).and_then(|n| n.checked_sub(self.epoch)).filter(|i| *i < 3)
        else {
            self.forged += 1;
            return Err(DropReason::Altered);
        };
        let which = &self.keys[key as usize];
        if which.aead.open_in_place(which.nonce(number), Aad::from(&*header), rest).is_err() {
            self.forged += 1;
            return Err(DropReason::Altered);
        }
        if key == 2 {
            self.update();
        }
        self.note(number);
        Ok(packet.len() - TAG_LEN)
    }

    #[inline]
    fn note(&mut self, number: u64) {
        if number >= self.top {
            let skipped = number - self.top;
            if skipped >= WINDOW {
                self.came = [0; (WINDOW / 64) as usize];
            } else {
                for n in self.top..number {
                    self.came[(n % WINDOW / 64) as usize] &= !(1 << (n % 64));
                }
            }
            self.top = number + 1;
        }
        self.came[(number % WINDOW / 64) as usize] |= 1 << (number % 64);
    }

    #[cold]
    fn update(&mut self) {
        self.keys.rotate_left(1);
        self.keys[2] = Key::take(self.cipher, &mut self.secret);
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn pair(cipher: Cipher, rekey: u8) -> (Sealer, Opener) {
        let secret = || first_secret(b"said", &[7; 32]);
        (Sealer::new(cipher, secret(), rekey), Opener::new(cipher, secret(), rekey))
    }

    fn packet(len: usize) -> Vec<u8> {
        (0..COMMON_LEN + len + TAG_LEN).map(|i| i as u8).collect()
    }

    fn sealed(s: &mut Sealer, len: usize) -> Vec<u8> {
        let mut p = packet(len);
        s.seal(&mut p);
        p
    }

    #[test]
    fn what_is_sealed_is_opened_once() {
        for cipher in Cipher::best_first() {
            let (mut s, mut o) = pair(cipher, REKEY);
            for len in [0, 1, 12, 1400] {
                let mut p = sealed(&mut s, len);
                assert!(len < 12 || p[COMMON_LEN..][..len] != packet(len)[COMMON_LEN..][..len], "in clear");
                let again = p.clone();
                assert_eq!(o.open(&mut p), Ok(COMMON_LEN + len));
                assert_eq!(p[4..COMMON_LEN + len], packet(len)[4..COMMON_LEN + len]);
                assert_eq!(o.open(&mut again.clone()), Err(DropReason::Replayed));
            }
        }
    }

    const REKEY: u8 = 22;

    #[test]
    fn every_bit_counts_and_so_does_every_length() {
        let (mut s, mut o) = pair(Cipher::Aes128Gcm, REKEY);
        let p = sealed(&mut s, 20);
        for bit in 0..p.len() * 8 {
            let mut q = p.clone();
            q[bit / 8] ^= 1 << (bit % 8);
            assert!(o.open(&mut q).is_err(), "bit {bit}");
        }
        for len in 0..p.len() {
            assert!(o.open(&mut p[..len].to_vec()).is_err(), "{len} bytes");
        }
        let mut longer = p.clone();
        longer.push(0);
        assert!(o.open(&mut longer).is_err());
        assert!(o.open(&mut p.clone()).is_ok());
    }

    #[test]
    fn directions_and_flows_have_keys_of_their_own() {
        let (mut s, _) = pair(Cipher::Aes128Gcm, REKEY);
        let p = sealed(&mut s, 5);
        let mut other = Opener::new(Cipher::Aes128Gcm, first_secret(b"said", &[8; 32]), REKEY);
        assert_eq!(other.open(&mut p.clone()), Err(DropReason::Altered));
        let mut other = Opener::new(Cipher::Aes128Gcm, first_secret(b"said otherwise", &[7; 32]), REKEY);
        assert_eq!(other.open(&mut p.clone()), Err(DropReason::Altered));
        let mut wiped = Opener::wiped();
        assert!(wiped.open(&mut p.clone()).is_err());
    }

    #[test]
    fn keys_change_while_packets_are_lost_doubled_and_late() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let (mut s, mut o) = pair(Cipher::Aes128Gcm, WINDOW_BITS);
            let mut late: Vec<(u64, Vec<u8>)> = vec![];
            let (mut came, mut top) = (std::collections::HashSet::new(), 0u64);
            for number in 0..6 * WINDOW {
                let p = sealed(&mut s, 3);
                late.push((number, p));
                if prng.chance(0.3) {
                    continue;
                }
                while !late.is_empty() && (late.len() > 200 || prng.chance(0.7)) {
                    let (n, p) = late.swap_remove(prng.below(late.len() as u64) as usize);
                    if prng.chance(0.1) {
                        continue;
                    }
                    for _ in 0..1 + prng.below(2) {
                        let fresh = n + WINDOW >= top && !came.contains(&n);
                        assert_eq!(o.open(&mut p.clone()).is_ok(), fresh, "seed {seed}, {n} below {top}");
                        if fresh {
                            came.insert(n);
                            top = top.max(n + 1);
                        }
                    }
                }
            }
            assert!(o.epoch >= 4);
        }
    }

    #[test]
    fn a_whole_window_in_pieces_may_be_lost() {
        let under_way = crate::config::WINDOW_SEGMENTS as u64 * u64::from(barewire_wire::msg::PIECES);
        let (mut s, mut o) = pair(Cipher::Aes128Gcm, super::super::REKEY_MIN);
        for _ in 0..6 {
            // Acknowledgements and repeats beside them.
            for _ in 0..2 * under_way - 1 {
                sealed(&mut s, 0);
            }
            let mut p = sealed(&mut s, 3);
            assert!(o.open(&mut p).is_ok(), "epoch {}", o.epoch);
        }
        assert!(o.epoch > 4);
    }

    #[test]
    fn numbers_are_completed_across_the_edge_of_their_low_half() {
        let mut o = Opener::wiped();
        for top in [0u64, 5, 1 << 31, (1 << 32) - 3, 1 << 32, (1 << 32) + 7, 5 << 32] {
            o.top = top;
            for ahead in -900i64..900 {
                let number = top.wrapping_add_signed(ahead);
                if (number as i64) < 0 {
                    continue;
                }
                assert_eq!(o.complete(number as u32), number, "{ahead} from {top}");
            }
        }
    }

    #[test]
    fn no_jump_ahead_takes_keys_along() {
        let (mut s, mut o) = pair(Cipher::Aes128Gcm, WINDOW_BITS);
        let mut p = sealed(&mut s, 3);
        for number in [WINDOW as u32 * 2, u32::MAX, 1 << 31, WINDOW as u32 + 1] {
            p[..4].copy_from_slice(&number.to_be_bytes());
            assert_eq!(o.open(&mut p.clone()), Err(DropReason::Altered));
        }
        assert_eq!((o.epoch, o.top, o.forged), (0, 0, 4));
    }
}
