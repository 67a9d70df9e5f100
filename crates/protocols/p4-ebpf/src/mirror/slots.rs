//! Places of an array that records are kept at.

use super::MapOp;

/// Those of one map. The first place is never given: it holds the empty record.
pub(super) struct Slots {
    /// Those from here on were never used.
    fresh: u32,
    size: u32,
    free: Vec<u32>,
    /// Nothing finds them any more, but packets that looked before may still be there.
    retired: Vec<u32>,
}

impl Slots {
    pub fn new(size: u32) -> Slots {
        Slots { fresh: 1, size, free: Vec::new(), retired: Vec::new() }
    }

    /// A place that no packet looks at.
    pub fn take(&mut self, out: &mut Vec<MapOp>) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.fresh < self.size {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        if !self.retired.is_empty() {
            out.push(MapOp::wait());
            self.free = std::mem::take(&mut self.retired);
        }
        self.free.pop()
    }

    /// A place that nothing finds once what was asked for so far is done.
    pub fn retire(&mut self, slot: u32) {
        self.retired.push(slot);
    }
}
