//! The other side of the memory does what it likes: nothing panics, nothing leaves the region, the ring says so.
#![cfg(not(loom))]

use barewire_base::Prng;
use barewire_ring::{Region, mpsc, spsc};
use std::sync::atomic::{AtomicBool, Ordering};

const GUARD: usize = 4096;

/// A region of `len` zeroed bytes between two guards of 0xa5, and the whole of it.
fn guarded(len: usize) -> (Region, Region) {
    let whole = Region::heap(len + 2 * GUARD);
    assert!(whole.fill(0, GUARD, 0xa5) && whole.fill(GUARD + len, GUARD, 0xa5));
    (whole.slice(GUARD, len).unwrap(), whole)
}

fn assert_guards(whole: &Region) {
    let mut guard = [0u8; GUARD];
    for offset in [0, whole.len() - GUARD] {
        assert!(whole.read(offset, &mut guard));
        assert!(guard.iter().all(|&b| b == 0xa5), "written outside the region");
    }
}

/// Runs `work` while another thread writes random bytes, of random lengths at random places, over the whole region. Says
/// its seed when it fails.
fn while_scribbled<T>(region: &Region, seed: u64, work: impl FnOnce() -> T) -> T {
    println!("seed {seed}");
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut prng = Prng::new(seed);
            let mut bytes = [0u8; 64];
            while !stop.load(Ordering::Relaxed) {
                let n = 1 + prng.below(64) as usize;
                let offset = prng.below((region.len() - n) as u64 + 1) as usize;
                prng.fill(&mut bytes[..n]);
                assert!(region.write(offset, &bytes[..n]));
                begun.store(true, Ordering::Relaxed);
            }
        });
        // A guard, so that a panic in `work` stops the scribbler too and the scope can end.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        work()
    })
}

/// Tries until the scribbler has hit an index: it does so within microseconds of running, but it must get to run.
fn until(mut done: impl FnMut() -> bool) -> bool {
    (0..2_000_000).any(|i| {
        if i % 1000 == 999 {
            std::thread::yield_now();
        }
        done()
    })
}

#[test]
fn spsc_survives_a_scribbler() {
    for seed in 0..20 {
        let (region, whole) = guarded(spsc::Layout::new(8, 2).unwrap().size());
        while_scribbled(&region, seed, || {
            let mut consumer = spsc::consumer::<2>(region.clone(), 8).unwrap();
            let consumed = until(|| {
                let ready = consumer.available_at_least(1 + (seed as usize & 7));
                assert!(ready <= 8);
                for i in 0..ready {
                    std::hint::black_box(consumer.read(i));
                }
                consumer.release(ready);
                consumer.is_corrupt()
            });
            assert!(consumed, "a random index passes the check one time in 2^60");
            assert_eq!((consumer.available(), consumer.pop()), (0, None));

            let mut producer = spsc::producer::<2>(region.clone(), 8).unwrap();
            let produced = until(|| {
                let free = producer.free_at_least(8);
                assert!(free <= 8);
                for i in 0..free {
                    producer.write(i, &[u64::MAX; 2]);
                }
                producer.commit(free);
                producer.is_corrupt()
            });
            assert!(produced);
            assert!(!producer.push(&[0; 2]));
            assert_eq!(producer.free(), 0);

            for _ in 0..1000 {
                let mut producer = spsc::producer_resume::<2>(region.clone(), 8).unwrap();
                std::hint::black_box(producer.push(&[1; 2]));
                let mut consumer = spsc::consumer_resume::<2>(region.clone(), 8).unwrap();
                std::hint::black_box(consumer.pop());
            }
        });
        assert_guards(&whole);
    }
}

#[test]
fn mpsc_survives_a_scribbler() {
    for seed in 100..120 {
        let (region, whole) = guarded(mpsc::Layout::new(8, 2).unwrap().size());
        while_scribbled(&region, seed, || {
            let producer = mpsc::producer::<2>(region.clone(), 8).unwrap();
            let mut consumer = mpsc::consumer::<2>(region.clone(), 8).unwrap();
            let corrupt = until(|| {
                std::hint::black_box(producer.push(&[7; 2]));
                std::hint::black_box(consumer.pop());
                consumer.is_corrupt()
            });
            assert!(corrupt);
            assert!(consumer.is_empty() && consumer.pop().is_none());
            for _ in 0..10_000 {
                std::hint::black_box(producer.push(&[7; 2]));
            }
        });
        assert_guards(&whole);
    }
}

#[test]
fn every_impossible_tail_is_caught_by_the_consumer() {
    // Three entries released, four more seen: the tail must be from 7 to 11.
    for (tail, corrupt) in
        [(7, false), (8, false), (11, false), (12, true), (6, true), (3, true), (2, true), (u64::MAX, true)]
    {
        let region = Region::heap(384);
        let mut consumer = spsc::consumer::<1>(region.clone(), 8).unwrap();
        assert!(region.store_u64(0, 7));
        assert_eq!(consumer.available(), 7);
        consumer.release(3);
        assert!(region.store_u64(0, tail));
        assert_eq!(consumer.available(), 4, "seen already, not read again");
        let ready = consumer.available_at_least(9);
        assert_eq!(consumer.is_corrupt(), corrupt, "tail {tail}");
        assert_eq!(ready as u64, if corrupt { 0 } else { tail - 3 });
        // A caller that did not notice goes on with what it was told before: nothing panics, nothing is published.
        consumer.read(3);
        if corrupt {
            consumer.release(4);
            assert_eq!(region.load_u64(128), Some(3));
            assert!(region.store_u64(0, 7));
            assert_eq!(consumer.pop(), None, "corrupt for good");
        }
    }
}

#[test]
fn every_impossible_head_is_caught_by_the_producer() {
    // Seven entries committed, the head last seen at 3 (four free): it must be from 3 to 7.
    for (head, corrupt) in
        [(3, false), (5, false), (7, false), (8, true), (2, true), (0, true), (u64::MAX, true)]
    {
        let region = Region::heap(384);
        let mut producer = spsc::producer::<1>(region.clone(), 8).unwrap();
        for i in 0..7 {
            assert!(producer.push(&[i]));
        }
        assert!(region.store_u64(128, 3));
        assert_eq!(producer.free_at_least(2), 4);
        assert!(region.store_u64(128, head));
        assert_eq!(producer.free(), 4, "seen already, not read again");
        let free = producer.free_at_least(9);
        assert_eq!(producer.is_corrupt(), corrupt, "head {head}");
        assert_eq!(free as u64, if corrupt { 0 } else { head + 1 });
        producer.write(3, &[9]);
        if corrupt {
            producer.commit(4);
            assert_eq!(region.load_u64(0), Some(7));
            assert!(region.store_u64(128, 7));
            assert!(!producer.push(&[1]), "corrupt for good");
        }
    }
}

#[test]
fn a_producer_does_not_spin_on_an_impossible_slot() {
    let region = Region::heap(384);
    let producer = mpsc::producer::<1>(region.clone(), 4).unwrap();
    // The slot says that number 0 is taken, the tail says that it is not.
    assert!(region.store_u64(256, 1));
    assert!(!producer.push(&[1]));
    assert!(region.store_u64(256, u64::MAX));
    assert!(!producer.push(&[1]));
}
