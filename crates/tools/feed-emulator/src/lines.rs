//! The way from the exchange: each line loses, doubles, delays and reorders on its own.

use super::config::LineFaults;
use barewire_base::{Duration, Instant, Prng};
use barewire_feed_handler::{FeedType, Side};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What an emulator counts of one side's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Packets that the exchange sent.
    pub sent: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// Packets that were doubled.
    pub duplicated: u64,
    /// Packets that were held back.
    pub reordered: u64,
}

/// A packet under way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due: Instant,
    /// In which order they were sent, for those of the same time.
    number: u64,
    feed: FeedType,
    side: Side,
    payload: Arc<[u8]>,
}

/// All lines of a channel.
pub(crate) struct Lines {
    faults: [LineFaults; 2],
    prngs: [Prng; 2],
    pub counts: [LineCounts; 2],
    under_way: BinaryHeap<Reverse<UnderWay>>,
    number: u64,
}

impl Lines {
    pub(crate) fn new(faults: [LineFaults; 2], prng: &mut Prng) -> Lines {
        Lines {
            faults,
            prngs: [prng.fork(), prng.fork()],
            counts: [LineCounts::default(); 2],
            under_way: BinaryHeap::new(),
            number: 0,
        }
    }

    /// The exchange sends a packet on both lines of a feed.
    pub(crate) fn send(&mut self, now: Instant, feed: FeedType, payload: &[u8]) {
        let payload: Arc<[u8]> = payload.into();
        for (index, side) in [Side::A, Side::B].into_iter().enumerate() {
            let (faults, prng, counts) =
                (self.faults[index], &mut self.prngs[index], &mut self.counts[index]);
            counts.sent += 1;
            if prng.chance(faults.loss) {
                counts.lost += 1;
                continue;
            }
            let twice = prng.chance(faults.duplicate);
            counts.duplicated += u64::from(twice);
            for _ in 0..=usize::from(twice) {
                let mut due = now + faults.delay;
                if faults.jitter > Duration::ZERO {
                    due += Duration::from_nanos(prng.below(faults.jitter.as_nanos().saturating_add(1)));
                }
                if prng.chance(faults.reorder) {
                    counts.reordered += 1;
                    due += faults.reorder_delay;
                }
                self.number += 1;
                let payload = Arc::clone(&payload);
                self.under_way.push(Reverse(UnderWay { due, number: self.number, feed, side, payload }));
            }
        }
    }

    /// When the next packet arrives.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse(packet)| packet.due)
    }

    /// The next packet, whenever it arrives.
    pub(crate) fn pop(&mut self) -> Option<(Instant, FeedType, Side, Arc<[u8]>)> {
        self.under_way.pop().map(|Reverse(p)| (p.due, p.feed, p.side, p.payload))
    }
}
