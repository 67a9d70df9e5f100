//! Packets that came before their turn, copied into places taken at start.

use crate::line::LineSide;
use barewire_frame::Stamp;

/// What is kept beside a packet's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) seq: u32,
    pub(crate) sending_time_ns: u64,
    pub(crate) side: LineSide,
    pub(crate) stamp: Stamp,
    pub(crate) len: usize,
}

/// A ring of places indexed by the low bits of the sequence number, and one more for a packet whose number is not believed
/// yet.
#[derive(Debug)]
pub(crate) struct Window {
    held: Box<[Option<Held>]>,
    /// Taken out while a held packet is processed, so that its bytes can be read beside the rest of the channel.
    pub(crate) bytes: Box<[u8]>,
    stride: usize,
    count: usize,
}

impl Window {
    /// Room for numbers up to `ahead` beyond the expected one.
    pub(crate) fn new(ahead: usize, stride: usize) -> Self {
        let places = (ahead + 1).next_power_of_two();
        Window {
            held: vec![None; places].into(),
            bytes: vec![0; (places + 1) * stride].into(),
            stride,
            count: 0,
        }
    }

    /// Numbers beyond the expected one that have a place.
    pub(crate) fn len(&self) -> u32 {
        self.held.len() as u32
    }

    /// Packets held.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Longest packet that fits.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    fn place(&self, seq: u32) -> usize {
        seq as usize & (self.held.len() - 1)
    }

    pub(crate) fn contains(&self, seq: u32) -> bool {
        self.held[self.place(seq)].is_some_and(|held| held.seq == seq)
    }

    /// Copies a packet in. The caller has checked length and range.
    pub(crate) fn insert(&mut self, held: Held, bytes: &[u8]) {
        let place = self.place(held.seq);
        self.count += usize::from(self.held[place].is_none());
        self.held[place] = Some(held);
        self.bytes[place * self.stride..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Takes the packet `seq` out: what was kept and where its bytes begin.
    pub(crate) fn take(&mut self, seq: u32) -> Option<(Held, usize)> {
        let place = self.place(seq);
        let held = self.held[place].filter(|held| held.seq == seq)?;
        self.held[place] = None;
        self.count -= 1;
        Some((held, place * self.stride))
    }

    /// The lowest number held, and when that packet was sent.
    pub(crate) fn lowest(&self) -> Option<(u32, u64)> {
        self.held.iter().flatten().map(|held| (held.seq, held.sending_time_ns)).min()
    }

    pub(crate) fn clear(&mut self) {
        self.held.fill(None);
        self.count = 0;
    }

    /// Where the one extra packet lies.
    fn spare_at(&self) -> usize {
        self.held.len() * self.stride
    }

    /// Keeps a packet aside.
    pub(crate) fn set_spare(&mut self, bytes: &[u8]) {
        let at = self.spare_at();
        self.bytes[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Moves the packet kept aside to the place of its number.
    pub(crate) fn insert_spare(&mut self, held: Held) {
        let (from, place) = (self.spare_at(), self.place(held.seq));
        self.bytes.copy_within(from..from + held.len, place * self.stride);
        self.count += usize::from(self.held[place].is_none());
        self.held[place] = Some(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(seq: u32, len: usize) -> Held {
        Held { seq, sending_time_ns: 0, side: LineSide::A, stamp: Stamp::default(), len }
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let mut window = Window::new(3, 8);
        assert_eq!(window.len(), 4);
        window.insert(held(6, 2), b"66");
        window.insert(held(5, 3), b"555");
        window.set_spare(b"sp");
        assert_eq!((window.count(), window.lowest()), (2, Some((5, 0))));
        assert!(window.contains(6) && !window.contains(2));
        let (five, at) = window.take(5).unwrap();
        assert_eq!(&window.bytes[at..at + five.len], b"555");
        assert!(window.take(5).is_none());
        window.insert_spare(held(7, 2));
        let (_, at) = window.take(7).unwrap();
        assert_eq!(&window.bytes[at..at + 2], b"sp");
        window.clear();
        assert_eq!((window.count(), window.lowest()), (0, None));
    }
}
