//! The pool: one mapped region of equal chunks, a free list and the metadata of each chunk.

use crate::{ClockDomain, Frame, Stamp, StampSource};
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a chunk unless a port needs more: a 1500-byte packet with headers, headroom and what XDP reserves.
pub const CHUNK_LEN_DEFAULT: u32 = 2048;
/// Bytes left free before a new frame's data, so that a header can be put in front without moving the payload.
pub const HEADROOM_DEFAULT: u32 = 128;

static LEAKED: AtomicUsize = AtomicUsize::new(0);

/// Pools whose last handle went away while frames were still out: a bug in whoever held the frames.
pub fn leaked_pools() -> usize {
    LEAKED.load(Ordering::Relaxed)
}

/// What a pool is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of chunks.
    pub frames: u32,
    /// Bytes of each chunk: a power of two from 2048 to 131072. AF_XDP takes 2048 and 4096; frames that are left whole for
    /// segmentation want 65536, and the largest of them 131072.
    pub chunk_len: u32,
    /// Bytes before the data of a new frame.
    pub headroom: u32,
    /// Ask for huge pages, falling back to ordinary ones.
    pub huge_pages: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            frames: 4096,
            chunk_len: CHUNK_LEN_DEFAULT,
            headroom: HEADROOM_DEFAULT,
            huge_pages: false,
        }
    }
}

/// Why a pool could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// The configuration breaks one of its documented bounds.
    BadConfig(&'static str),
    /// The system refused the memory (errno).
    OutOfMemory(i32),
}

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PoolError::BadConfig(why) => write!(f, "pool configuration: {why}"),
            PoolError::OutOfMemory(errno) => {
                write!(f, "pool memory: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for PoolError {}

/// Metadata of one chunk.
#[derive(Clone, Copy, Default)]
pub(crate) struct Meta {
    pub stamp_ns: u64,
    pub stamp_error_ns: u32,
    pub offset: u32,
    pub len: u32,
    pub csum_start: u16,
    pub csum_offset: u16,
    pub port: u16,
    pub gso_size: u16,
    pub source: StampSource,
    pub clock: ClockDomain,
    /// State of the checksum, and how the frame is to be cut: see `frame.rs`.
    pub offload: u8,
}

// Two to a cache line.
const _: () = assert!(size_of::<Meta>() == 32);

pub(crate) struct Inner {
    base: NonNull<u8>,
    region_len: usize,
    chunk_shift: u32,
    headroom: u32,
    meta: Box<[Cell<Meta>]>,
    free: UnsafeCell<Vec<u32>>,
    handles: Cell<usize>,
}

impl Inner {
    #[inline]
    pub(crate) fn chunk_len(&self) -> u32 {
        1 << self.chunk_shift
    }

    /// The first byte of chunk `index`.
    #[inline]
    pub(crate) fn chunk(&self, index: u32) -> *mut u8 {
        debug_assert!((index as usize) < self.meta.len());
        // SAFETY: every index handed out is below `meta.len()`, and the region holds `meta.len() << chunk_shift` bytes.
        unsafe { self.base.as_ptr().add((index as usize) << self.chunk_shift) }
    }

    #[inline]
    pub(crate) fn meta(&self, index: u32) -> &Cell<Meta> {
        debug_assert!((index as usize) < self.meta.len());
        // SAFETY: every index handed out is below `meta.len()`: those of frames come from the free list, which was filled so,
        // and `reclaim` checks the others.
        unsafe { self.meta.get_unchecked(index as usize) }
    }

    #[inline]
    pub(crate) fn put(&self, index: u32) {
        // SAFETY: `Inner` is reached only through `Pool` and `Frame`, both `!Send` and `!Sync`, and no reference into the
        // list outlives this call. The list was built with room for every chunk, so the push never allocates.
        unsafe { (*self.free.get()).push(index) }
    }

    #[inline]
    pub(crate) fn take_index(&self) -> Option<u32> {
        // SAFETY: as in `put`.
        unsafe { (*self.free.get()).pop() }
    }

    fn free_len(&self) -> usize {
        // SAFETY: as in `put`.
        unsafe { (*self.free.get()).len() }
    }
}

/// A handle to a pool of frames; clones share it. Made and used on one thread.
pub struct Pool {
    inner: NonNull<Inner>,
    // Neither Send nor Sync, as `Rc` is neither.
    _one_thread: std::marker::PhantomData<Rc<()>>,
}

impl Pool {
    /// Maps the region and builds the free list. The only allocation a pool ever makes.
    pub fn new(config: PoolConfig) -> Result<Pool, PoolError> {
        let PoolConfig { frames, chunk_len, headroom, huge_pages } = config;
        if frames == 0 {
            return Err(PoolError::BadConfig("frames must be at least 1"));
        }
        if !chunk_len.is_power_of_two() || !(2048..=131_072).contains(&chunk_len) {
            return Err(PoolError::BadConfig("chunk_len must be a power of two from 2048 to 131072"));
        }
        if headroom >= chunk_len {
            return Err(PoolError::BadConfig("headroom must be below chunk_len"));
        }
        let region_len = (frames as usize) * (chunk_len as usize);
        let base = map_region(region_len, huge_pages)?;
        let inner = Box::new(Inner {
            base,
            region_len,
            chunk_shift: chunk_len.trailing_zeros(),
            headroom,
            meta: vec![Cell::new(Meta::default()); frames as usize].into_boxed_slice(),
            // Low indices come out first: a small working set stays in few pages.
            free: UnsafeCell::new((0..frames).rev().collect()),
            handles: Cell::new(1),
        });
        Ok(Pool { inner: NonNull::from(Box::leak(inner)), _one_thread: std::marker::PhantomData })
    }

    #[inline]
    fn inner(&self) -> &Inner {
        // SAFETY: the box is freed only by the drop of the last handle, and this is a handle.
        unsafe { self.inner.as_ref() }
    }

    /// A fresh, empty frame with the pool's headroom before it; `None` when every frame is out.
    #[inline]
    pub fn alloc(&self) -> Option<Frame> {
        let inner = self.inner();
        let index = inner.take_index()?;
        inner.meta(index).set(Meta { offset: inner.headroom, ..Meta::default() });
        Some(Frame::own(self.inner, index))
    }

    /// A fresh frame of `len` bytes that hold whatever the chunk held, with its receive stamp; `None` when every frame is out
    /// or a chunk cannot hold them.
    #[inline]
    pub fn alloc_len(&self, len: usize, stamp: Stamp) -> Option<Frame> {
        let inner = self.inner();
        if len > (inner.chunk_len() - inner.headroom) as usize {
            return None;
        }
        let index = inner.take_index()?;
        let Stamp { ns, error_ns, source, clock } = stamp;
        let meta = Meta { offset: inner.headroom, len: len as u32, ..Meta::default() };
        inner.meta(index).set(Meta { stamp_ns: ns, stamp_error_ns: error_ns, source, clock, ..meta });
        Some(Frame::own(self.inner, index))
    }

    /// A fresh frame holding a copy of `bytes`; `None` when the pool is empty or a chunk cannot hold them.
    pub fn alloc_from(&self, bytes: &[u8]) -> Option<Frame> {
        let mut frame = self.alloc()?;
        if !frame.set_len(bytes.len()) {
            return None;
        }
        frame.data_mut().copy_from_slice(bytes);
        Some(frame)
    }

    /// Takes chunk `index` back as a frame whose data is `offset..offset + len` of the chunk.
    ///
    /// `None`, with the chunk forgotten, when that range does not lie inside the chunk.
    ///
    /// # Safety
    /// `index` came from [`Frame::into_index`] of this very pool, was not reclaimed since, and whoever had it (a kernel
    /// ring) no longer reads or writes the chunk.
    #[inline]
    pub unsafe fn reclaim(&self, index: u32, offset: u32, len: u32) -> Option<Frame> {
        let inner = self.inner();
        if index as usize >= inner.meta.len() || offset.checked_add(len)? > inner.chunk_len() {
            return None;
        }
        inner.meta(index).set(Meta { offset, len, ..Meta::default() });
        Some(Frame::own(self.inner, index))
    }

    /// Frames not handed out.
    pub fn available(&self) -> usize {
        self.inner().free_len()
    }

    /// Frames in all.
    pub fn capacity(&self) -> usize {
        self.inner().meta.len()
    }

    /// Bytes of a chunk.
    pub fn chunk_len(&self) -> u32 {
        self.inner().chunk_len()
    }

    /// Bytes before the data of a new frame.
    pub fn headroom(&self) -> u32 {
        self.inner().headroom
    }

    /// Most bytes that a fresh frame holds.
    pub fn frame_max(&self) -> usize {
        (self.chunk_len() - self.headroom()) as usize
    }

    /// Start and length of the region, page-aligned: what AF_XDP registers as its UMEM.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.inner().base, self.inner().region_len)
    }

    /// Whether `frame` came from this pool, so that a port can take it in place.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        frame.pool_ptr() == self.inner
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        let handles = &self.inner().handles;
        handles.set(handles.get() + 1);
        Pool { inner: self.inner, _one_thread: std::marker::PhantomData }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let inner = self.inner();
        let left = inner.handles.get() - 1;
        inner.handles.set(left);
        if left > 0 {
            return;
        }
        if inner.free_len() < inner.meta.len() {
            LEAKED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (base, len) = (inner.base, inner.region_len);
        // SAFETY: this was the last handle and no frame is out, so nothing refers to the box or to the region; both
        // were made in `new` and are released once.
        unsafe {
            drop(Box::from_raw(self.inner.as_ptr()));
            libc::munmap(base.as_ptr().cast(), len);
        }
    }
}

fn map_region(len: usize, huge_pages: bool) -> Result<NonNull<u8>, PoolError> {
    let map = |extra: i32| {
        // SAFETY: a fresh private anonymous mapping; no existing memory is named.
        unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra,
                -1,
                0,
            )
        }
    };
    let mut at = libc::MAP_FAILED;
    if huge_pages {
        at = map(libc::MAP_HUGETLB);
    }
    if at == libc::MAP_FAILED {
        at = map(0);
    }
    if at == libc::MAP_FAILED {
        return Err(PoolError::OutOfMemory(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    }
    NonNull::new(at.cast()).ok_or(PoolError::OutOfMemory(0))
}
