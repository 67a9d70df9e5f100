//! The types of values with a lock, as the kernel wants to be told of them (BPF Type Format).
//!
//! Source: kernel `Documentation/bpf/btf.rst`, `linux/btf.h`.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
const HEADER_LEN: u32 = 24;
const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
/// Bytes of a lock; words follow it.
const LOCK_LEN: u32 = 4;

/// The number of the type of keys of 32 bits, and of others.
const NUMBER: u32 = 1;
const BYTES: u32 = 6;
const LOCK: u32 = 2;
const WORDS: u32 = 3;
/// The number of the type of values.
pub(crate) const LOCKED_VALUE: u32 = 4;

/// The number of the type of keys of so many bytes.
pub(crate) fn key_type(bytes: u32) -> u32 {
    if bytes == 4 { NUMBER } else { BYTES }
}

/// The types of a map whose keys and values are so many bytes: `u32` or `u8[]`; `struct { struct bpf_spin_lock lock; u32 words[]; }`.
///
/// # Errors
/// The kernel's: `EPERM` without the right, `EINVAL` where it knows no such types.
pub(crate) fn locked_value(key: u32, bytes: u32) -> io::Result<OwnedFd> {
    let blob = describe(key, bytes);
    let mut attr = sys::BtfLoad {
        btf: blob.as_ptr() as u64,
        log_buf: 0,
        size: blob.len() as u32,
        log_size: 0,
        log_level: 0,
        pad: 0,
    };
    // SAFETY: `size` bytes of description, which live across the call and are only read; no log is asked for.
    unsafe { sys::bpf_fd(sys::BTF_LOAD, &mut attr) }
}

fn describe(key: u32, bytes: u32) -> Vec<u8> {
    let strings = b"\0u32\0bpf_spin_lock\0val\0lock\0words\0value\0u8\0";
    let name = |wanted: &str| {
        let at = strings.windows(wanted.len() + 2).position(|window| {
            window[0] == 0 && window[wanted.len() + 1] == 0 && &window[1..=wanted.len()] == wanted.as_bytes()
        });
        at.map_or(0, |at| at as u32 + 1)
    };
    let mut types = Vec::new();
    let mut words = |all: &[u32]| types.extend(all.iter().flat_map(|word| word.to_ne_bytes()));
    // 1: u32, 32 bits from bit 0 on, without a sign.
    words(&[name("u32"), KIND_INT << 24, 4, 32]);
    // 2: the lock, with one member at bit 0.
    words(&[name("bpf_spin_lock"), KIND_STRUCT << 24 | 1, LOCK_LEN, name("val"), NUMBER, 0]);
    // 3: the words behind it.
    words(&[0, KIND_ARRAY << 24, 0, NUMBER, NUMBER, (bytes - LOCK_LEN) / 4]);
    // 4: the value.
    words(&[name("value"), KIND_STRUCT << 24 | 2, bytes]);
    words(&[name("lock"), LOCK, 0, name("words"), WORDS, 8 * LOCK_LEN]);
    // 5 and 6: a byte, and a key of bytes.
    words(&[name("u8"), KIND_INT << 24, 1, 8]);
    words(&[0, KIND_ARRAY << 24, 0, BYTES - 1, NUMBER, key]);
    let mut blob = Vec::new();
    blob.extend(MAGIC.to_ne_bytes());
    blob.extend([VERSION, 0]);
    let len = types.len() as u32;
    for word in [HEADER_LEN, 0, len, len, strings.len() as u32] {
        blob.extend(word.to_ne_bytes());
    }
    blob.extend(types);
    blob.extend(strings);
    blob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_the_lengths_that_it_says() {
        let blob = describe(6, 88);
        let word = |at: usize| u32::from_ne_bytes(blob[at..at + 4].try_into().unwrap());
        let (types, strings) = (word(12), word(20));
        assert_eq!((word(8), word(16)), (0, types));
        assert_eq!(blob.len() as u32, HEADER_LEN + types + strings);
        assert_eq!((blob[blob.len() - 1], word(HEADER_LEN as usize)), (0, 1), "the first name is u32");
        assert_eq!(word(HEADER_LEN as usize + 40 + 20), 21, "words behind the lock");
    }
}
