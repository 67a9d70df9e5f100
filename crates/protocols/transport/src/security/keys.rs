//! X25519 keys: 32 bytes each, 64 hexadecimal digits as text.

use super::primitives::X25519;
use zeroize::Zeroizing;

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not 64 hexadecimal digits.
    #[error("a key is 64 hexadecimal digits")]
    Shape,
    /// All zeros, or a point that makes every shared secret the same.
    #[error("that is no usable key")]
    Weak,
}

/// A public key: anybody may know it.
#[derive(Clone, Copy, Eq)]
pub struct PublicKey([u8; 32]);

impl PartialEq for PublicKey {
    fn eq(&self, other: &PublicKey) -> bool {
        same(&self.0, &other.0)
    }
}

/// Compares all bytes, so that the time taken does not tell how many are equal.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |acc, (a, b)| acc | (a ^ b))) == 0
}

impl PublicKey {
    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> PublicKey {
        PublicKey(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

fn parse(text: &str) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let mut bytes = Zeroizing::new([0; 32]);
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(KeyError::Shape);
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |d: u8| (d as char).to_digit(16).ok_or(KeyError::Shape);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Ok(bytes)
}

impl std::str::FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        let key = PublicKey(*parse(text)?);
        // A point of small order: what it gives with any private key is all zeros.
        let is_weak = *X25519::of(&[0x5a; 32]).agree(&key.0) == [0; 32];
        if is_weak { Err(KeyError::Weak) } else { Ok(key) }
    }
}

/// A private key. It is wiped when it is dropped, and is never printed.
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<[u8; 32]>);

impl PrivateKey {
    /// The key with these bytes: random ones.
    pub fn from_bytes(bytes: [u8; 32]) -> PrivateKey {
        PrivateKey(Zeroizing::new(bytes))
    }

    /// Its bytes, to be kept as secret as the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(X25519::of(&self.0).public())
    }
}

impl std::str::FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PrivateKey, KeyError> {
        let bytes = parse(text)?;
        if same(&bytes, &[0; 32]) { Err(KeyError::Weak) } else { Ok(PrivateKey(bytes)) }
    }
}

impl PartialEq for PrivateKey {
    fn eq(&self, other: &PrivateKey) -> bool {
        same(&self.0, &other.0)
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}
