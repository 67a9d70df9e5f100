//! Which chunks the kernel has.
//!
//! A chunk is given away with [`Frame::into_index`] and taken back with [`Pool::reclaim`], which demands proof that it
//! was given and not yet returned. The ledger is that proof, and what empties the rings when the port closes.

use barewire_frame::{Frame, Pool};

/// One bit for each chunk of the pool: set while the kernel has it.
pub(crate) struct Ledger {
    pool: Pool,
    bits: Box<[u64]>,
    shift: u32,
}

impl Ledger {
    pub fn new(pool: Pool) -> Ledger {
        let words = pool.capacity().div_ceil(64);
        let shift = pool.chunk_len().trailing_zeros();
        Ledger { pool, bits: vec![0; words].into_boxed_slice(), shift }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Gives `frame` to the kernel and says where its chunk starts in the region. The frame must be the pool's own.
    #[inline]
    pub fn give(&mut self, frame: Frame) -> u64 {
        debug_assert!(self.pool.owns(&frame));
        let index = frame.into_index();
        self.bits[(index / 64) as usize] |= 1 << (index % 64);
        u64::from(index) << self.shift
    }

    /// Takes back the chunk that `address` lies in, as a frame of `len` bytes from there. `None` when the kernel did not
    /// have it; when the range leaves the chunk, the frame is empty.
    #[inline]
    pub fn take(&mut self, address: u64, len: u32) -> Option<Frame> {
        let index = u32::try_from(address >> self.shift).ok()?;
        let word = self.bits.get_mut((index / 64) as usize)?;
        let bit = 1 << (index % 64);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        let chunk_len = 1u32 << self.shift;
        let offset = address as u32 & (chunk_len - 1);
        let len = if len <= chunk_len - offset { len } else { 0 };
        // SAFETY: the bit says that this index was given by `give`, from this pool (`give`'s condition), and not taken
        // since. The kernel puts an address into a receive or completion ring when it has finished with the chunk, and
        // `take_all` runs after it was made to let go.
        unsafe { self.pool.reclaim(index, offset, len) }
    }

    /// Chunks that the kernel has.
    pub fn outstanding(&self) -> u32 {
        self.bits.iter().map(|w| w.count_ones()).sum()
    }

    /// Takes every chunk back. Only when the kernel uses none any more.
    pub fn take_all(&mut self) {
        for word in 0..self.bits.len() {
            while self.bits[word] != 0 {
                let index = word as u64 * 64 + u64::from(self.bits[word].trailing_zeros());
                drop(self.take(index << self.shift, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_frame::PoolConfig;

    #[test]
    fn a_chunk_comes_back_once_and_only_if_it_was_given() {
        let pool = Pool::new(PoolConfig { frames: 70, ..PoolConfig::default() }).unwrap();
        let mut ledger = Ledger::new(pool.clone());
        let mut given = Vec::new();
        while let Some(frame) = pool.alloc() {
            given.push(ledger.give(frame));
        }
        assert_eq!((given.len(), ledger.outstanding(), pool.available()), (70, 70, 0));
        let frame = ledger.take(given[69] + 256, 100).unwrap();
        assert_eq!((frame.len(), frame.headroom()), (100, 256));
        assert!(ledger.take(given[69], 0).is_none(), "already back");
        assert!(ledger.take(70 * 2048, 0).is_none() && ledger.take(u64::MAX, 0).is_none(), "no such chunk");
        drop(frame);
        assert_eq!(ledger.take(given[0] + 2000, 49).unwrap().len(), 0, "outside the chunk");
        ledger.take_all();
        assert_eq!((ledger.outstanding(), pool.available()), (0, 70));
    }
}
