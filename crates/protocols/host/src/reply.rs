//! Frames that the host wrote and that wait for a chance to leave.

/// A bounded queue of finished frames in memory set aside beforehand.
pub(crate) struct Replies {
    bytes: Box<[u8]>,
    lens: Box<[u32]>,
    slot_len: usize,
    head: usize,
    len: usize,
}

impl Replies {
    /// Room for `slots` frames of up to `slot_len` bytes.
    pub(crate) fn new(slots: usize, slot_len: usize) -> Self {
        Replies {
            bytes: vec![0; slots * slot_len].into(),
            lens: vec![0; slots].into(),
            slot_len,
            head: 0,
            len: 0,
        }
    }

    /// Whether none waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A new last frame of `len` bytes, to be written; what it holds is old. `None` when the queue is full or a slot too
    /// small.
    pub(crate) fn push(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.len == self.lens.len() || len > self.slot_len {
            return None;
        }
        let slot = (self.head + self.len) % self.lens.len();
        self.len += 1;
        self.lens[slot] = len as u32;
        let start = slot * self.slot_len;
        Some(&mut self.bytes[start..start + len])
    }

    /// The oldest frame; its slot is free again.
    pub(crate) fn pop(&mut self) -> Option<&[u8]> {
        if self.len == 0 {
            return None;
        }
        let slot = self.head;
        self.head = (slot + 1) % self.lens.len();
        self.len -= 1;
        let start = slot * self.slot_len;
        Some(&self.bytes[start..start + self.lens[slot] as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_and_bounded() {
        let mut queue = Replies::new(3, 4);
        assert!(queue.push(5).is_none());
        for round in 0..10u8 {
            for i in 0..3 {
                queue.push(usize::from(i) + 1).unwrap().fill(round + i);
            }
            assert!(queue.push(1).is_none());
            for i in 0..3 {
                assert_eq!(queue.pop().unwrap(), vec![round + i; usize::from(i) + 1]);
            }
            assert!(queue.pop().is_none());
        }
    }
}
