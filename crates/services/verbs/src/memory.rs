//! Registered memory.

use barewire_ring::Region;
use barewire_roce::{Access, Endpoint, Mr, Pd, Sge, VerbError};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Where the next registration starts.
static NEXT_BASE: AtomicU64 = AtomicU64::new(1 << 32);
/// What registrations start at a multiple of, in bytes.
const ALIGN: u64 = 4096;

/// Addresses for `len` bytes. They say nothing about the process; registrations do not overlap, as those of real memory would not.
pub(crate) fn take_addresses(len: usize) -> u64 {
    let room = (len as u64).next_multiple_of(ALIGN).max(ALIGN);
    NEXT_BASE.fetch_add(room, Relaxed)
}

/// Registered memory of the application's process. The device reads and writes it on the peer's behalf for as long as the
/// registration lasts, which is until [`Endpoint::dereg_mr`] is called with [`mr`](Self::mr).
pub struct Memory {
    region: Region,
    mr: Mr,
    base: u64,
}

impl Memory {
    /// Allocates and registers `len` bytes, zero at first. Peers address it from [`addr`](Self::addr) on.
    ///
    /// # Errors
    /// `Limit` when there are too many regions.
    pub fn register(verbs: &mut Endpoint, pd: Pd, len: usize, access: Access) -> Result<Memory, VerbError> {
        Memory::register_region(verbs, pd, Region::heap(len), access)
    }

    /// Registers memory that there is already, shared with whoever else holds the region.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_region(
        verbs: &mut Endpoint,
        pd: Pd,
        region: Region,
        access: Access,
    ) -> Result<Memory, VerbError> {
        let base = take_addresses(region.len());
        let mr = verbs.reg_mr(pd, region.clone(), base, access)?;
        Ok(Memory { region, mr, base })
    }

    /// Its keys.
    pub fn mr(&self) -> Mr {
        self.mr
    }

    /// The key for our own requests.
    pub fn lkey(&self) -> u32 {
        self.mr.lkey
    }

    /// The key to give to the peer.
    pub fn rkey(&self) -> u32 {
        self.mr.rkey
    }

    /// The address of its first byte.
    pub fn addr(&self) -> u64 {
        self.base
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory itself, to share.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// A piece of it for a request.
    pub fn sge(&self, offset: usize, len: usize) -> Sge {
        Sge { addr: self.base + offset as u64, len: len as u32, lkey: self.mr.lkey }
    }

    /// Writes bytes. False when they do not fit: then nothing is written.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.region.write(offset, bytes)
    }

    /// Copies bytes out. Empty when they are not all there.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        if self.region.read(offset, &mut out) { out } else { Vec::new() }
    }
}
