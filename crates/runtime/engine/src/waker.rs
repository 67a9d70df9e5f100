//! Waking an engine from another thread, and stopping engines.

use crate::{EngineError, sys};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Release},
};

/// An eventfd, non-blocking.
#[derive(Debug)]
struct Event(File);

impl Event {
    fn new() -> Result<Event, EngineError> {
        let fd = sys::eventfd().map_err(|source| EngineError::Sys { call: "eventfd", source })?;
        Ok(Event(File::from(fd)))
    }

    /// Makes it readable. The one failure that can happen is a full counter, and then it is readable already.
    fn signal(&self) {
        while let Err(error) = (&self.0).write(&1u64.to_ne_bytes()) {
            if error.kind() != ErrorKind::Interrupted {
                break;
            }
        }
    }

    /// Makes it unreadable; no harm when it was.
    fn drain(&self) {
        let _ = (&self.0).read(&mut [0u8; 8]);
    }
}

/// The engine is awake and nobody called.
const AWAKE: u32 = 0;
/// Somebody called since the engine last prepared to sleep.
const CALLED: u32 = 1;
/// The engine sleeps or is about to: a caller has to signal the eventfd.
const PARKED: u32 = 2;

#[derive(Debug)]
struct WakerInner {
    state: AtomicU32,
    event: Event,
}

/// Wakes one engine. After [`wake`](Waker::wake) every agent of that engine is asked to work at least once more, and
/// sees all that the caller wrote before. While the engine is awake a call costs one atomic swap and no system call.
#[derive(Clone, Debug)]
pub struct Waker(Arc<WakerInner>);

impl Waker {
    /// A waker for an engine yet to be made (see [`EngineLinks`](crate::EngineLinks)). One waker serves one engine.
    ///
    /// # Errors
    /// [`EngineError::Sys`] when the process or the system has no descriptor left.
    pub fn new() -> Result<Waker, EngineError> {
        Ok(Waker(Arc::new(WakerInner { state: AtomicU32::new(AWAKE), event: Event::new()? })))
    }

    /// Wakes the engine, or keeps it from falling asleep.
    #[inline]
    pub fn wake(&self) {
        // Swaps of one word are totally ordered. Either this one comes before the engine's move to PARKED, which then
        // fails and acquires what we released; or after it, and we see PARKED and signal.
        if self.0.state.swap(CALLED, AcqRel) == PARKED {
            self.0.event.signal();
        }
    }

    /// Announces the sleep. False when somebody has called: do not sleep, look again.
    pub(crate) fn prepare(&self) -> bool {
        let parked = self.0.state.compare_exchange(AWAKE, PARKED, AcqRel, Acquire).is_ok();
        if !parked {
            self.0.state.swap(AWAKE, AcqRel);
        }
        parked
    }

    /// Takes the announcement back. A caller that saw PARKED may signal only after this; its signal then ends the next
    /// sleep early, once, which is harmless.
    pub(crate) fn finish(&self) {
        self.0.state.swap(AWAKE, AcqRel);
    }

    /// Clears the eventfd, after a sleep that it ended.
    pub(crate) fn drain(&self) {
        self.0.event.drain();
    }
}

/// The eventfd behind the waker: another process that holds it wakes the engine by writing 8 bytes, at the price of a
/// system call each time.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.0.as_fd()
    }
}

#[derive(Debug)]
struct StopInner {
    stopped: AtomicBool,
    event: Event,
}

/// Stops any number of engines, once and for good.
#[derive(Clone, Debug)]
pub struct StopFlag(Arc<StopInner>);

impl StopFlag {
    /// A flag not yet raised.
    ///
    /// # Errors
    /// [`EngineError::Sys`] when the process or the system has no descriptor left.
    pub fn new() -> Result<StopFlag, EngineError> {
        Ok(StopFlag(Arc::new(StopInner { stopped: AtomicBool::new(false), event: Event::new()? })))
    }

    /// Raises the flag and wakes every engine that runs under it. May be called again, from any thread, and from a signal
    /// handler (one atomic store and one `write`).
    pub fn stop(&self) {
        self.0.stopped.store(true, Release);
        // Never drained, so it ends every later sleep as well.
        self.0.event.signal();
    }

    /// Has it been raised?
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Acquire)
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.0.event.0.as_raw_fd()
    }
}

/// Readable from the moment the flag is raised, for threads that wait in a `poll` of their own. Do not read from it.
impl AsFd for StopFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_before_the_sleep_prevents_it() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(!waker.prepare());
        assert!(waker.prepare(), "one call prevents one sleep");
        waker.finish();
        assert!(waker.prepare());
    }

    #[test]
    fn only_a_parked_engine_costs_a_signal() {
        let waker = Waker::new().unwrap();
        let mut bytes = [0u8; 8];
        waker.wake();
        assert!((&waker.0.event.0).read(&mut bytes).is_err(), "awake: nothing was written");
        assert!(!waker.prepare());
        assert!(waker.prepare());
        waker.wake();
        waker.wake();
        assert_eq!((&waker.0.event.0).read(&mut bytes).unwrap(), 8);
        assert_eq!(u64::from_ne_bytes(bytes), 1, "the second call found it called already");
    }
}
