//! The shim (`shim/shim.h`), and what makes it safe to use.

use barewire_frame::Pool;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As in the shim.
pub(crate) const CHECKSUM_GOOD: u32 = 1;
pub(crate) const CHECKSUM_BAD: u32 = 2;
pub(crate) const SCATTERED: u32 = 4;

/// A frame in a chunk: `struct bwd_frame`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawFrame {
    pub(crate) chunk: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) flags: u32,
}

/// What a device said when it was opened: `struct bwd_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawInfo {
    port: u16,
    pub(crate) mtu: u16,
    pub(crate) rx_slots: u16,
    pub(crate) tx_slots: u16,
    pub(crate) mac: [u8; 6],
    pub(crate) has_mac: u8,
    pub(crate) is_up: u8,
    driver: [c_char; 64],
}

/// Counts of the device: `struct bwd_stats`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawStats {
    pub(crate) missed: u64,
    pub(crate) no_buffer: u64,
    pub(crate) rx_errors: u64,
    pub(crate) tx_errors: u64,
}

#[repr(C)]
struct RawPool {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn bwd_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn bwd_version() -> *const c_char;
    fn bwd_words(error: c_int) -> *const c_char;
    fn bwd_pool_new(
        name: *const c_char,
        base: *mut c_void,
        len: usize,
        chunks: u32,
        chunk_len: u32,
    ) -> *mut RawPool;
    fn bwd_pool_free(pool: *mut RawPool);
    fn bwd_pool_give(pool: *mut RawPool, chunk: u32) -> c_int;
    fn bwd_pool_take(pool: *mut RawPool) -> u32;
    fn bwd_pool_count(pool: *const RawPool) -> u32;
    fn bwd_open(
        devargs: *const c_char,
        pool: *mut RawPool,
        rx_slots: u16,
        tx_slots: u16,
        mtu: u16,
        promiscuous: c_int,
        info: *mut RawInfo,
        what: *mut *const c_char,
    ) -> c_int;
    fn bwd_close(port: u16, pool: *mut RawPool);
    fn bwd_receive(port: u16, frames: *mut RawFrame, count: u16) -> u16;
    fn bwd_send(port: u16, pool: *mut RawPool, frames: *const RawFrame, count: u16) -> u16;
    fn bwd_reap(port: u16);
    fn bwd_look(port: u16, stats: *mut RawStats, is_up: *mut c_int);
}

/// DPDK's own words for an error of its calls.
fn error_of(code: c_int) -> io::Error {
    let errno = code.checked_neg().unwrap_or(libc::EIO);
    // Its own errors lie above those of the system.
    if errno < 1000 {
        return io::Error::from_raw_os_error(errno);
    }
    // SAFETY: returns a C string that stays valid until this thread calls it again.
    let words = unsafe { CStr::from_ptr(bwd_words(errno)) };
    io::Error::other(words.to_string_lossy().into_owned())
}

/// Starts the environment. Once a process, on a thread of its own.
pub(crate) fn start(arguments: &[CString]) -> io::Result<()> {
    // It keeps pointers into them for as long as the process runs.
    let mut pointers: Vec<*mut c_char> = arguments.iter().map(|a| a.clone().into_raw()).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    // SAFETY: `count` C strings and a null pointer follow; none of them is freed.
    match unsafe { bwd_start(count, pointers.leak().as_mut_ptr()) } {
        0 => Ok(()),
        code => Err(error_of(code)),
    }
}

/// `DPDK 22.11.11`.
pub(crate) fn version() -> String {
    // SAFETY: returns a constant C string.
    unsafe { CStr::from_ptr(bwd_version()) }.to_string_lossy().into_owned()
}

/// The mbufs of a pool, and the chunks that DPDK may take. The environment runs.
pub(crate) struct Mbufs {
    raw: NonNull<RawPool>,
    /// The memory that they stand for stays mapped.
    _pool: Pool,
}

impl Mbufs {
    pub(crate) fn new(name: &CStr, pool: &Pool) -> io::Result<Mbufs> {
        let (base, len) = pool.region();
        let (chunks, chunk_len) = (pool.capacity() as u32, pool.chunk_len());
        // SAFETY: the region has `chunks` chunks of `chunk_len` bytes, and stays mapped while `_pool` lives.
        let raw = unsafe { bwd_pool_new(name.as_ptr(), base.as_ptr().cast(), len, chunks, chunk_len) };
        NonNull::new(raw)
            .map(|raw| Mbufs { raw, _pool: pool.clone() })
            .ok_or_else(|| error_of(-io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM)))
    }

    /// Lets DPDK take a chunk, which nobody else uses meanwhile.
    pub(crate) fn give(&mut self, chunk: u32) {
        debug_assert!((chunk as usize) < self._pool.capacity());
        // SAFETY: one thread (`Pool` is not `Send`); a chunk is below the capacity, and the stack has room for each once.
        unsafe { bwd_pool_give(self.raw.as_ptr(), chunk) };
    }

    /// Takes back one that DPDK does not use.
    pub(crate) fn take(&mut self) -> Option<u32> {
        // SAFETY: as in `give`.
        match unsafe { bwd_pool_take(self.raw.as_ptr()) } {
            u32::MAX => None,
            chunk => Some(chunk),
        }
    }

    /// Chunks that DPDK may take.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        // SAFETY: as in `give`.
        unsafe { bwd_pool_count(self.raw.as_ptr()) }
    }
}

impl Drop for Mbufs {
    fn drop(&mut self) {
        // SAFETY: made by `bwd_pool_new`; the device that used it is closed (`Device` goes first).
        unsafe { bwd_pool_free(self.raw.as_ptr()) }
    }
}

/// DPDK's list of devices is the process's, and plugging in and out is for one thread at a time.
fn plugging() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device that runs on the mbufs it was opened with.
pub(crate) struct Device {
    port: u16,
    pub(crate) mbufs: Mbufs,
}

impl Device {
    /// Opens it. What failed, with the error, if so.
    pub(crate) fn open(
        devargs: &CStr,
        mbufs: Mbufs,
        [rx_slots, tx_slots]: [u16; 2],
        mtu: Option<u16>,
        promiscuous: bool,
    ) -> Result<(Device, RawInfo), (String, io::Error)> {
        let mut info = RawInfo {
            port: 0,
            mtu: 0,
            rx_slots: 0,
            tx_slots: 0,
            mac: [0; 6],
            has_mac: 0,
            is_up: 0,
            driver: [0; 64],
        };
        let mut what = c"opening the device".as_ptr();
        let _turn = plugging();
        // SAFETY: C strings and out parameters that live through the call; the mbufs outlive the device.
        let code = unsafe {
            bwd_open(
                devargs.as_ptr(),
                mbufs.raw.as_ptr(),
                rx_slots,
                tx_slots,
                mtu.unwrap_or(0),
                c_int::from(promiscuous),
                &mut info,
                &mut what,
            )
        };
        if code != 0 {
            // SAFETY: the shim lets it point at constant C strings.
            let what = unsafe { CStr::from_ptr(what) }.to_string_lossy().into_owned();
            return Err((what, error_of(code)));
        }
        Ok((Device { port: info.port, mbufs }, info))
    }

    /// Receives: how many of `frames` were filled. Each chunk is the caller's then.
    #[inline]
    pub(crate) fn receive(&mut self, frames: &mut [RawFrame]) -> usize {
        // SAFETY: the port is open, and `frames` has room for so many.
        usize::from(unsafe { bwd_receive(self.port, frames.as_mut_ptr(), frames.len() as u16) })
    }

    /// Sends: how many from the front the driver took. Their chunks are the driver's until they are on the stack again.
    ///
    /// # Safety
    /// Each frame lies within its chunk of this pool, and nobody else uses that chunk.
    #[inline]
    pub(crate) unsafe fn send(&mut self, frames: &[RawFrame]) -> usize {
        let mbufs = self.mbufs.raw.as_ptr();
        // SAFETY: the port is open; the frames are the caller's condition.
        usize::from(unsafe { bwd_send(self.port, mbufs, frames.as_ptr(), frames.len() as u16) })
    }

    /// Lets the driver free what it has sent.
    pub(crate) fn reap(&mut self) {
        // SAFETY: the port is open.
        unsafe { bwd_reap(self.port) }
    }

    /// The device's counts, and whether its link is up.
    pub(crate) fn look(&self) -> (RawStats, bool) {
        let (mut stats, mut is_up) = (RawStats::default(), 0);
        // SAFETY: the port is open, and both live through the call.
        unsafe { bwd_look(self.port, &mut stats, &mut is_up) };
        (stats, is_up != 0)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _turn = plugging();
        // SAFETY: the port is open, and is not used after this.
        unsafe { bwd_close(self.port, self.mbufs.raw.as_ptr()) }
    }
}

impl RawInfo {
    /// The driver's name.
    pub(crate) fn driver(&self) -> String {
        let bytes: Vec<u8> = self.driver.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
