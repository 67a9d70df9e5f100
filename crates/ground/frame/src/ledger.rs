//! Which chunks somebody else has: the kernel, a driver.
//!
//! A chunk is given away with [`Frame::into_index`] and taken back with [`Pool::reclaim`], which demands proof that it
//! was given and not yet returned. The ledger is that proof, and what empties the rings when a port closes.

use crate::{Frame, Pool};

/// One bit for each chunk of the pool: set while the other has it.
pub struct Ledger {
    pool: Pool,
    bits: Box<[u64]>,
    shift: u32,
}

impl Ledger {
    /// Nothing is given yet.
    pub fn new(pool: Pool) -> Ledger {
        let words = pool.capacity().div_ceil(64);
        let shift = pool.chunk_len().trailing_zeros();
        Ledger { pool, bits: vec![0; words].into_boxed_slice(), shift }
    }

    /// The pool whose chunks these are.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Gives `frame` away and says where its chunk starts in the region. The frame must be the pool's own.
    #[inline]
    pub fn give(&mut self, frame: Frame) -> u64 {
        debug_assert!(self.pool.owns(&frame));
        let index = frame.into_index();
        self.bits[(index / 64) as usize] |= 1 << (index % 64);
        u64::from(index) << self.shift
    }

    /// Takes back the chunk that `address` lies in, as a frame of `len` bytes from there. `None` when it was not given away; when the range
    /// leaves the chunk, the frame is empty.
    ///
    /// # Safety
    /// Whoever had the chunk has finished with it: the kernel put it into a receive or completion ring, a driver handed it over. It neither
    /// reads nor writes the chunk any more.
    #[inline]
    pub unsafe fn take(&mut self, address: u64, len: u32) -> Option<Frame> {
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
        // since. That nobody else uses the chunk any more is the caller's condition.
        unsafe { self.pool.reclaim(index, offset, len) }
    }

    /// Chunks that are given away.
    pub fn outstanding(&self) -> u32 {
        self.bits.iter().map(|w| w.count_ones()).sum()
    }

    /// Takes every chunk back.
    ///
    /// # Safety
    /// Nobody else reads or writes any of them any more.
    pub unsafe fn take_all(&mut self) {
        for word in 0..self.bits.len() {
            while self.bits[word] != 0 {
                let index = word as u64 * 64 + u64::from(self.bits[word].trailing_zeros());
                // SAFETY: the caller's.
                drop(unsafe { self.take(index << self.shift, 0) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolConfig;

    #[test]
    fn a_chunk_comes_back_once_and_only_if_it_was_given() {
        let pool = Pool::new(PoolConfig { frames: 70, ..PoolConfig::default() }).unwrap();
        let mut ledger = Ledger::new(pool.clone());
        let mut given = Vec::new();
        while let Some(frame) = pool.alloc() {
            given.push(ledger.give(frame));
        }
        assert_eq!((given.len(), ledger.outstanding(), pool.available()), (70, 70, 0));
        // Nobody has written or will write a chunk of this pool.
        // SAFETY: as said.
        let take = |ledger: &mut Ledger, address, len| unsafe { ledger.take(address, len) };
        let frame = take(&mut ledger, given[69] + 256, 100).unwrap();
        assert_eq!((frame.len(), frame.headroom()), (100, 256));
        assert!(take(&mut ledger, given[69], 0).is_none(), "already back");
        assert!(
            take(&mut ledger, 70 * 2048, 0).is_none() && take(&mut ledger, u64::MAX, 0).is_none(),
            "no such chunk"
        );
        drop(frame);
        assert_eq!(take(&mut ledger, given[0] + 2000, 49).unwrap().len(), 0, "outside the chunk");
        // SAFETY: as said.
        unsafe { ledger.take_all() };
        assert_eq!((ledger.outstanding(), pool.available()), (0, 70));
    }
}
