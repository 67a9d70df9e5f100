//! Regions: copies at every alignment, bounds, and what keeps memory alive.
#![cfg(not(loom))]

use barewire_ring::Region;
use proptest::prelude::*;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_heap_region_is_zeroed_and_page_aligned() {
    for len in [0, 1, 4095, 4096, 70_001] {
        let region = Region::heap(len);
        assert_eq!(region.len(), len);
        assert_eq!(region.is_empty(), len == 0);
        assert_eq!(region.as_ptr().addr().get() % 4096, 0);
        let mut bytes = vec![0xa5; len];
        assert!(region.read(0, &mut bytes));
        assert!(bytes.iter().all(|&b| b == 0));
    }
}

#[test]
fn every_short_copy_at_every_alignment() {
    let pattern: Vec<u8> = (1..=96).collect();
    for start in 0..8 {
        for len in 0..80 {
            let region = Region::heap(128).slice(start, 100).unwrap();
            assert!(region.fill(0, 100, 0xa5));
            assert!(region.write(3, &pattern[..len]));
            let mut back = [0u8; 100];
            assert!(region.read(0, &mut back));
            assert_eq!(back[..3], [0xa5; 3]);
            assert_eq!(back[3..3 + len], pattern[..len]);
            assert!(back[3 + len..].iter().all(|&b| b == 0xa5), "start {start} len {len}");

            let mut out = [0xa5u8; 96];
            assert!(region.read(3, &mut out[5..5 + len]));
            assert_eq!(out[5..5 + len], pattern[..len]);
            assert_eq!(out[..5], [0xa5; 5]);
            assert!(out[5 + len..].iter().all(|&b| b == 0xa5));
        }
    }
}

#[test]
fn out_of_bounds_is_refused_and_touches_nothing() {
    let whole = Region::heap(64);
    assert!(whole.fill(0, 64, 0xa5));
    let region = whole.slice(8, 24).unwrap();
    let mut out = [0xa5u8; 8];
    for offset in [17, 24, 25, usize::MAX - 7, usize::MAX] {
        assert!(!region.read(offset, &mut out));
        assert!(!region.write(offset, &[0; 8]));
        assert!(!region.fill(offset, 8, 0));
        assert!(region.slice(offset, 8).is_none());
        assert!(region.atomic_u64(offset).is_none());
        assert!(region.load_u64(offset).is_none());
        assert!(!region.store_u64(offset, 0));
    }
    assert!(!region.fill(1, usize::MAX, 0));
    assert!(region.atomic_u32(22).is_none());
    assert_eq!(out, [0xa5; 8]);
    let mut all = [0u8; 64];
    assert!(whole.read(0, &mut all));
    assert_eq!(all, [0xa5; 64]);
    assert!(region.read(24, &mut []));
    assert!(region.slice(24, 0).is_some());
}

#[test]
fn words_need_alignment_of_the_address_not_of_the_offset() {
    let region = Region::heap(64);
    assert!(region.store_u64(8, 0x0807_0605_0403_0201));
    assert_eq!(region.load_u64(8), Some(0x0807_0605_0403_0201));
    let mut bytes = [0xa5; 8];
    assert!(region.read(8, &mut bytes));
    assert_eq!(bytes, 0x0807_0605_0403_0201u64.to_ne_bytes());
    let shifted = region.slice(1, 40).unwrap();
    assert!(shifted.atomic_u64(8).is_none());
    assert!(shifted.atomic_u32(8).is_none());
    assert_eq!(shifted.load_u64(7), Some(0x0807_0605_0403_0201));
    assert_eq!(shifted.atomic_u32(3).unwrap().load(Ordering::Relaxed), 0);
}

/// Memory that says when it is freed.
struct Owner {
    memory: Box<[u64; 8]>,
    freed: Arc<AtomicBool>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_slice_keeps_the_owner_alive() {
    let freed = Arc::new(AtomicBool::new(false));
    let mut owner = Owner { memory: Box::new([0; 8]), freed: Arc::clone(&freed) };
    let ptr = NonNull::from(&mut *owner.memory).cast::<u8>();
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(owner);
    // SAFETY: the box inside `owner` is 64 bytes, stays where it is while `owner` lives, and is used through the region
    // only.
    let region = unsafe { Region::from_raw(ptr, 64, owner) };
    let slice = region.slice(16, 16).unwrap();
    drop(region);
    assert!(!freed.load(Ordering::Relaxed));
    assert!(slice.write(0, b"still here, yes!"));
    let mut out = [0xa5; 16];
    assert!(slice.clone().read(0, &mut out));
    assert_eq!(&out, b"still here, yes!");
    drop(slice);
    assert!(freed.load(Ordering::Relaxed));
}

#[derive(Clone, Debug)]
enum Operation {
    Write(usize, Vec<u8>),
    Read(usize, usize),
    Fill(usize, usize, u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (0..420usize, prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(o, b)| Operation::Write(o, b)),
        (0..420usize, 0..300usize).prop_map(|(o, n)| Operation::Read(o, n)),
        (0..420usize, 0..300usize, any::<u8>()).prop_map(|(o, n, b)| Operation::Fill(o, n, b)),
    ]
}

proptest! {
    #[test]
    fn a_region_is_a_vec(start in 0..9usize, operations in prop::collection::vec(operation(), 1..40)) {
        const LEN: usize = 400;
        let whole = Region::heap(LEN + 32);
        assert!(whole.fill(0, LEN + 32, 0xa5));
        let region = whole.slice(start, LEN).unwrap();
        let mut model = vec![0xa5u8; LEN];
        for operation in operations {
            match operation {
                Operation::Write(o, bytes) => {
                    let fits = o + bytes.len() <= LEN;
                    prop_assert_eq!(region.write(o, &bytes), fits);
                    if fits {
                        model[o..o + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                Operation::Read(o, n) => {
                    let mut out = vec![0x5a; n];
                    let fits = o + n <= LEN;
                    prop_assert_eq!(region.read(o, &mut out), fits);
                    if fits {
                        prop_assert_eq!(&out[..], &model[o..o + n]);
                    } else {
                        prop_assert!(out.iter().all(|&b| b == 0x5a));
                    }
                }
                Operation::Fill(o, n, byte) => {
                    let fits = o + n <= LEN;
                    prop_assert_eq!(region.fill(o, n, byte), fits);
                    if fits {
                        model[o..o + n].fill(byte);
                    }
                }
            }
        }
        let mut all = vec![0; LEN + 32];
        prop_assert!(whole.read(0, &mut all));
        prop_assert_eq!(&all[start..start + LEN], &model[..]);
        prop_assert!(all[..start].iter().chain(&all[start + LEN..]).all(|&b| b == 0xa5));
    }
}
