//! The many-producer ring.
#![cfg(not(loom))]

use barewire_ring::mpsc::{self, Consumer, Layout, Producer};
use barewire_ring::park::ParkFlag;
use barewire_ring::{Region, spsc};
use proptest::prelude::*;
use std::collections::VecDeque;

fn assert_shared<T: Send + Sync + Clone>() {}

#[test]
fn producers_are_shared_and_shapes_checked() {
    assert_shared::<Producer<1>>();
    assert_eq!(Layout::new(4, 1).unwrap().size(), 384);
    assert_eq!(Layout::new(8, 2).unwrap().size(), 256 + 256, "a slot has a state word more");
    assert_eq!(Layout::new(6, 1), None);
    assert_eq!(Layout::new(8, 0), None);
    assert!(mpsc::producer::<2>(Region::heap(511), 8).is_none());
    assert!(mpsc::consumer::<2>(Region::heap(512), 8).is_some());
    assert!(mpsc::consumer::<2>(Region::heap(512 + 8).slice(4, 512).unwrap(), 8).is_none());
    assert!(mpsc::heap::<1>(0).is_none());
}

#[test]
fn literal_words() {
    let region = Region::heap(384);
    let producer = mpsc::producer::<1>(region.clone(), 2).unwrap();
    let mut consumer = mpsc::consumer::<1>(region.clone(), 2).unwrap();
    let words = |offsets: [usize; 5]| offsets.map(|o| region.load_u64(o).unwrap());
    assert!(consumer.is_empty());
    assert!(producer.push(&[0x11]));
    assert!(producer.push(&[0x22]));
    assert!(!producer.push(&[0x33]));
    assert_eq!(words([0, 256, 264, 272, 280]), [2, 1, 0x11, 1, 0x22]);
    assert!(!consumer.is_empty());
    assert_eq!(consumer.pop(), Some([0x11]));
    assert_eq!(words([0, 256, 264, 272, 280]), [2, 2, 0x11, 1, 0x22]);
    assert!(producer.clone().push(&[0x33]));
    assert_eq!(words([0, 256, 264, 272, 280]), [3, 3, 0x33, 1, 0x22]);
    assert_eq!(consumer.pop(), Some([0x22]));
    assert_eq!(consumer.pop(), Some([0x33]));
    assert_eq!(consumer.pop(), None);
    assert_eq!(consumer.position(), 3);
    assert!(!consumer.is_corrupt());
}

#[test]
fn a_claim_that_is_never_published_stalls_and_corrupts_nothing() {
    let region = Region::heap(384);
    let producer = mpsc::producer::<1>(region.clone(), 4).unwrap();
    let mut consumer = mpsc::consumer::<1>(region.clone(), 4).unwrap();
    assert!(producer.push(&[1]));
    // What a producer leaves behind that dies between claim and publish.
    assert!(region.store_u64(0, 2));
    assert!(producer.push(&[3]));
    assert!(producer.push(&[4]));
    assert!(!producer.push(&[5]));
    assert_eq!(consumer.pop(), Some([1]));
    assert_eq!(consumer.pop(), None);
    assert!(producer.push(&[5]));
    assert!(!producer.push(&[6]), "full behind the claim");
    assert!(consumer.is_empty() && !consumer.is_corrupt());
    // Had it lived, its entry would come next.
    assert!(region.store_u64(256 + 24, 2));
    assert!(region.store_u64(256 + 16, 1));
    assert_eq!([(); 4].map(|()| consumer.pop().unwrap()[0]), [2, 3, 4, 5]);
}

#[test]
fn a_used_region_is_noticed() {
    let region = Region::heap(384);
    let producer = mpsc::producer::<1>(region.clone(), 1).unwrap();
    let mut consumer = mpsc::consumer::<1>(region.clone(), 1).unwrap();
    assert!(producer.push(&[1]));
    assert_eq!(consumer.pop(), Some([1]));
    let mut late: Consumer<1> = mpsc::consumer(region, 1).unwrap();
    assert_eq!(late.pop(), None);
    assert!(late.is_corrupt());
}

proptest! {
    #[test]
    fn a_ring_is_a_queue(shift in 0..4u32, pushes in prop::collection::vec(any::<bool>(), 1..300)) {
        let (producer, mut consumer) = mpsc::heap::<2>(1 << shift).unwrap();
        let producers = [producer.clone(), producer];
        let mut queue = VecDeque::new();
        for (n, push) in pushes.into_iter().enumerate() {
            let entry = [n as u64, !(n as u64)];
            if push {
                let fits = queue.len() < 1 << shift;
                prop_assert_eq!(producers[n % 2].push(&entry), fits);
                if fits {
                    queue.push_back(entry);
                }
            } else {
                prop_assert_eq!(consumer.pop(), queue.pop_front());
            }
            prop_assert_eq!(consumer.is_empty(), queue.is_empty());
        }
        prop_assert!(!consumer.is_corrupt());
    }
}

#[test]
fn four_producers_a_million_entries() {
    const EACH: u64 = 250_000;
    let (producer, mut consumer) = mpsc::heap::<2>(64).unwrap();
    std::thread::scope(|scope| {
        for id in 0..4u64 {
            let producer = producer.clone();
            scope.spawn(move || {
                for n in 0..EACH {
                    while !producer.push(&[id << 32 | n, !(id << 32 | n)]) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0u64; 4];
        for _ in 0..4 * EACH {
            let [tag, inverse] = loop {
                match consumer.pop() {
                    Some(entry) => break entry,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(inverse, !tag);
            let id = (tag >> 32) as usize;
            assert_eq!(tag & 0xffff_ffff, next[id], "each producer's entries in its order");
            next[id] += 1;
        }
        assert_eq!(next, [EACH; 4]);
    });
    assert!(consumer.is_empty() && !consumer.is_corrupt());
}

#[test]
fn a_park_flag_tells_one_producer() {
    let region = Region::heap(16);
    assert!(ParkFlag::new(&region, 13).is_none());
    assert!(ParkFlag::new(&region, 2).is_none());
    assert!(ParkFlag::new(&region, 16).is_none());
    let flag = ParkFlag::new(&region, 12).unwrap();
    let same = ParkFlag::new(&region, 12).unwrap();
    assert!(!same.should_wake());
    flag.prepare();
    assert_eq!(region.load_u64(8), Some(u64::from_ne_bytes([0, 0, 0, 0, 1, 0, 0, 0])));
    assert!(same.should_wake());
    assert!(!same.clone().should_wake(), "told once");
    flag.prepare();
    flag.cancel();
    assert!(!same.should_wake());
    // What somebody scribbles there is a sleeper, once.
    assert!(region.fill(0, 16, 0xff));
    assert!(same.should_wake() && !same.should_wake());
}

#[test]
fn sleeping_consumer_gets_every_entry() {
    const ENTRIES: u64 = 20_000;
    let (mut producer, mut consumer) = spsc::heap::<1>(4).unwrap();
    let flag = ParkFlag::new(&Region::heap(4), 0).unwrap();
    let sleeper = std::thread::current();
    let theirs = flag.clone();
    let writer = std::thread::spawn(move || {
        for n in 0..ENTRIES {
            while !producer.push(&[n]) {
                std::thread::yield_now();
            }
            if theirs.should_wake() {
                sleeper.unpark();
            }
        }
    });
    // A lost wake-up would hang here: the sleep has no time limit of its own.
    for n in 0..ENTRIES {
        let entry = loop {
            if let Some(entry) = consumer.pop() {
                break entry;
            }
            flag.prepare();
            if consumer.available() == 0 {
                std::thread::park();
            }
            flag.cancel();
        };
        assert_eq!(entry, [n]);
    }
    writer.join().unwrap();
}
