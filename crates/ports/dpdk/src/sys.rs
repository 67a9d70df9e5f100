//! The shim (`shim/shim.h`), and what makes it safe to use.

use barewire_frame::Pool;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::ptr::NonNull;

/// As in the shim.
pub(crate) const CHECKSUM_GOOD: u32 = 1;
pub(crate) const CHECKSUM_BAD: u32 = 2;
pub(crate) const SCATTERED: u32 = 4;
pub(crate) const CHECKSUM_NONE: u32 = 8;
pub(crate) const TX_UDP: u32 = 1;
pub(crate) const TX_TCP: u32 = 2;
pub(crate) const TX_IPV6: u32 = 4;
/// Bits of [`RawInfo::offloads`].
pub(crate) const RX_CHECKS: u32 = 1;
pub(crate) const TX_COMPLETES_UDP: u32 = 2;
pub(crate) const TX_COMPLETES_TCP: u32 = 4;
pub(crate) const RX_HASHES: u32 = 8;
const KEY_MAX: usize = 64;
const TABLE_MAX: usize = 2048;

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
    pub(crate) port: u16,
    pub(crate) mtu: u16,
    pub(crate) rx_slots: u16,
    pub(crate) tx_slots: u16,
    /// Queues that it can have, then those that it has.
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    pub(crate) mac: [u8; 6],
    pub(crate) has_mac: u8,
    pub(crate) is_up: u8,
    pub(crate) offloads: u32,
    driver: [c_char; 64],
}

/// How a device chooses a queue: `struct bwd_rss`.
#[repr(C)]
struct RawRss {
    key_len: u16,
    table_len: u16,
    udp4: u8,
    udp6: u8,
    key: [u8; KEY_MAX],
    table: [u16; TABLE_MAX],
}

/// The same: key, queues, and whether UDP ports count over IPv4 and over IPv6.
pub(crate) struct Hashing {
    pub(crate) key: Vec<u8>,
    pub(crate) table: Vec<u32>,
    pub(crate) udp_ports: [bool; 2],
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
pub(crate) struct RawPool {
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
    fn bwd_plug(devargs: *const c_char, info: *mut RawInfo, what: *mut *const c_char) -> c_int;
    fn bwd_configure(mtu: u16, info: *mut RawInfo, what: *mut *const c_char) -> c_int;
    fn bwd_serve(info: *const RawInfo, queue: u16, pool: *mut RawPool, what: *mut *const c_char) -> c_int;
    fn bwd_run(promiscuous: c_int, info: *mut RawInfo, what: *mut *const c_char) -> c_int;
    fn bwd_stop(port: u16);
    fn bwd_unmap(pool: *mut RawPool);
    fn bwd_close(port: u16);
    fn bwd_rss(port: u16, rss: *mut RawRss) -> c_int;
    fn bwd_receive(port: u16, queue: u16, pool: *const RawPool, frames: *mut RawFrame, count: u16) -> u16;
    fn bwd_send(
        port: u16,
        queue: u16,
        pool: *mut RawPool,
        frames: *const RawFrame,
        count: u16,
        refused: *mut u16,
    ) -> u16;
    fn bwd_reap(port: u16, queue: u16);
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

    /// For the device that receives into them, which is closed before they go.
    pub(crate) fn raw(&self) -> NonNull<RawPool> {
        self.raw
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
        // SAFETY: made by `bwd_pool_new`; the device that used it is closed (`Member` goes first).
        unsafe { bwd_pool_free(self.raw.as_ptr()) }
    }
}

/// What failed, in the shim's words, and the error; or all of it in words.
pub(crate) type Failed = (String, Option<io::Error>);

/// Runs a step of opening a device.
fn step(run: impl FnOnce(*mut *const c_char) -> c_int) -> Result<(), Failed> {
    let mut what = c"opening the device".as_ptr();
    match run(&mut what) {
        0 => Ok(()),
        code => {
            // SAFETY: the shim lets it point at constant C strings.
            let what = unsafe { CStr::from_ptr(what) }.to_string_lossy().into_owned();
            Err((what, Some(error_of(code))))
        }
    }
}

/// A device that is plugged in. One thread at a time plugs in, configures, serves, runs and closes: DPDK's list of devices is the process's.
#[derive(Clone, Copy)]
pub(crate) struct Plugged {
    pub(crate) info: RawInfo,
}

impl Plugged {
    /// Plugs it in. It can have as many queues as its `info` says.
    pub(crate) fn new(devargs: &CStr) -> Result<Plugged, Failed> {
        let mut info = RawInfo {
            port: 0,
            mtu: 0,
            rx_slots: 0,
            tx_slots: 0,
            rx_queues: 0,
            tx_queues: 0,
            mac: [0; 6],
            has_mac: 0,
            is_up: 0,
            offloads: 0,
            driver: [0; 64],
        };
        // SAFETY: a C string and an out parameter that live through the call.
        step(|what| unsafe { bwd_plug(devargs.as_ptr(), &mut info, what) })?;
        Ok(Plugged { info })
    }

    /// Gives it the queues and slots that its `info` asks for.
    pub(crate) fn configure(&mut self, mtu: Option<u16>) -> Result<(), Failed> {
        // SAFETY: the port is plugged in, and the out parameter lives through the call.
        step(|what| unsafe { bwd_configure(mtu.unwrap_or(0), &mut self.info, what) })
    }

    /// Lets a queue receive into a pool.
    ///
    /// # Safety
    /// The pool outlives the device, and its thread uses it no more until the device runs or is closed.
    pub(crate) unsafe fn serve(&mut self, queue: u16, pool: NonNull<RawPool>) -> Result<(), Failed> {
        // SAFETY: the port is configured; the pool is the caller's condition.
        step(|what| unsafe { bwd_serve(&self.info, queue, pool.as_ptr(), what) })
    }

    /// Starts it. Each of its queues is served.
    pub(crate) fn run(&mut self, promiscuous: bool) -> Result<(), Failed> {
        // SAFETY: the port is configured, and the out parameter lives through the call.
        step(|what| unsafe { bwd_run(c_int::from(promiscuous), &mut self.info, what) })
    }

    /// Stops it and unplugs it.
    ///
    /// # Safety
    /// Once, and nobody uses the port or one of the pools meanwhile, nor the port afterwards. The pools are there.
    pub(crate) unsafe fn close(&self, pools: &[NonNull<RawPool>]) {
        // SAFETY: the caller's condition.
        unsafe { bwd_stop(self.info.port) }
        // Only now: a device that runs writes into chunks, and reads those that wait to be sent.
        for pool in pools {
            // SAFETY: the caller's condition.
            unsafe { bwd_unmap(pool.as_ptr()) }
        }
        // SAFETY: the caller's condition.
        unsafe { bwd_close(self.info.port) }
    }

    /// How it chooses the queue of a frame, where it says so.
    pub(crate) fn hashing(&self) -> Option<Hashing> {
        let mut raw = Box::new(RawRss {
            key_len: 0,
            table_len: 0,
            udp4: 0,
            udp6: 0,
            key: [0; KEY_MAX],
            table: [0; TABLE_MAX],
        });
        // SAFETY: the port is plugged in, and the out parameter lives through the call.
        if unsafe { bwd_rss(self.info.port, &mut *raw) } != 0 {
            return None;
        }
        Some(Hashing {
            key: raw.key.get(..usize::from(raw.key_len))?.to_vec(),
            table: raw.table.get(..usize::from(raw.table_len))?.iter().map(|q| u32::from(*q)).collect(),
            udp_ports: [raw.udp4 != 0, raw.udp6 != 0],
        })
    }
}

/// Queues of a device that runs: what one thread does with them.
pub(crate) struct Queues {
    port: u16,
    /// Receive queues of this thread's own, and which is next.
    rx: Vec<u16>,
    next: usize,
    tx: u16,
}

impl Queues {
    pub(crate) fn new(port: u16, rx: Vec<u16>, tx: u16) -> Queues {
        Queues { port, rx, next: 0, tx }
    }

    /// Whether the device's first queue is among them.
    pub(crate) fn has_first(&self) -> bool {
        self.rx.contains(&0)
    }

    /// Receives, from each queue in turn: how many of `frames` were filled. Each chunk is the caller's then.
    ///
    /// # Safety
    /// The device runs meanwhile, and receives into `mbufs` on these queues, which no other thread uses.
    #[inline]
    pub(crate) unsafe fn receive(&mut self, mbufs: &mut Mbufs, frames: &mut [RawFrame]) -> usize {
        let mut found = 0;
        for _ in 0..self.rx.len() {
            let queue = self.rx[self.next];
            self.next = if self.next + 1 == self.rx.len() { 0 } else { self.next + 1 };
            let room = frames.len() - found;
            let to = &mut frames[found..];
            // SAFETY: `to` has so much room; the rest is the caller's condition.
            found += usize::from(unsafe {
                bwd_receive(self.port, queue, mbufs.raw.as_ptr(), to.as_mut_ptr(), room as u16)
            });
            if found == frames.len() {
                break;
            }
        }
        found
    }

    /// Sends: how many from the front the driver took, and how many of these it can never send. Their chunks are the driver's until they are
    /// on the stack again.
    ///
    /// # Safety
    /// The device runs meanwhile; no other thread uses the transmit queue or `mbufs`. Each frame lies within its chunk of this pool, and
    /// nobody else uses that chunk.
    #[inline]
    pub(crate) unsafe fn send(&mut self, mbufs: &mut Mbufs, frames: &[RawFrame]) -> (usize, usize) {
        let (mut refused, count) = (0, frames.len() as u16);
        // SAFETY: the caller's condition.
        let sent =
            unsafe { bwd_send(self.port, self.tx, mbufs.raw.as_ptr(), frames.as_ptr(), count, &mut refused) };
        (usize::from(sent), usize::from(refused))
    }

    /// Lets the driver free what it has sent.
    ///
    /// # Safety
    /// The device runs meanwhile, and no other thread uses the transmit queue.
    pub(crate) unsafe fn reap(&mut self) {
        // SAFETY: the caller's condition.
        unsafe { bwd_reap(self.port, self.tx) }
    }

    /// The device's counts, and whether its link is up.
    ///
    /// # Safety
    /// The device runs meanwhile.
    pub(crate) unsafe fn look(&self) -> (RawStats, bool) {
        let (mut stats, mut is_up) = (RawStats::default(), 0);
        // SAFETY: the caller's condition, and both live through the call.
        unsafe { bwd_look(self.port, &mut stats, &mut is_up) };
        (stats, is_up != 0)
    }
}

impl RawInfo {
    /// The driver's name.
    pub(crate) fn driver(&self) -> String {
        let bytes: Vec<u8> = self.driver.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
