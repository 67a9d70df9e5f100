//! The event queue: earliest first, and what was scheduled first among equals.

use crate::World;
use barewire_base::Instant;
use barewire_frame::Frame;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub(crate) enum Kind {
    /// `frame` reaches the far end of direction `direction`.
    Deliver { direction: usize, frame: Frame },
    /// The deadline of a node, valid while the node's timer still has this generation.
    Timer { node: usize, generation: u64 },
    /// The end of a pause, valid while the node's pause still has this generation.
    Resume { node: usize, generation: u64 },
    /// A step of the test's script.
    Call(Box<dyn FnOnce(&mut World)>),
}

pub(crate) struct Event {
    pub at: Instant,
    sequence: u64,
    pub kind: Kind,
}

#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Event>,
    sequence: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Instant, kind: Kind) {
        self.heap.push(Event { at, sequence: self.sequence, kind });
        self.sequence += 1;
    }

    pub(crate) fn peek(&self) -> Option<&Event> {
        self.heap.peek()
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop()
    }
}

impl Event {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.sequence)
    }
}

// Reversed: the heap's greatest element is the earliest event.
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Event {}
