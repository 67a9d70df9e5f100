//! Entries: opening, running, replaying.

use crate::boundary::{Failure, get, guard, last_text, put, text};
use crate::callbacks::{self, BwfCallbacks};
use crate::error::{self, BWF_ERR_INVALID};
use crate::session::{self, Session, with};
use crate::types::{BWF_OFFLINE, BwfFeed};
use barewire_base::Duration;
use barewire_feed_handler::{ChannelFile, ConfigError, Plan};
use barewire_port::Speed;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Version of this ABI: grows when something is added, and the library's name changes when something is taken away.
pub const BWF_ABI_VERSION: u32 = 1;
/// Captures of one replay, at most.
pub const BWF_CAPTURES_MAX: usize = 64;

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn bwf_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero byte"),
        };
    VERSION.as_ptr()
}

/// The BWF_ABI_VERSION that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_abi_version() -> u32 {
    BWF_ABI_VERSION
}

/// What a code means. Never null; the text is static.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_strerror(code: c_int) -> *const c_char {
    error::text_of(code).as_ptr()
}

/// More about this thread's last failure: of a configuration the file, the place and the nearest right word. Never null; valid
/// until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_last_error() -> *const c_char {
    last_text()
}

/// A C string as a path, whatever its bytes.
///
/// # Safety
/// `path` is null, or ends with a zero byte.
unsafe fn path_of(path: *const c_char) -> Result<PathBuf, Failure> {
    if path.is_null() {
        return Err(BWF_ERR_INVALID.into());
    }
    // SAFETY: not null, so a C string by this function's contract.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)).to_owned())
}

/// Opens a handler of a plan that is read when the other arguments are found good.
///
/// # Safety
/// `callbacks` is null or valid for as many bytes as its size says; `feed` is null or valid for a write.
unsafe fn open(
    plan: impl FnOnce() -> Result<Plan, ConfigError>,
    callbacks: *const BwfCallbacks,
    flags: u32,
    feed: *mut *mut BwfFeed,
) -> Result<c_int, Failure> {
    // SAFETY: this function's contract.
    unsafe { put(feed, std::ptr::null_mut()) }?;
    // SAFETY: this function's contract.
    let callbacks = unsafe { callbacks::read(callbacks) }?;
    if flags & !BWF_OFFLINE != 0 {
        return Err(BWF_ERR_INVALID.into());
    }
    let ticket = session::insert(Session::open(plan()?, callbacks, flags & BWF_OFFLINE != 0)?)?;
    // SAFETY: this function's contract.
    unsafe { put(feed, std::ptr::without_provenance_mut(ticket)) }?;
    Ok(0)
}

/// Opens the feed channels of a configuration file, and what they receive from: sockets, or ports. All memory is taken here.
/// The handler belongs to this thread.
///
/// @param path       The configuration (TOML); the paths in it are relative to its folder.
/// @param callbacks  What to call; copied. Null: nothing, the books are asked for.
/// @param flags      0, or BWF_OFFLINE to open nothing and replay captures; then nothing is recorded, either.
/// @param feed       Receives the handler.
/// @return BWF_OK, BWF_ERR_INVALID, BWF_ERR_VERSION, BWF_ERR_CONFIG, BWF_ERR_SOURCE, BWF_ERR_SYSTEM, BWF_ERR_TOO_MANY.
///
/// # Safety
/// Strings end with a zero byte; other pointers that are not null are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_open(
    path: *const c_char,
    callbacks: *const BwfCallbacks,
    flags: u32,
    feed: *mut *mut BwfFeed,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let path = unsafe { path_of(path) }?;
        // SAFETY: this entry's contract.
        unsafe { open(|| Plan::read(&path), callbacks, flags, feed) }
    })
}

/// As bwf_open, of a configuration's text. The channel file that it may name is relative to the current folder.
///
/// # Safety
/// Strings end with a zero byte; other pointers that are not null are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_open_text(
    toml: *const c_char,
    callbacks: *const BwfCallbacks,
    flags: u32,
    feed: *mut *mut BwfFeed,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let toml = unsafe { text(toml) }.ok_or(BWF_ERR_INVALID)?;
        let plan = || Plan::parse(&toml, "configuration", &mut ChannelFile::read);
        // SAFETY: this entry's contract.
        unsafe { open(plan, callbacks, flags, feed) }
    })
}

/// Ends a handler. Null does nothing. Not from its callbacks, and on its own thread only.
///
/// @return BWF_OK; BWF_ERR_SYSTEM when what was recorded could not be written out (it is closed all the same);
///         BWF_ERR_HANDLE, BWF_ERR_BUSY, BWF_ERR_REENTRANT, BWF_ERR_THREAD when it is not closed.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_close(feed: *mut BwfFeed) -> c_int {
    guard(|| {
        if !feed.is_null() {
            session::close(feed)?;
        }
        Ok(0)
    })
}

/// Does whatever there is to do now; the callbacks run in here. Never blocks. For programs with a loop of their own; a loop
/// that does nothing else polls.
///
/// @return How many packets that were, or BWF_ERR_SOURCE when receiving no longer works, BWF_ERR_MODE.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_process(feed: *mut BwfFeed) -> c_int {
    guard(|| with(feed, |session, _| Ok(session.process()? as c_int)))
}

/// Runs the handler on this thread, idling and pinned as the configuration says, until bwf_stop is called, every source is at
/// its end (a capture as a port), or the time is over. May be called again.
///
/// @param timeout_ms  Negative: for ever.
/// @return BWF_STOPPED, BWF_TIMED_OUT, BWF_OK at the end of every source, BWF_ERR_SOURCE, BWF_ERR_SYSTEM, BWF_ERR_MODE.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_run(feed: *mut BwfFeed, timeout_ms: i32) -> c_int {
    guard(|| {
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        with(feed, |session, stop| session.run(stop, timeout))
    })
}

/// Ends the bwf_run or bwf_replay that is under way, after the packet at hand, or the next one when none is. From any thread,
/// from inside callbacks, and from a signal handler. Not while another thread closes the handler.
///
/// @return BWF_OK, BWF_ERR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_stop(feed: *mut BwfFeed) -> c_int {
    guard(|| session::stop(feed).map(|()| 0))
}

/// Begins a replay of captures (pcap or pcapng), merged by their stamps. The books begin empty, also those of an earlier replay.
///
/// @param paths  `count` of them, 1 to BWF_CAPTURES_MAX.
/// @return BWF_OK, BWF_ERR_CAPTURE, BWF_ERR_MODE without BWF_OFFLINE, BWF_ERR_INVALID.
///
/// # Safety
/// `paths` is valid for `count` strings, which end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_replay_open(
    feed: *mut BwfFeed,
    paths: *const *const c_char,
    count: usize,
) -> c_int {
    guard(|| {
        if !(1..=BWF_CAPTURES_MAX).contains(&count) || paths.is_null() {
            return Err(BWF_ERR_INVALID.into());
        }
        let path = |index| {
            // SAFETY: `index` is below `count`, for which `paths` is valid by this entry's contract.
            let path = unsafe { get(paths.add(index)) }?;
            // SAFETY: this entry's contract.
            unsafe { path_of(path) }
        };
        let paths = (0..count).map(path).collect::<Result<Vec<_>, _>>()?;
        with(feed, |session, _| session.replay_open(&paths).map(|()| 0))
    })
}

/// Goes on with the replay to its end, or until bwf_stop is called; then it may be called again. Timers run by the captures'
/// time, so callbacks and books are the same at every speed.
///
/// @param speed    0: as fast as possible. Else how many times as fast as it was captured.
/// @param packets  Receives how many packets of the configuration's channels that were; may be null.
/// @return BWF_OK at the end, BWF_STOPPED, BWF_ERR_CAPTURE for one that is damaged here, BWF_ERR_MODE before
///         bwf_replay_open, BWF_ERR_INVALID.
///
/// # Safety
/// `packets` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_replay(feed: *mut BwfFeed, speed: f64, packets: *mut u64) -> c_int {
    guard(|| {
        let speed = match speed {
            0.0 => Speed::Flat,
            times if times.is_finite() && times > 0.0 => Speed::Times(times),
            _ => return Err(BWF_ERR_INVALID.into()),
        };
        let (how, count) = with(feed, |session, stop| session.replay(stop, speed))?;
        if !packets.is_null() {
            // SAFETY: this entry's contract.
            unsafe { put(packets, count) }?;
        }
        Ok(how)
    })
}
