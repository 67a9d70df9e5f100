//! A region of real memory.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::alloc;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16};

/// Alignment of a heap region, in bytes: a page, as shared memory would have.
const PAGE: usize = 4096;

/// A region of memory that somebody else may write at any time.
///
/// It never yields a `&[u8]`. Copies are made of relaxed atomic words, or in assembly of wider ones: they are never
/// undefined, but they order nothing; whoever publishes bytes does so through a ring's index. A clone or a slice is cheap
/// and keeps the memory alive.
#[derive(Clone)]
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the pointer is only dereferenced through atomics (invariant 2), and the owner is `Send + Sync` itself.
unsafe impl Send for Region {}
// SAFETY: as above: every access through `&Region` is atomic.
unsafe impl Sync for Region {}

/// Heap memory, freed when the last region over it goes.
struct Heap {
    base: NonNull<u8>,
    layout: alloc::Layout,
}

// SAFETY: `Heap` is an allocation that nobody reaches through `Heap`; freeing it is allowed on any thread.
unsafe impl Send for Heap {}
// SAFETY: as above, there is no access through `&Heap`.
unsafe impl Sync for Heap {}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: `base` came from `alloc_zeroed` with this layout and is freed once, here.
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}

impl Region {
    /// `len` zeroed bytes of the heap, aligned to 4096. Large regions take memory only as they are touched.
    ///
    /// # Panics
    /// When `len` exceeds what an allocation may have (`isize::MAX`). Running out of memory aborts, as in `Vec`.
    pub fn heap(len: usize) -> Region {
        // An allocator asked for a page's alignment would allocate and then zero by hand, touching every page; asked for
        // a small alignment it hands out the system's fresh zero pages. So ask for a page more, and align here.
        let layout = len
            .checked_add(PAGE)
            .and_then(|size| alloc::Layout::from_size_align(size, 8).ok())
            .expect("a region of at most isize::MAX bytes");
        // SAFETY: the size is at least `PAGE`, so not zero.
        let base = unsafe { alloc::alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { alloc::handle_alloc_error(layout) };
        // SAFETY: the padding is below `PAGE`, and `PAGE` bytes more than `len` were allocated.
        let ptr = unsafe { base.add(base.addr().get().wrapping_neg() % PAGE) };
        Region { ptr, len, owner: Arc::new(Heap { base, layout }) }
    }

    /// A region over memory of the caller's, for example a mapped memfd. `owner` is dropped with the last clone or slice,
    /// and is what should unmap it.
    ///
    /// # Safety
    /// - While `owner` lives, the `len` bytes at `ptr` must stay mapped, readable and writable. (A file that another
    ///   process can truncate does not qualify: seal it.)
    /// - While `owner` lives, this process must touch those bytes only through regions or other atomics, or at times when
    ///   nobody else in this process does.
    /// - `len` must not exceed `isize::MAX`.
    pub unsafe fn from_raw(ptr: NonNull<u8>, len: usize, owner: Arc<dyn Any + Send + Sync>) -> Region {
        Region { ptr, len, owner }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the region has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `offset` as a region of their own, over the same memory. `None` when out of bounds.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Region> {
        if !self.contains(offset, len) {
            return None;
        }
        // SAFETY: `offset <= self.len`, so the pointer stays in the region or one past its end.
        let ptr = unsafe { self.ptr.add(offset) };
        Some(Region { ptr, len, owner: Arc::clone(&self.owner) })
    }

    /// The first byte. Valid while this region or a clone lives. Others may write the memory at any time: no reference
    /// may be made of it.
    #[inline]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    #[inline]
    fn contains(&self, offset: usize, len: usize) -> bool {
        offset <= self.len && len <= self.len - offset
    }

    /// Copies `out.len()` bytes from `offset` into `out`. False, and `out` untouched, when out of bounds.
    #[inline]
    #[must_use]
    pub fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        if !self.contains(offset, out.len()) {
            return false;
        }
        let wide = wide_part(out.len());
        if wide > 0 {
            // SAFETY: `wide <= out.len()`, whose bounds in the region were checked just above; `out` is borrowed mutably, so
            // it does not overlap region memory, of which no reference is ever made.
            unsafe { wide_copy(self.ptr.add(offset).as_ptr(), out.as_mut_ptr(), wide) };
        }
        // SAFETY: the bounds were checked just above, and the region keeps the memory alive (invariant 1).
        unsafe { copy_out(self.ptr.add(offset + wide).as_ptr(), &mut out[wide..]) };
        true
    }

    /// Copies `bytes` to `offset`. False, and nothing written, when out of bounds.
    #[inline]
    #[must_use]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        if !self.contains(offset, bytes.len()) {
            return false;
        }
        let wide = wide_part(bytes.len());
        if wide > 0 {
            // SAFETY: as in `read`.
            unsafe { wide_copy(bytes.as_ptr(), self.ptr.add(offset).as_ptr(), wide) };
        }
        // SAFETY: as in `read`.
        unsafe { copy_in(self.ptr.add(offset + wide).as_ptr(), &bytes[wide..]) };
        true
    }

    /// Sets `len` bytes from `offset` to `byte`. False, and nothing written, when out of bounds.
    #[must_use]
    pub fn fill(&self, offset: usize, len: usize, byte: u8) -> bool {
        if !self.contains(offset, len) {
            return false;
        }
        let block = [byte; 64];
        let mut done = 0;
        while done < len {
            // The first step ends on a word, so that all later ones run in whole words.
            let to_word = (self.ptr.addr().get() + offset + done).wrapping_neg() % 8;
            let step = if to_word == 0 { 64 } else { to_word }.min(len - done);
            // SAFETY: `done + step <= len`, and `offset + len` is within the region.
            unsafe { copy_in(self.ptr.add(offset + done).as_ptr(), &block[..step]) };
            done += step;
        }
        true
    }

    /// The word at `offset`, relaxed, in the machine's byte order. `None` when out of bounds or when its address is not a
    /// multiple of 8.
    #[inline]
    pub fn load_u64(&self, offset: usize) -> Option<u64> {
        Some(self.atomic_u64(offset)?.load(Ordering::Relaxed))
    }

    /// Stores the word at `offset`, relaxed, in the machine's byte order. False when out of bounds or when its address
    /// is not a multiple of 8.
    #[inline]
    #[must_use]
    pub fn store_u64(&self, offset: usize, value: u64) -> bool {
        let Some(word) = self.atomic_u64(offset) else { return false };
        word.store(value, Ordering::Relaxed);
        true
    }

    /// The word at `offset` as an atomic. `None` when out of bounds or when its address is not a multiple of 8.
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        if !self.contains(offset, 8) || !self.is_aligned_at(offset, 8) {
            return None;
        }
        // SAFETY: the bounds and the alignment were checked just above.
        Some(unsafe { self.word(offset) })
    }

    /// The four bytes at `offset` as an atomic. `None` when out of bounds or when their address is not a multiple of 4.
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        if !self.contains(offset, 4) || !self.is_aligned_at(offset, 4) {
            return None;
        }
        // SAFETY: bounds and alignment checked; invariants 1 and 2 make the memory valid for atomics while `self` lives.
        Some(unsafe { AtomicU32::from_ptr(self.ptr.add(offset).as_ptr().cast()) })
    }

    /// Whether the address at `offset` is a multiple of `align`, a power of two.
    #[inline]
    pub(crate) fn is_aligned_at(&self, offset: usize, align: usize) -> bool {
        self.ptr.addr().get().wrapping_add(offset) & (align - 1) == 0
    }

    /// The word at `offset`, unchecked: what a ring uses once its shape was checked.
    ///
    /// # Safety
    /// `offset + 8 <= len`, and the address at `offset` is a multiple of 8.
    #[inline]
    pub(crate) unsafe fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the caller vouches for bounds and alignment; the region keeps the memory alive while it is borrowed
        // (invariant 1), and the memory is touched by atomics only (invariant 2).
        unsafe { AtomicU64::from_ptr(self.ptr.add(offset).as_ptr().cast()) }
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("len", &self.len).finish_non_exhaustive()
    }
}

/// How many of `len` bytes are copied in wide words: all whole steps, where the machine has them.
#[inline]
fn wide_part(len: usize) -> usize {
    #[cfg(all(not(miri), target_arch = "x86_64"))]
    if len >= super::wide::STEP && super::wide::is_available() {
        return len - len % super::wide::STEP;
    }
    let _ = len;
    0
}

/// Copies `len` bytes in wide words.
///
/// # Safety
/// Both ranges are valid, at least one of them is region memory, they do not overlap, and `len` came from [`wide_part`] and
/// is not zero.
#[inline]
unsafe fn wide_copy(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: as the caller vouches; `wide_part` gives a non-zero multiple of the step only where the copy is available.
    #[cfg(all(not(miri), target_arch = "x86_64"))]
    unsafe {
        super::wide::copy(src, dst, len);
    }
    #[cfg(not(all(not(miri), target_arch = "x86_64")))]
    let _ = (src, dst, len);
}

/// Copies region memory at `src` into `out`: bytes up to the first aligned word, words, then what is left.
///
/// # Safety
/// The `out.len()` bytes at `src` must be region memory (invariants 1 and 2).
#[inline]
unsafe fn copy_out(mut src: *mut u8, mut out: &mut [u8]) {
    if !src.addr().is_multiple_of(8) {
        let edge;
        (edge, out) = out.split_at_mut((src.addr().wrapping_neg() % 8).min(out.len()));
        for byte in edge {
            // SAFETY: one step per byte of `out`, so `src` stays in the region; a byte is always aligned.
            (*byte, src) = unsafe { (AtomicU8::from_ptr(src).load(Ordering::Relaxed), src.add(1)) };
        }
    }
    // From here on `src` is a multiple of 8, or nothing is left.
    let (blocks, out) = out.as_chunks_mut::<64>();
    for block in blocks {
        // One block is eight loads and eight stores without a branch between them.
        for (k, word) in block.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: the 64 bytes at `src` are region memory, because the block is part of `out`; `src` is aligned.
            *word = unsafe { AtomicU64::from_ptr(src.cast::<u64>().add(k)) }
                .load(Ordering::Relaxed)
                .to_ne_bytes();
        }
        // SAFETY: at most one past the last byte that `out` stands for.
        src = unsafe { src.add(64) };
    }
    if out.is_empty() {
        return;
    }
    let (words, out) = out.as_chunks_mut::<8>();
    for word in words {
        // SAFETY: as in the blocks.
        *word = unsafe { AtomicU64::from_ptr(src.cast()) }.load(Ordering::Relaxed).to_ne_bytes();
        // SAFETY: as in the blocks.
        src = unsafe { src.add(8) };
    }
    let (fours, out) = out.as_chunks_mut::<4>();
    if let [four] = fours {
        // SAFETY: four bytes are left at the aligned `src`.
        *four = unsafe { AtomicU32::from_ptr(src.cast()) }.load(Ordering::Relaxed).to_ne_bytes();
        // SAFETY: as in the blocks.
        src = unsafe { src.add(4) };
    }
    let (twos, out) = out.as_chunks_mut::<2>();
    if let [two] = twos {
        // SAFETY: two bytes are left at `src`, which moved from a multiple of 8 by 0 or 4.
        *two = unsafe { AtomicU16::from_ptr(src.cast()) }.load(Ordering::Relaxed).to_ne_bytes();
        // SAFETY: as in the blocks.
        src = unsafe { src.add(2) };
    }
    if let [last] = out {
        // SAFETY: one byte is left.
        *last = unsafe { AtomicU8::from_ptr(src) }.load(Ordering::Relaxed);
    }
}

/// Copies `bytes` into region memory at `dst`; the mirror of [`copy_out`].
///
/// # Safety
/// The `bytes.len()` bytes at `dst` must be region memory (invariants 1 and 2).
#[inline]
unsafe fn copy_in(mut dst: *mut u8, mut bytes: &[u8]) {
    if !dst.addr().is_multiple_of(8) {
        let edge;
        (edge, bytes) = bytes.split_at((dst.addr().wrapping_neg() % 8).min(bytes.len()));
        for &byte in edge {
            // SAFETY: one step per byte of `bytes`, so `dst` stays in the region; a byte is always aligned.
            unsafe { AtomicU8::from_ptr(dst) }.store(byte, Ordering::Relaxed);
            // SAFETY: at most one past the last byte that `bytes` stands for.
            dst = unsafe { dst.add(1) };
        }
    }
    // From here on `dst` is a multiple of 8, or nothing is left.
    let (blocks, bytes) = bytes.as_chunks::<64>();
    for block in blocks {
        for (k, word) in block.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: the 64 bytes at `dst` are region memory, because the block is part of `bytes`; `dst` is aligned.
            unsafe { AtomicU64::from_ptr(dst.cast::<u64>().add(k)) }
                .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        // SAFETY: as for the edge.
        dst = unsafe { dst.add(64) };
    }
    if bytes.is_empty() {
        return;
    }
    let (words, bytes) = bytes.as_chunks::<8>();
    for word in words {
        // SAFETY: as in the blocks.
        unsafe { AtomicU64::from_ptr(dst.cast()) }.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        // SAFETY: as for the edge.
        dst = unsafe { dst.add(8) };
    }
    let (fours, bytes) = bytes.as_chunks::<4>();
    if let [four] = fours {
        // SAFETY: four bytes are left at the aligned `dst`.
        unsafe { AtomicU32::from_ptr(dst.cast()) }.store(u32::from_ne_bytes(*four), Ordering::Relaxed);
        // SAFETY: as for the edge.
        dst = unsafe { dst.add(4) };
    }
    let (twos, bytes) = bytes.as_chunks::<2>();
    if let [two] = twos {
        // SAFETY: two bytes are left at `dst`, which moved from a multiple of 8 by 0 or 4.
        unsafe { AtomicU16::from_ptr(dst.cast()) }.store(u16::from_ne_bytes(*two), Ordering::Relaxed);
        // SAFETY: as for the edge.
        dst = unsafe { dst.add(2) };
    }
    if let [last] = bytes {
        // SAFETY: one byte is left.
        unsafe { AtomicU8::from_ptr(dst) }.store(*last, Ordering::Relaxed);
    }
}
