//! Every interleaving, and every reordering that the memory model allows, of small rings.
//!
//! What loom cannot show: a load that takes a value stored only later (load buffering). That the consumer is done with a
//! slot before the producer writes it again is therefore checked on a side array of plain memory, whose accesses loom
//! orders by causality.
//!
//! `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p barewire-ring --test loom --release`
#![cfg(loom)]

use barewire_ring::park::ParkFlag;
use barewire_ring::{Region, mpsc, spsc};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use loom::sync::atomic::fence;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// Two words of one entry: they must arrive together.
fn entry(n: u64) -> [u64; 2] {
    [n, !n]
}

#[test]
fn spsc_wraps_around() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::heap::<2>(2).unwrap();
        let writer = thread::spawn(move || {
            for n in 1..=3 {
                while !producer.push(&entry(n)) {
                    assert!(!producer.is_corrupt());
                    thread::yield_now();
                }
            }
        });
        for n in 1..=3 {
            let got = loop {
                match consumer.pop() {
                    Some(got) => break got,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(got, entry(n));
        }
        writer.join().unwrap();
        assert_eq!(consumer.pop(), None);
        assert!(!consumer.is_corrupt());
    });
}

#[test]
fn spsc_in_bursts() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::heap::<1>(2).unwrap();
        let writer = thread::spawn(move || {
            assert_eq!(producer.free(), 2);
            producer.write(0, &[1]);
            producer.write(1, &[2]);
            producer.commit(2);
            while producer.free() == 0 {
                thread::yield_now();
            }
            producer.write(0, &[3]);
            producer.commit(1);
        });
        let mut next = 1;
        while next <= 3 {
            let ready = consumer.available();
            for i in 0..ready {
                assert_eq!(consumer.read(i), [next + i as u64]);
            }
            consumer.release(ready);
            next += ready as u64;
            if ready == 0 {
                thread::yield_now();
            }
        }
        writer.join().unwrap();
    });
}

/// Plain memory beside the ring, one place per slot, as callers keep it: whoever holds the slot holds the place.
struct Side([UnsafeCell<u64>; 2]);

// SAFETY: the ring hands each place back and forth; loom fails the test if an access is not ordered after the last.
unsafe impl Sync for Side {}

#[test]
fn spsc_hands_side_arrays_back_and_forth() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::heap::<1>(2).unwrap();
        let side = Arc::new(Side([UnsafeCell::new(0), UnsafeCell::new(0)]));
        let theirs = Arc::clone(&side);
        let writer = thread::spawn(move || {
            for n in 1..=3 {
                while producer.free() == 0 {
                    thread::yield_now();
                }
                // SAFETY: the slot is free, so its place is the producer's until the commit.
                theirs.0[producer.position() as usize & 1].with_mut(|place| unsafe { *place = n });
                producer.write(0, &[n]);
                producer.commit(1);
            }
        });
        for n in 1..=3 {
            while consumer.available() == 0 {
                thread::yield_now();
            }
            // SAFETY: the entry is ready, so its place is the consumer's until the release.
            let beside = side.0[consumer.position() as usize & 1].with(|place| unsafe { *place });
            assert_eq!((consumer.read(0), beside), ([n], n));
            consumer.release(1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn spsc_takes_over_with_resume() {
    loom::model(|| {
        let region = Region::heap(spsc::Layout::new(2, 1).unwrap().size());
        let mut producer = spsc::producer::<1>(region.clone(), 2).unwrap();
        let theirs = region.clone();
        let reader = thread::spawn(move || {
            let mut consumer = spsc::consumer::<1>(theirs, 2).unwrap();
            consumer.pop()
        });
        assert!(producer.push(&[1]));
        assert!(producer.push(&[2]));
        drop(producer);
        let mut producer = spsc::producer_resume::<1>(region.clone(), 2).unwrap();
        assert!(!producer.is_corrupt());
        let third = producer.push(&[3]);
        let first = reader.join().unwrap();
        assert!(first.is_none() || first == Some([1]));
        assert!(first.is_some() || !third, "room only once an entry is released");
        let mut consumer = spsc::consumer_resume::<1>(region, 2).unwrap();
        let rest: Vec<u64> = std::iter::from_fn(|| consumer.pop().map(|[n]| n)).collect();
        let expected: Vec<u64> = (1..=if third { 3 } else { 2 }).skip(usize::from(first.is_some())).collect();
        assert_eq!(rest, expected);
    });
}

/// Two producers that try `each` times, a consumer that tries as often as all together, on a ring that holds `held`
/// entries at first. Nobody waits for anybody (loom would have to explore every wait), so a push may fail; what was pushed
/// must come out whole, once, and in each producer's order.
fn two_producers(capacity: u32, held: u64, each: u64) {
    let (producer, mut consumer) = mpsc::heap::<2>(capacity).unwrap();
    for n in 0..held {
        assert!(producer.push(&entry(200 + n)));
    }
    let writers = [0, 100].map(|id| {
        let producer = producer.clone();
        thread::spawn(move || {
            (0..each).map(|n| id + n).filter(|&n| producer.push(&entry(n))).collect::<Vec<_>>()
        })
    });
    let mut popped: Vec<_> = (0..2 * each).filter_map(|_| consumer.pop()).collect();
    let pushed = writers.map(|w| w.join().unwrap());
    popped.extend(std::iter::from_fn(|| consumer.pop()));
    assert!(popped.iter().all(|e| *e == entry(e[0])), "{popped:?}");
    let of = |id: u64| popped.iter().map(|e| e[0]).filter(|n| n / 100 == id).collect::<Vec<_>>();
    assert_eq!(of(0), pushed[0]);
    assert_eq!(of(1), pushed[1]);
    assert_eq!(of(2), (0..held).map(|n| 200 + n).collect::<Vec<_>>());
    assert!(
        held + 2 * each > u64::from(capacity) || popped.len() as u64 == held + 2 * each,
        "no push fails for nothing"
    );
    assert!(consumer.is_empty() && !consumer.is_corrupt());
}

#[test]
fn mpsc_two_producers() {
    loom::model(|| two_producers(2, 0, 1));
}

#[test]
fn mpsc_two_producers_reuse_one_slot() {
    loom::model(|| two_producers(1, 1, 1));
}

#[test]
fn mpsc_two_producers_wrap_around() {
    let mut model = loom::model::Builder::new();
    // All schedules of up to three preemptions.
    model.preemption_bound = Some(3);
    model.check(|| two_producers(2, 1, 2));
}

/// What an eventfd is to the sleeper: a wake-up that sticks.
#[derive(Default)]
struct Event {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Event {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.bell.notify_one();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.bell.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// A flag as the ring's sleeper and waker use it, so that the real one and a broken one run through the same model.
trait Flag: Clone + Send + 'static {
    fn new(region: &Region) -> Self;
    fn prepare(&self);
    fn cancel(&self);
    fn should_wake(&self) -> bool;
}

impl Flag for ParkFlag {
    fn new(region: &Region) -> Self {
        ParkFlag::new(region, 0).unwrap()
    }
    fn prepare(&self) {
        self.prepare();
    }
    fn cancel(&self) {
        self.cancel();
    }
    fn should_wake(&self) -> bool {
        self.should_wake()
    }
}

/// The same flag with one fence, or both, taken out.
#[derive(Clone)]
struct Broken<const CONSUMER_FENCE: bool, const PRODUCER_FENCE: bool>(Region);

impl<const C: bool, const P: bool> Flag for Broken<C, P> {
    fn new(region: &Region) -> Self {
        Broken(region.clone())
    }
    fn prepare(&self) {
        self.0.atomic_u32(0).unwrap().swap(1, AcqRel);
        if C {
            fence(SeqCst);
        }
    }
    fn cancel(&self) {
        self.0.atomic_u32(0).unwrap().swap(0, AcqRel);
    }
    fn should_wake(&self) -> bool {
        if P {
            fence(SeqCst);
        }
        let flag = self.0.atomic_u32(0).unwrap();
        flag.load(Relaxed) != 0 && flag.swap(0, AcqRel) != 0
    }
}

/// One thread sends `entries`, this one sleeps whenever it finds none. A lost wake-up leaves it asleep for ever, which
/// loom reports as a deadlock.
fn sleeps_and_wakes<F: Flag>(entries: u64) {
    let (mut producer, mut consumer) = spsc::heap::<1>(4).unwrap();
    let flag = F::new(&Region::heap(4));
    let event = Arc::new(Event::default());
    let (theirs, bell) = (flag.clone(), Arc::clone(&event));
    let writer = thread::spawn(move || {
        for n in 0..entries {
            assert!(producer.push(&[n]));
            if theirs.should_wake() {
                bell.ring();
            }
        }
    });
    for n in 0..entries {
        let got = loop {
            if let Some(got) = consumer.pop() {
                break got;
            }
            flag.prepare();
            if consumer.available() == 0 {
                event.sleep();
            }
            flag.cancel();
        };
        assert_eq!(got, [n]);
    }
    writer.join().unwrap();
}

#[test]
fn no_wake_up_is_lost() {
    loom::model(|| sleeps_and_wakes::<ParkFlag>(2));
}

#[test]
fn the_model_of_a_broken_flag_is_the_real_one() {
    // With both fences in place the flag of this file passes, so the failures below are the fences' doing.
    loom::model(|| sleeps_and_wakes::<Broken<true, true>>(2));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_consumers_fence_a_wake_up_is_lost() {
    loom::model(|| sleeps_and_wakes::<Broken<false, true>>(1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_producers_fence_a_wake_up_is_lost() {
    loom::model(|| sleeps_and_wakes::<Broken<true, false>>(1));
}

#[test]
fn of_two_producers_one_rings() {
    loom::model(|| {
        let (producer, mut consumer) = mpsc::heap::<1>(2).unwrap();
        let flag = ParkFlag::new(&Region::heap(4), 0).unwrap();
        flag.prepare();
        let writers = [1, 2].map(|n| {
            let (producer, flag) = (producer.clone(), flag.clone());
            thread::spawn(move || {
                assert!(producer.push(&[n]));
                flag.should_wake()
            })
        });
        let rings = writers.map(|w| w.join().unwrap());
        assert!(rings[0] != rings[1], "{rings:?}");
        let got = [consumer.pop().unwrap()[0], consumer.pop().unwrap()[0]];
        assert!(got == [1, 2] || got == [2, 1]);
    });
}
