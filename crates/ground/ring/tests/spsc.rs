//! The single-producer ring: its bytes, its model, two threads, and coming back to it.
#![cfg(not(loom))]

use barewire_ring::spsc::{self, Consumer, Layout, Producer};
use barewire_ring::{CAPACITY_MAX, Region, WORDS_MAX};
use proptest::prelude::*;
use std::collections::VecDeque;

fn word(region: &Region, offset: usize) -> u64 {
    region.load_u64(offset).unwrap()
}

fn assert_send<T: Send>() {}

#[test]
fn both_sides_move_between_threads() {
    assert_send::<Producer<1>>();
    assert_send::<Consumer<1>>();
    assert_send::<Region>();
}

#[test]
fn shapes() {
    const L: Layout = Layout::new(4, 2).unwrap();
    assert_eq!(L.size(), 384, "256 of indices, 64 of entries, rounded up to 128");
    assert_eq!(Layout::new(256, 2).unwrap().size(), 256 + 256 * 16);
    assert_eq!(Layout::new(1, 1).unwrap().size(), 384);
    for (capacity, words) in
        [(0, 1), (3, 1), (CAPACITY_MAX * 2, 1), (4, 0), (4, WORDS_MAX + 1), (u32::MAX, 1)]
    {
        assert_eq!(Layout::new(capacity, words), None, "{capacity} {words}");
    }
    // The fields are public: a shape that `new` would refuse still has no small size.
    assert!(Layout { capacity: u32::MAX, words: u32::MAX }.size() > 1 << 60);

    assert!(spsc::producer::<2>(Region::heap(383), 4).is_none());
    assert!(spsc::consumer::<2>(Region::heap(383), 4).is_none());
    assert!(spsc::producer::<2>(Region::heap(384), 4).is_some());
    assert!(spsc::producer::<2>(Region::heap(4096), 3).is_none());
    assert!(spsc::producer::<0>(Region::heap(4096), 4).is_none());
    assert!(spsc::consumer::<2>(Region::heap(4096).slice(4, 4000).unwrap(), 4).is_none());
    assert!(spsc::heap::<2>(5).is_none());
}

#[test]
fn literal_words() {
    let region = Region::heap(384);
    let mut producer = spsc::producer::<2>(region.clone(), 4).unwrap();
    let mut consumer = spsc::consumer::<2>(region.clone(), 4).unwrap();
    assert_eq!(consumer.pop(), None);
    assert_eq!(producer.free(), 4);

    producer.write(0, &[0x11, 0x12]);
    producer.write(1, &[0x21, 0x22]);
    assert_eq!(word(&region, 0), 0, "not yet published");
    assert_eq!(consumer.available(), 0);
    producer.commit(2);
    assert_eq!(producer.position(), 2);
    assert_eq!(word(&region, 0), 2);
    assert_eq!([256, 264, 272, 280, 288].map(|o| word(&region, o)), [0x11, 0x12, 0x21, 0x22, 0]);

    assert_eq!(consumer.available(), 2);
    assert_eq!(consumer.read(1), [0x21, 0x22]);
    assert_eq!(consumer.read(0), [0x11, 0x12]);
    assert_eq!(word(&region, 128), 0, "reading releases nothing");
    consumer.release(1);
    assert_eq!(consumer.position(), 1);
    assert_eq!(word(&region, 128), 1);

    assert!(producer.push(&[0x31, 0x32]));
    assert!(producer.push(&[0x41, 0x42]));
    assert!(producer.push(&[0x51, 0x52]));
    assert!(!producer.push(&[0x61, 0x62]), "full");
    assert_eq!([256, 264].map(|o| word(&region, o)), [0x51, 0x52], "the fifth entry is in the first slot");
    for expected in [0x21, 0x31, 0x41, 0x51] {
        assert_eq!(consumer.pop(), Some([expected, expected + 1]));
    }
    assert_eq!(consumer.pop(), None);
    // Only the two indices and the entries are ever written.
    assert!(
        (8..128)
            .step_by(8)
            .chain((136..256).step_by(8))
            .chain((320..384).step_by(8))
            .all(|o| word(&region, o) == 0)
    );
    assert!(!producer.is_corrupt() && !consumer.is_corrupt());
}

#[test]
fn the_cached_view_is_refreshed_only_when_short() {
    let (mut producer, mut consumer) = spsc::heap::<1>(8).unwrap();
    for i in 0..6 {
        assert!(producer.push(&[i]));
    }
    assert_eq!(consumer.available(), 6);
    consumer.release(5);
    assert_eq!(producer.free(), 2, "two are known: no need to look");
    assert_eq!(producer.free_at_least(2), 2);
    assert_eq!(producer.free_at_least(3), 7);
    assert_eq!(producer.free(), 7);
    assert!(producer.push(&[6]));
    assert_eq!(consumer.available(), 1);
    assert_eq!(consumer.available_at_least(2), 2);
}

#[test]
fn a_ring_of_one() {
    let (mut producer, mut consumer) = spsc::heap::<3>(1).unwrap();
    for i in 0..100 {
        assert!(producer.push(&[i, i + 1, i + 2]));
        assert!(!producer.push(&[0; 3]));
        assert_eq!(consumer.pop(), Some([i, i + 1, i + 2]));
        assert_eq!(consumer.pop(), None);
    }
}

#[test]
fn indices_wrap_at_the_end_of_u64() {
    let region = Region::heap(384);
    assert!(region.store_u64(0, u64::MAX - 1));
    assert!(region.store_u64(128, u64::MAX - 2));
    assert!(region.store_u64(256 + 8, 7), "entry of sequence number 2^64 - 3, in slot 1");
    let mut producer = spsc::producer_resume::<1>(region.clone(), 4).unwrap();
    let mut consumer = spsc::consumer_resume::<1>(region, 4).unwrap();
    assert_eq!(producer.free_at_least(4), 3);
    for i in 8..11 {
        assert!(producer.push(&[i]));
    }
    assert!(!producer.push(&[0]));
    assert_eq!(producer.position(), 1);
    assert_eq!([(); 4].map(|()| consumer.pop().unwrap()[0]), [7, 8, 9, 10]);
    assert_eq!(consumer.pop(), None);
    assert!(!producer.is_corrupt() && !consumer.is_corrupt());
}

#[test]
fn resume_continues_where_the_indices_stand() {
    let region = Region::heap(Layout::new(8, 1).unwrap().size());
    let mut producer = spsc::producer::<1>(region.clone(), 8).unwrap();
    let mut consumer = spsc::consumer::<1>(region.clone(), 8).unwrap();
    for i in 0..7 {
        assert!(producer.push(&[i]));
    }
    producer.write(0, &[99]); // never committed
    drop(producer);
    assert_eq!([(); 3].map(|()| consumer.pop().unwrap()[0]), [0, 1, 2]);
    assert_eq!(consumer.read(0), [3]); // never released
    drop(consumer);

    let mut producer = spsc::producer_resume::<1>(region.clone(), 8).unwrap();
    assert_eq!((producer.position(), producer.free()), (7, 4));
    let mut consumer = spsc::consumer_resume::<1>(region, 8).unwrap();
    assert_eq!((consumer.position(), consumer.available()), (3, 4));
    assert!(producer.push(&[7]));
    assert_eq!([(); 5].map(|()| consumer.pop().unwrap()[0]), [3, 4, 5, 6, 7]);
    assert_eq!(consumer.pop(), None);
}

#[test]
fn resume_on_indices_that_contradict_each_other_is_corrupt() {
    for (tail, head) in [(5, 6), (20, 3), (u64::MAX, 0), (0, u64::MAX / 2)] {
        let region = Region::heap(384);
        assert!(region.store_u64(0, tail) && region.store_u64(128, head));
        let mut producer = spsc::producer_resume::<1>(region.clone(), 8).unwrap();
        let mut consumer = spsc::consumer_resume::<1>(region, 8).unwrap();
        assert!(producer.is_corrupt() && consumer.is_corrupt(), "{tail} {head}");
        assert!(!producer.push(&[1]));
        assert_eq!(consumer.pop(), None);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    /// Write this many entries, as far as there is room, without committing.
    Write(usize),
    /// Commit this many of those written.
    Commit(usize),
    Push,
    /// Read this many entries, as far as there are any, without releasing.
    Read(usize),
    /// Release this many, as far as there are any.
    Release(usize),
    Pop,
    Resume,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..10usize).prop_map(Operation::Write),
        4 => (0..10usize).prop_map(Operation::Commit),
        3 => Just(Operation::Push),
        4 => (0..10usize).prop_map(Operation::Read),
        4 => (0..10usize).prop_map(Operation::Release),
        3 => Just(Operation::Pop),
        1 => Just(Operation::Resume),
    ]
}

proptest! {
    #[test]
    fn a_ring_is_a_queue(shift in 0..5u32, operations in prop::collection::vec(operation(), 1..200)) {
        let capacity = 1u32 << shift;
        let room = capacity as usize;
        let region = Region::heap(Layout::new(capacity, 3).unwrap().size());
        let mut producer = spsc::producer::<3>(region.clone(), capacity).unwrap();
        let mut consumer = spsc::consumer::<3>(region.clone(), capacity).unwrap();
        let mut queue: VecDeque<[u64; 3]> = VecDeque::new();
        let mut written: Vec<[u64; 3]> = Vec::new(); // not yet committed
        let mut next = 0u64;
        for operation in operations {
            let mut entry = || {
                next += 1;
                [next, !next, next.wrapping_mul(0x9e37_79b9_7f4a_7c15)]
            };
            match operation {
                Operation::Write(n) => {
                    for _ in 0..n {
                        if producer.free_at_least(written.len() + 1) <= written.len() {
                            prop_assert_eq!(queue.len() + written.len(), room);
                            break;
                        }
                        let e = entry();
                        producer.write(written.len(), &e);
                        written.push(e);
                    }
                }
                Operation::Commit(n) => {
                    let n = n.min(written.len());
                    producer.commit(n);
                    queue.extend(written.drain(..n));
                    // A slot is written in order: what was not committed is still there for the next commit.
                }
                Operation::Push => {
                    // A push takes the first uncommitted slot, so what was written there is given up.
                    let e = entry();
                    let fits = queue.len() < room;
                    prop_assert_eq!(producer.push(&e), fits);
                    if fits {
                        queue.push_back(e);
                        written.clear();
                    }
                }
                Operation::Read(n) => {
                    let ready = consumer.available_at_least(n);
                    prop_assert!(ready <= queue.len());
                    prop_assert!(ready >= n || ready == queue.len());
                    for (i, expected) in queue.iter().enumerate().take(n.min(ready)) {
                        prop_assert_eq!(consumer.read(i), *expected);
                    }
                }
                Operation::Release(n) => {
                    let n = consumer.available_at_least(n).min(n);
                    consumer.release(n);
                    queue.drain(..n);
                }
                Operation::Pop => prop_assert_eq!(consumer.pop(), queue.pop_front()),
                Operation::Resume => {
                    producer = spsc::producer_resume(region.clone(), capacity).unwrap();
                    consumer = spsc::consumer_resume(region.clone(), capacity).unwrap();
                    written.clear();
                }
            }
            prop_assert_eq!(producer.position() - consumer.position(), queue.len() as u64);
            prop_assert_eq!((producer.free() == 0, consumer.available() == 0), (queue.len() == room, queue.is_empty()));
            prop_assert!(!producer.is_corrupt() && !consumer.is_corrupt());
        }
    }
}

/// What entry `n` carries in its second word: any mix-up of two entries, or of two laps, shows.
fn mix(n: u64) -> u64 {
    (n ^ (n >> 7)).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

#[test]
fn two_threads_a_million_entries() {
    const ENTRIES: u64 = 1_000_000;
    let (mut producer, mut consumer) = spsc::heap::<2>(256).unwrap();
    let writer = std::thread::spawn(move || {
        let mut n = 0;
        while n < ENTRIES {
            // Bursts and single entries by turns, so that both ways in are used.
            let burst = (1 + n % 48).min(ENTRIES - n) as usize;
            let burst = producer.free_at_least(burst).min(burst);
            for i in 0..burst {
                producer.write(i, &[n + i as u64, mix(n + i as u64)]);
            }
            producer.commit(burst);
            n += burst as u64;
            if n < ENTRIES && producer.push(&[n, mix(n)]) {
                n += 1;
            } else if burst == 0 {
                std::thread::yield_now();
            }
        }
        assert!(!producer.is_corrupt());
    });
    let (mut n, mut checksum) = (0, 0u64);
    while n < ENTRIES {
        let burst = consumer.available().min(32);
        for i in 0..burst {
            let [sequence, mixed] = consumer.read(i);
            assert_eq!((sequence, mixed), (n + i as u64, mix(n + i as u64)));
            checksum = checksum.wrapping_add(mixed);
        }
        consumer.release(burst);
        n += burst as u64;
        if burst == 0 {
            assert!(!consumer.is_corrupt());
            std::thread::yield_now();
        }
    }
    writer.join().unwrap();
    assert_eq!(consumer.pop(), None);
    assert_eq!(checksum, (0..ENTRIES).map(mix).fold(0, u64::wrapping_add));
}
