//! Memory regions: what a key stands for.

use crate::{Access, Pd, VerbError};
use barewire_ring::Region;

/// A registered region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mr {
    /// The key for our own requests.
    pub lkey: u32,
    /// The key to give to the peer. The same number here.
    pub rkey: u32,
}

/// Bits of a key that tell its registrations apart; the others are its place.
const GENERATION_BITS: u32 = 8;

struct Entry {
    region: Region,
    base: u64,
    pd: Pd,
    access: Access,
}

/// All regions.
pub(crate) struct Regions {
    entries: Vec<(u32, Option<Entry>)>,
    free: std::collections::VecDeque<u32>,
    limit: usize,
    seed: u32,
}

/// Why memory cannot be used the way somebody wants to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Denied;

impl Regions {
    pub(crate) fn new(limit: usize, seed: u32) -> Regions {
        Regions { entries: Vec::new(), free: std::collections::VecDeque::new(), limit, seed }
    }

    pub(crate) fn register(
        &mut self,
        pd: Pd,
        region: Region,
        base: u64,
        access: Access,
    ) -> Result<Mr, VerbError> {
        if base.checked_add(region.len() as u64).is_none() {
            return Err(VerbError::Invalid);
        }
        // Places are reused in turn, so that a key taken back stays wrong for as long as possible.
        let place = if self.entries.len() < self.limit {
            self.entries.push((self.seed.wrapping_mul(self.entries.len() as u32 | 1) >> 24, None));
            self.entries.len() as u32 - 1
        } else {
            self.free.pop_front().ok_or(VerbError::Limit)?
        };
        let slot = &mut self.entries[place as usize];
        slot.0 = slot.0.wrapping_add(1) & ((1 << GENERATION_BITS) - 1);
        slot.1 = Some(Entry { region, base, pd, access });
        let key = place << GENERATION_BITS | slot.0;
        Ok(Mr { lkey: key, rkey: key })
    }

    /// Forgets a region. Whose it was.
    pub(crate) fn deregister(&mut self, key: u32) -> Result<Pd, VerbError> {
        let place = key >> GENERATION_BITS;
        let slot = self.entries.get_mut(place as usize).ok_or(VerbError::Unknown)?;
        if slot.0 != key & ((1 << GENERATION_BITS) - 1) {
            return Err(VerbError::Unknown);
        }
        let entry = slot.1.take().ok_or(VerbError::Unknown)?;
        self.free.push_back(place);
        Ok(entry.pd)
    }

    /// Takes a key back on the peer's word.
    pub(crate) fn invalidate(&mut self, pd: Pd, key: u32) -> Result<(), Denied> {
        let entry = self.entry(key).ok_or(Denied)?;
        if entry.pd != pd || !entry.access.has(Access::REMOTE_INVALIDATE) {
            return Err(Denied);
        }
        self.deregister(key).map(|_| ()).map_err(|_| Denied)
    }

    #[inline]
    fn entry(&self, key: u32) -> Option<&Entry> {
        let (generation, entry) = self.entries.get((key >> GENERATION_BITS) as usize)?;
        if *generation != key & ((1 << GENERATION_BITS) - 1) {
            return None;
        }
        entry.as_ref()
    }

    /// The region and the offset in it, if all of `len` bytes from `addr` may be used that way.
    #[inline]
    fn find(
        &self,
        pd: Pd,
        key: u32,
        addr: u64,
        len: u32,
        access: Access,
    ) -> Result<(&Region, usize), Denied> {
        let entry = self.entry(key).ok_or(Denied)?;
        let offset = addr.checked_sub(entry.base).ok_or(Denied)?;
        let end = offset.checked_add(u64::from(len)).ok_or(Denied)?;
        if entry.pd != pd || !entry.access.has(access) || end > entry.region.len() as u64 {
            return Err(Denied);
        }
        Ok((&entry.region, offset as usize))
    }

    #[inline]
    pub(crate) fn check(&self, pd: Pd, key: u32, addr: u64, len: u32, access: Access) -> Result<(), Denied> {
        self.find(pd, key, addr, len, access).map(|_| ())
    }

    #[inline]
    pub(crate) fn read(
        &self,
        pd: Pd,
        key: u32,
        addr: u64,
        out: &mut [u8],
        access: Access,
    ) -> Result<(), Denied> {
        let (region, offset) = self.find(pd, key, addr, out.len() as u32, access)?;
        if region.read(offset, out) { Ok(()) } else { Err(Denied) }
    }

    #[inline]
    pub(crate) fn write(
        &self,
        pd: Pd,
        key: u32,
        addr: u64,
        bytes: &[u8],
        access: Access,
    ) -> Result<(), Denied> {
        let (region, offset) = self.find(pd, key, addr, bytes.len() as u32, access)?;
        if region.write(offset, bytes) { Ok(()) } else { Err(Denied) }
    }

    /// Changes 64 bits atomically and gives the value before. `Denied` also when the memory itself is not aligned.
    pub(crate) fn atomic(
        &self,
        pd: Pd,
        key: u32,
        addr: u64,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Result<u64, Denied> {
        use std::sync::atomic::Ordering::Relaxed;
        let (region, offset) = self.find(pd, key, addr, 8, Access::REMOTE_ATOMIC)?;
        let word = region.atomic_u64(offset).ok_or(Denied)?;
        Ok(match word.fetch_update(Relaxed, Relaxed, change) {
            Ok(before) | Err(before) => before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_domains_bounds_and_flags_are_checked() {
        let mut regions = Regions::new(4, 0x1234_5678);
        let (pd, other) = (Pd(0), Pd(1));
        let mr = regions.register(pd, Region::heap(100), 1000, Access::REMOTE_READ).unwrap();
        let mut out = [0; 10];
        assert!(regions.read(pd, mr.rkey, 1090, &mut out, Access::REMOTE_READ).is_ok());
        for (pd, key, addr, access) in [
            (other, mr.rkey, 1000, Access::REMOTE_READ),
            (pd, mr.rkey ^ 1, 1000, Access::REMOTE_READ),
            (pd, mr.rkey ^ 0x100, 1000, Access::REMOTE_READ),
            (pd, u32::MAX, 1000, Access::REMOTE_READ),
            (pd, mr.rkey, 999, Access::REMOTE_READ),
            (pd, mr.rkey, 1091, Access::REMOTE_READ),
            (pd, mr.rkey, u64::MAX, Access::REMOTE_READ),
            (pd, mr.rkey, 1000, Access::REMOTE_WRITE),
        ] {
            assert_eq!(regions.read(pd, key, addr, &mut out, access), Err(Denied), "{key} {addr}");
        }
        assert!(regions.register(pd, Region::heap(100), u64::MAX - 50, Access::NONE).is_err());
    }

    #[test]
    fn a_key_that_was_taken_back_stays_wrong() {
        let mut regions = Regions::new(2, 7);
        let pd = Pd(0);
        let first = regions.register(pd, Region::heap(8), 0, Access::ALL).unwrap();
        assert!(regions.invalidate(Pd(1), first.rkey).is_err());
        assert!(regions.invalidate(pd, first.rkey).is_ok());
        assert_eq!(regions.deregister(first.rkey), Err(VerbError::Unknown));
        for _ in 0..300 {
            let mr = regions.register(pd, Region::heap(8), 0, Access::NONE).unwrap();
            assert!(regions.invalidate(pd, mr.rkey).is_err());
            assert!(regions.check(pd, mr.rkey, 0, 8, Access::NONE).is_ok());
            regions.deregister(mr.rkey).unwrap();
        }
    }

    #[test]
    fn atomics_change_the_memory_itself() {
        let mut regions = Regions::new(2, 7);
        let region = Region::heap(16);
        let mr = regions.register(Pd(0), region.clone(), 0, Access::REMOTE_ATOMIC).unwrap();
        assert_eq!(regions.atomic(Pd(0), mr.rkey, 8, |v| Some(v + 5)), Ok(0));
        assert_eq!(regions.atomic(Pd(0), mr.rkey, 8, |_| None), Ok(5));
        assert_eq!(region.load_u64(8), Some(5));
        assert_eq!(regions.atomic(Pd(0), mr.rkey, 4, Some), Err(Denied));
    }
}
