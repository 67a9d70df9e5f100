//! Requests that wait, in stores shared by all queues: an idle queue pair owns none.

use crate::VerbError;
use crate::memory::{Denied, Regions};
use crate::slab::{NONE, Slab};
use crate::verbs::{Access, Data, INLINE_MAX, Pd, Remote, SGE_MAX, SendOp, SendWr, Sge};

/// A scatter/gather list.
#[derive(Clone, Copy, Default)]
pub(crate) struct SgeList {
    sges: [Sge; SGE_MAX],
    n: u8,
}

impl SgeList {
    pub(crate) fn new(list: &[Sge]) -> Result<SgeList, VerbError> {
        let mut sges = [Sge::default(); SGE_MAX];
        sges.get_mut(..list.len()).ok_or(VerbError::Invalid)?.copy_from_slice(list);
        Ok(SgeList { sges, n: list.len() as u8 })
    }

    /// Bytes in all; `None` when they do not fit 32 bits.
    pub(crate) fn len(&self) -> Option<u32> {
        self.pieces().iter().try_fold(0u32, |sum, sge| sum.checked_add(sge.len))
    }

    fn pieces(&self) -> &[Sge] {
        &self.sges[..usize::from(self.n)]
    }

    /// The pieces that hold `len` bytes from `offset` on: address, key, and where in those bytes.
    #[inline]
    fn walk(
        &self,
        offset: u32,
        len: usize,
        mut each: impl FnMut(u64, u32, usize, usize) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        let (mut skip, mut done) = (u64::from(offset), 0);
        for sge in self.pieces() {
            if done == len {
                break;
            }
            let size = u64::from(sge.len);
            if skip >= size {
                skip -= size;
                continue;
            }
            let step = ((size - skip) as usize).min(len - done);
            each(sge.addr.checked_add(skip).ok_or(Denied)?, sge.lkey, done, step)?;
            (skip, done) = (0, done + step);
        }
        if done == len { Ok(()) } else { Err(Denied) }
    }

    /// Copies bytes of the listed memory, from `offset` on.
    #[inline]
    pub(crate) fn gather(
        &self,
        regions: &Regions,
        pd: Pd,
        offset: u32,
        out: &mut [u8],
    ) -> Result<(), Denied> {
        self.walk(offset, out.len(), |addr, key, at, n| {
            regions.read(pd, key, addr, &mut out[at..at + n], Access::NONE)
        })
    }

    /// Copies bytes into the listed memory, from `offset` on.
    #[inline]
    pub(crate) fn scatter(&self, regions: &Regions, pd: Pd, offset: u32, bytes: &[u8]) -> Result<(), Denied> {
        self.walk(offset, bytes.len(), |addr, key, at, n| {
            regions.write(pd, key, addr, &bytes[at..at + n], Access::LOCAL_WRITE)
        })
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Payload {
    Memory(SgeList),
    Inline([u8; INLINE_MAX]),
}

/// A send request.
#[derive(Clone, Copy)]
pub(crate) struct Send {
    pub next: u32,
    pub wr_id: u64,
    pub op: SendOp,
    pub payload: Payload,
    pub len: u32,
    /// The first sequence number, and how many it takes.
    pub first: u32,
    pub count: u32,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    pub remote: Option<Remote>,
}

impl Default for Send {
    fn default() -> Self {
        Send {
            next: NONE,
            wr_id: 0,
            op: SendOp::Send,
            payload: Payload::Memory(SgeList::default()),
            len: 0,
            first: 0,
            count: 0,
            signaled: false,
            solicited: false,
            fence: false,
            remote: None,
        }
    }
}

impl Send {
    /// Checks the request, and makes it what waits. Its sequence numbers are still to be set.
    pub(crate) fn new(wr: &SendWr<'_>) -> Result<Send, VerbError> {
        let (payload, len) = match wr.data {
            Data::Sges(list) => {
                let list = SgeList::new(list)?;
                (Payload::Memory(list), list.len().ok_or(VerbError::Invalid)?)
            }
            Data::Inline(bytes) => {
                let mut copy = [0; INLINE_MAX];
                copy.get_mut(..bytes.len()).ok_or(VerbError::Invalid)?.copy_from_slice(bytes);
                (Payload::Inline(copy), bytes.len() as u32)
            }
        };
        let send = Send {
            wr_id: wr.wr_id,
            op: wr.op,
            payload,
            len,
            signaled: wr.signaled,
            solicited: wr.solicited,
            fence: wr.fence,
            remote: wr.remote,
            ..Send::default()
        };
        let inline = matches!(payload, Payload::Inline(_));
        let fits = match wr.op {
            SendOp::Read { .. } => !inline && len <= MESSAGE_MAX,
            SendOp::CompareSwap { addr, .. } | SendOp::FetchAdd { addr, .. } => {
                !inline && len == 8 && addr % 8 == 0
            }
            _ => len <= MESSAGE_MAX,
        };
        if fits { Ok(send) } else { Err(VerbError::Invalid) }
    }

    /// Whether it is answered with data, and so counts against what may be outstanding.
    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.op, SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    #[inline]
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.op, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    #[inline]
    pub(crate) fn gather(
        &self,
        regions: &Regions,
        pd: Pd,
        offset: u32,
        out: &mut [u8],
    ) -> Result<(), Denied> {
        match &self.payload {
            Payload::Memory(list) => list.gather(regions, pd, offset, out),
            Payload::Inline(bytes) => {
                let at = offset as usize;
                out.copy_from_slice(bytes.get(at..at + out.len()).ok_or(Denied)?);
                Ok(())
            }
        }
    }

    #[inline]
    pub(crate) fn scatter(&self, regions: &Regions, pd: Pd, offset: u32, bytes: &[u8]) -> Result<(), Denied> {
        match &self.payload {
            Payload::Memory(list) => list.scatter(regions, pd, offset, bytes),
            Payload::Inline(_) => Err(Denied),
        }
    }
}

/// Longest message: 2^31 bytes (section 9.4.1).
pub(crate) const MESSAGE_MAX: u32 = 1 << 31;

/// A receive request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Recv {
    pub next: u32,
    pub wr_id: u64,
    pub list: SgeList,
}

/// What links entries of a store.
pub(crate) trait Linked {
    fn next(&mut self) -> &mut u32;
}

impl Linked for Send {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Linked for Recv {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// A queue of entries of a store.
#[derive(Clone, Copy)]
pub(crate) struct List {
    pub head: u32,
    pub tail: u32,
    pub len: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// Appends `entry`; `None` when the store is full.
    #[inline]
    pub(crate) fn push<T: Linked + Default>(&mut self, store: &mut Slab<T>, entry: T) -> Option<u32> {
        let id = store.take()?;
        store[id] = entry;
        *store[id].next() = NONE;
        if self.tail == NONE {
            self.head = id;
        } else {
            *store[self.tail].next() = id;
        }
        self.tail = id;
        self.len += 1;
        Some(id)
    }

    /// Takes the first out of the queue; it stays in the store until it is given back.
    #[inline]
    pub(crate) fn pop<T: Linked + Default>(&mut self, store: &mut Slab<T>) -> Option<u32> {
        let id = self.head;
        if id == NONE {
            return None;
        }
        self.head = *store[id].next();
        if self.head == NONE {
            self.tail = NONE;
        }
        self.len -= 1;
        Some(id)
    }
}

/// A shared receive queue.
#[derive(Default)]
pub(crate) struct Srq {
    pub alive: bool,
    pub generation: u32,
    pub pd: u32,
    pub list: List,
    pub limit: u32,
    /// Below this many requests the owner is told, once.
    pub low: u32,
    pub users: u32,
}
