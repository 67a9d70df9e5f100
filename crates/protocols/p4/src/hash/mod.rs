//! Hash and checksum algorithms, as bmv2 computes them (`src/bm_sim/calculations.cpp`, `crc_map.cpp`).
//!
//! Everything here works on bytes that were gathered already and allocates nothing. [`crc`] has the CRCs, [`sum`] the
//! one's complement sum, [`xxh`] xxHash64; the small ones are below.

pub mod crc;
pub mod sum;
pub mod xxh;

pub use crc::{crc16, crc32};
pub use sum::{csum16, fold, ones_complement_sum};
pub use xxh::xxh64;

use crate::ir::{CrcParameters, HashAlgorithm};

/// What a control plane may set of a calculation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameters {
    /// CRC of 16 bits.
    Crc16 { polynomial: u16, initial: u16, final_xor: u16, reflect_data: bool, reflect_remainder: bool },
    /// CRC of 32 bits.
    Crc32 { polynomial: u32, initial: u32, final_xor: u32, reflect_data: bool, reflect_remainder: bool },
    /// The key of a Toeplitz hash: a multiple of four bytes, at least four (see [`Parameters::fits`]).
    Toeplitz(Vec<u8>),
}

impl Parameters {
    /// Whether an algorithm takes these parameters: custom CRCs of the same width, and a Toeplitz hash a key that is
    /// not empty and made of whole 32-bit words.
    pub fn fits(&self, algorithm: HashAlgorithm) -> bool {
        match self {
            Parameters::Crc16 { .. } => algorithm == HashAlgorithm::Crc16Custom,
            Parameters::Crc32 { .. } => algorithm == HashAlgorithm::Crc32Custom,
            Parameters::Toeplitz(key) => {
                algorithm == HashAlgorithm::Toeplitz && !key.is_empty() && key.len().is_multiple_of(4)
            }
        }
    }
}

/// The hash of some bytes; the low bits hold it, the rest is zero.
///
/// Parameters that do not fit the algorithm (see [`Parameters::fits`]) are not considered. What is no function of
/// its input is left to the caller: round robin and random "hashes" give 0 here, but the consistent round robin gives
/// the input's [`xxh64`], by which its owner can know the input again.
pub fn hash(algorithm: HashAlgorithm, parameters: Option<&Parameters>, bytes: &[u8]) -> u64 {
    match algorithm {
        HashAlgorithm::Crc8 | HashAlgorithm::Crc8Custom => u64::from(crc::crc8(bytes)),
        HashAlgorithm::Crc16 => u64::from(crc16(bytes)),
        HashAlgorithm::Crc32 => u64::from(crc32(bytes)),
        HashAlgorithm::CrcCcitt => u64::from(crc::crc_ccitt(bytes)),
        HashAlgorithm::Crc64Custom => crc::crc64(bytes),
        HashAlgorithm::Crc16Custom => match parameters {
            Some(&Parameters::Crc16 { polynomial, initial, final_xor, reflect_data, reflect_remainder }) => {
                CrcParameters {
                    width: 16,
                    polynomial: u64::from(polynomial),
                    initial: u64::from(initial),
                    final_xor: u64::from(final_xor),
                    reflect_data,
                    reflect_remainder,
                }
                .compute(bytes)
            }
            _ => u64::from(crc16(bytes)),
        },
        HashAlgorithm::Crc32Custom => match parameters {
            Some(&Parameters::Crc32 { polynomial, initial, final_xor, reflect_data, reflect_remainder }) => {
                CrcParameters {
                    width: 32,
                    polynomial: u64::from(polynomial),
                    initial: u64::from(initial),
                    final_xor: u64::from(final_xor),
                    reflect_data,
                    reflect_remainder,
                }
                .compute(bytes)
            }
            _ => u64::from(crc32(bytes)),
        },
        HashAlgorithm::Crc(spec) => spec.compute(bytes),
        HashAlgorithm::Csum16 => u64::from(csum16(bytes)),
        HashAlgorithm::Xor16 => u64::from(xor16(bytes)),
        HashAlgorithm::Xor32 => u64::from(xor32(bytes)),
        HashAlgorithm::Identity => identity(bytes),
        HashAlgorithm::Toeplitz => match parameters {
            Some(Parameters::Toeplitz(key)) => u64::from(toeplitz(key, bytes)),
            _ => 0,
        },
        HashAlgorithm::Xxh64 | HashAlgorithm::Bmv2Hash | HashAlgorithm::RoundRobinConsistent => xxh64(bytes),
        HashAlgorithm::HashEx => u64::from(hash_ex(bytes)),
        HashAlgorithm::RoundRobin | HashAlgorithm::Random => 0,
    }
}

/// The exclusive or of the 16-bit words, the last one padded with a zero byte on the right.
pub fn xor16(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(0, |sum, &word| sum ^ u16::from_be_bytes(word));
    sum ^ rest.first().map_or(0, |&byte| u16::from(byte) << 8)
}

/// The exclusive or of the 32-bit words, the last one padded with zero bytes on the right.
pub fn xor32(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    words.iter().fold(0, |sum, &word| sum ^ u32::from_be_bytes(word)) ^ padded_word(rest)
}

/// The first eight bytes as a number, fewer when there are fewer.
pub fn identity(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The Toeplitz hash with a key of whole 32-bit words, used again from its beginning by longer inputs. A key that is
/// none gives 0.
pub fn toeplitz(key: &[u8], bytes: &[u8]) -> u32 {
    let (key, _) = key.as_chunks::<4>();
    if key.is_empty() {
        return 0;
    }
    let key_word = |index: usize| u64::from(u32::from_be_bytes(key[index % key.len()]));
    let (words, rest) = bytes.as_chunks::<4>();
    let words = words.iter().map(|&word| u32::from_be_bytes(word));
    let last = (!rest.is_empty()).then(|| padded_word(rest));
    let mut sum = 0;
    for (index, mut word) in words.chain(last).enumerate() {
        let window = key_word(index) << 32 | key_word(index + 1);
        while word != 0 {
            let bit = word.leading_zeros();
            sum ^= (window << bit >> 32) as u32;
            word &= !(1 << (31 - bit));
        }
    }
    sum
}

/// bmv2's example hash: FNV with an avalanche at its end; bytes count as signed.
pub fn hash_ex(bytes: &[u8]) -> u32 {
    let mut hash = 2_166_136_261_u32;
    for &byte in bytes {
        hash = (hash ^ byte as i8 as u32).wrapping_mul(16_777_619);
    }
    hash = hash.wrapping_add(hash << 13);
    hash ^= hash >> 7;
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 17;
    hash.wrapping_add(hash << 5)
}

/// Up to four bytes as a word, padded with zero bytes on the right.
fn padded_word(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_be_bytes(word)
}

#[cfg(test)]
mod tests;
