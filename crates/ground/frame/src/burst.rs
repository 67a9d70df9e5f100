//! A burst: up to 32 frames in a fixed array, consumed from the front.

use crate::Frame;

/// The most frames that move at once. Enough to spread the fixed cost of a call, few enough to stay in the L1 cache.
pub const BURST_MAX: usize = 32;

/// Up to [`BURST_MAX`] frames in order. Dropping it gives its frames back to their pools.
pub struct Burst {
    frames: [Option<Frame>; BURST_MAX],
    head: usize,
    tail: usize,
    limit: usize,
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// An empty burst.
    pub fn new() -> Self {
        Burst::with_limit(BURST_MAX)
    }

    /// An empty burst that holds at most `limit` frames (at least one, at most [`BURST_MAX`]): a receiver that answers at once
    /// keeps its peer busier with small bursts than with large ones.
    pub fn with_limit(limit: usize) -> Self {
        Burst { frames: [const { None }; BURST_MAX], head: 0, tail: 0, limit: limit.clamp(1, BURST_MAX) }
    }

    /// Frames in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Whether it holds nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// How many more frames [`push`](Self::push) takes.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit - self.len()
    }

    /// Appends a frame, or hands it back when the burst is full.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.tail == BURST_MAX || self.len() == self.limit {
            return self.push_at_end(frame);
        }
        // What is overwritten is `None`: the places from `tail` on are empty. Saying so spares the code that would drop it.
        std::mem::forget(self.frames[self.tail].replace(frame));
        self.tail += 1;
        Ok(())
    }

    /// The same when the last place is taken, or none is left.
    #[cold]
    fn push_at_end(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.len() == self.limit || self.head == 0 {
            return Err(frame);
        }
        self.frames.rotate_left(self.head);
        self.tail -= self.head;
        self.head = 0;
        self.frames[self.tail] = Some(frame);
        self.tail += 1;
        Ok(())
    }

    /// Takes the oldest frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        let frame = self.frames[self.head].take();
        self.head += 1;
        if self.head == self.tail {
            self.head = 0;
            self.tail = 0;
        }
        frame
    }

    /// The oldest frame, left in place: a port looks here before it accepts.
    #[inline]
    pub fn front(&self) -> Option<&Frame> {
        self.frames[self.head..self.tail].first()?.as_ref()
    }

    /// The frames in order.
    pub fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.frames[self.head..self.tail].iter().flatten()
    }

    /// The frames in order, to change in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        self.frames[self.head..self.tail].iter_mut().flatten()
    }

    /// Gives every frame back to its pool.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}
