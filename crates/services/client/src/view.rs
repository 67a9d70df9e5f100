//! A received message, read where it lies.
//!
//! The daemon can write the memory that it shares with the application, so a message there is no slice of bytes: what is looked at is
//! loaded, a few bytes at a time, and only what was loaded counts. Nothing is copied that is not looked at.

use barewire_channel::Region;
use std::io::{self, Read};

/// Bytes that are compared or handed on at a time.
const STEP: usize = 64;

/// A received message in the memory shared with the daemon. Bytes loaded twice may differ: a daemon gone mad may write them meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    memory: &'a Region,
    offset: usize,
    len: usize,
}

impl<'a> View<'a> {
    /// `None` when that is not within the memory.
    pub(crate) fn new(memory: &'a Region, offset: u32, len: u32) -> Option<View<'a>> {
        let (offset, len) = (offset as usize, len as usize);
        (offset.checked_add(len)? <= memory.len()).then_some(View { memory, offset, len })
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `N` bytes from `at`: a field, as in `u32::from_be_bytes(view.array(4)?)`. `None` when the message ends before.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.copy(at, &mut bytes) == N).then_some(bytes)
    }

    /// Copies bytes from `at`; says how many: fewer than there is room for where the message ends.
    #[inline]
    pub fn copy(&self, at: usize, out: &mut [u8]) -> usize {
        let n = self.len.saturating_sub(at).min(out.len());
        if n > 0 && self.memory.read(self.offset + at, &mut out[..n]) { n } else { 0 }
    }

    /// The part of it from `at`, of `len` bytes. `None` when the message ends before.
    pub fn part(&self, at: usize, len: usize) -> Option<View<'a>> {
        (at.checked_add(len)? <= self.len).then(|| View { offset: self.offset + at, len, ..*self })
    }

    /// Whether these are its bytes from `at` on.
    pub fn has(&self, at: usize, bytes: &[u8]) -> bool {
        let mut step = [0; STEP];
        self.part(at, bytes.len()).is_some_and(|part| {
            bytes.chunks(STEP).enumerate().all(|(i, chunk)| {
                let n = part.copy(i * STEP, &mut step[..chunk.len()]);
                step[..n] == *chunk
            })
        })
    }

    /// Hands it on piece by piece, in order: to a hash, a parser, a file. Pieces have at most 64 bytes.
    pub fn for_each(&self, mut piece: impl FnMut(&[u8])) {
        let mut step = [0; STEP];
        for at in (0..self.len).step_by(STEP) {
            let n = self.copy(at, &mut step);
            piece(&step[..n]);
        }
    }

    /// Reads it from its beginning.
    pub fn reader(&self) -> impl Read + use<'a> {
        Reader { view: *self, at: 0 }
    }
}

impl PartialEq<[u8]> for View<'_> {
    fn eq(&self, bytes: &[u8]) -> bool {
        self.len == bytes.len() && self.has(0, bytes)
    }
}

struct Reader<'a> {
    view: View<'a>,
    at: usize,
}

impl Read for Reader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.view.copy(self.at, out);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_where_it_lies_and_not_beyond() {
        let memory = Region::heap(1024);
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
        assert!(memory.fill(0, 1024, 0xa5) && memory.write(128, &bytes));
        let view = View::new(&memory, 128, 300).unwrap();
        assert_eq!((view.len(), view.is_empty()), (300, false));
        assert!(view == bytes[..] && view != bytes[..299] && view != [0xa5; 300][..]);
        for at in [0, 1, 63, 64, 65, 292] {
            assert_eq!(view.array::<8>(at).unwrap(), bytes[at..at + 8]);
            assert_eq!(
                u16::from_be_bytes(view.array(at).unwrap()),
                u16::from(bytes[at]) << 8 | u16::from(bytes[at + 1])
            );
            assert!(view.has(at, &bytes[at..]) && !view.has(at + 1, &bytes[at..]));
        }
        for at in [293, 300, 301, usize::MAX] {
            assert_eq!(view.array::<8>(at), None, "{at}");
        }
        assert_eq!(view.array::<0>(300), Some([]));
        let mut all = Vec::new();
        view.for_each(|piece| all.extend_from_slice(piece));
        assert_eq!(all, bytes);
        let mut read = Vec::new();
        view.reader().read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes);
        let part = view.part(100, 50).unwrap();
        assert!(part == bytes[100..150] && part.array::<1>(50).is_none());
        assert!(view.part(300, 0).unwrap().is_empty());
        assert!(view.part(251, 50).is_none() && view.part(usize::MAX, 1).is_none());
        assert!(View::new(&memory, 1000, 24).is_some() && View::new(&memory, 1000, 25).is_none());
        assert!(View::new(&memory, u32::MAX, u32::MAX).is_none());
    }
}
