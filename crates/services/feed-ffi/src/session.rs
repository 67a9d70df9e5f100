//! A feed handler and what C needs beside it: bound to its thread, stopped from any.

use crate::boundary::Failure;
use crate::callbacks::{BwfCallbacks, Calls};
use crate::error::{
    BWF_ERR_HANDLE, BWF_ERR_MODE, BWF_ERR_NO_CHANNEL, BWF_ERR_REENTRANT, BWF_ERR_THREAD, BWF_ERR_TOO_MANY,
    BWF_OK, BWF_STOPPED, BWF_TIMED_OUT,
};
use crate::table::{Miss, SLOTS, Table, slot_of};
use crate::types::BwfFeed;
use barewire_base::{Duration, Instant};
use barewire_channel::Process;
use barewire_engine::{Agent, Engine, EngineError, EngineLinks, StopFlag, Waker, now};
use barewire_feed::Channel;
use barewire_feed_handler::{ChannelPlan, FeedChannel, FeedHandler, Plan, Replay, SourceError};
use barewire_port::Speed;
use std::cell::RefCell;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::thread::{self, ThreadId};

type Handler = FeedHandler<FeedChannel<Calls>>;

/// What C's ticket stands for.
pub(crate) struct Session {
    plan: Plan,
    callbacks: BwfCallbacks,
    /// Shared with the engine of a run only.
    handler: Rc<RefCell<Handler>>,
    offline: bool,
    replay: Option<Replay>,
}

impl Session {
    pub(crate) fn open(
        mut plan: Plan,
        callbacks: BwfCallbacks,
        offline: bool,
    ) -> Result<Session, SourceError> {
        if offline {
            // What is replayed was recorded before; the file may even be the one that is read.
            plan.record = None;
        }
        let start = if offline { Instant::ZERO } else { now() };
        let handler = Rc::new(RefCell::new(Session::handler(&plan, &callbacks, offline, start)?));
        Ok(Session { plan, callbacks, handler, offline, replay: None })
    }

    fn handler(
        plan: &Plan,
        callbacks: &BwfCallbacks,
        offline: bool,
        start: Instant,
    ) -> Result<Handler, SourceError> {
        let builder = FeedHandler::builder(plan.clone()).start(start);
        let builder = if offline { builder.sources(vec![]) } else { builder };
        builder.listen(|index, _| Calls::new(*callbacks, index.into()))
    }

    fn must(&self, offline: bool) -> Result<(), Failure> {
        if self.offline == offline { Ok(()) } else { Err(BWF_ERR_MODE.into()) }
    }

    /// Does what there is to do, and says how many packets that was.
    #[inline]
    pub(crate) fn process(&mut self) -> Result<usize, Failure> {
        self.must(false)?;
        Ok(self.handler.borrow_mut().process(now())?)
    }

    /// Runs in an engine, with its idle strategy, until it is stopped, its sources are at their end, or the time is over.
    pub(crate) fn run(&mut self, stop: Stop, timeout: Option<Duration>) -> Result<c_int, Failure> {
        self.must(false)?;
        let links = EngineLinks { waker: Some(stop.waker()?), ..EngineLinks::default() };
        let mut engine = Engine::with_links(self.plan.engine_config(), links)?;
        let outcome = Rc::new(RefCell::new(None));
        let flag = StopFlag::new()?;
        engine.add(Box::new(Driver {
            name: self.plan.name.clone(),
            handler: Rc::clone(&self.handler),
            stop,
            flag: flag.clone(),
            end: timeout.map(|timeout| now() + timeout),
            outcome: Rc::clone(&outcome),
        }));
        engine.run(&flag);
        drop(engine);
        if stop.is_parents() {
            return Err(Failure::new(BWF_ERR_HANDLE, PARENTS));
        }
        let ended = outcome.borrow_mut().take().unwrap_or(Ok(BWF_STOPPED))?;
        if ended == BWF_STOPPED {
            stop.take();
        }
        match self.handler.borrow().failure() {
            Some(e) => Err(Failure::new(crate::error::BWF_ERR_SYSTEM, e.to_string())),
            None => Ok(ended),
        }
    }

    /// Begins a replay, with empty books.
    pub(crate) fn replay_open(&mut self, captures: &[PathBuf]) -> Result<(), Failure> {
        self.must(true)?;
        let replay = Replay::open(captures, &self.plan.channels, true)?;
        let start = replay.next_at().unwrap_or(Instant::ZERO);
        let handler = Session::handler(&self.plan, &self.callbacks, true, start)?;
        self.handler = Rc::new(RefCell::new(handler));
        self.replay = Some(replay);
        Ok(())
    }

    /// Goes on with the replay to its end, or until it is stopped; and how many packets that were.
    pub(crate) fn replay(&mut self, stop: Stop, speed: Speed) -> Result<(c_int, u64), Failure> {
        self.must(true)?;
        let replay = self.replay.as_mut().ok_or(BWF_ERR_MODE)?;
        let packets = self.handler.borrow_mut().replay_while(replay, speed, &|| !stop.is_asked())?;
        match replay.next_at() {
            None => Ok((BWF_OK, packets)),
            Some(_) => {
                stop.take();
                Ok((BWF_STOPPED, packets))
            }
        }
    }

    /// The feed channels of the configuration.
    pub(crate) fn channels(&self) -> &[ChannelPlan] {
        &self.plan.channels
    }

    /// Looks at a channel's books.
    pub(crate) fn look<R>(
        &self,
        channel: u32,
        look: impl FnOnce(&Channel) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let handler = self.handler.borrow();
        let channel = handler.channels().get(channel as usize).ok_or(BWF_ERR_NO_CHANNEL)?;
        look(channel.core())
    }

    /// Names and values of what the sources have counted.
    pub(crate) fn source_counts(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        for source in self.handler.borrow().sources() {
            source.counts(tell);
        }
        if let Some(replay) = &self.replay {
            tell("packets", replay.counts().packets.get());
            for (reason, count) in replay.counts().drops.iter() {
                tell(reason.as_str(), count);
            }
        }
    }

    /// Writes out what was recorded.
    pub(crate) fn flush(&mut self) -> Result<(), SourceError> {
        match self.handler.borrow_mut().recorder_mut() {
            Some(recorder) => recorder.flush(),
            None => Ok(()),
        }
    }
}

/// The handler as an agent of the engine of one run.
struct Driver {
    name: String,
    handler: Rc<RefCell<Handler>>,
    stop: Stop,
    flag: StopFlag,
    end: Option<Instant>,
    outcome: Rc<RefCell<Option<Result<c_int, SourceError>>>>,
}

impl Driver {
    #[cold]
    fn finish(&self, how: Result<c_int, SourceError>) -> usize {
        self.outcome.borrow_mut().get_or_insert(how);
        self.flag.stop();
        0
    }
}

impl Agent for Driver {
    fn name(&self) -> &str {
        &self.name
    }

    fn do_work(&mut self, now: Instant) -> usize {
        if self.stop.is_parents() {
            // A child that was forked inside a callback, and returned from it: the sockets are its parent's.
            return self.finish(Ok(BWF_STOPPED));
        }
        if self.stop.is_asked() {
            return self.finish(Ok(BWF_STOPPED));
        }
        let mut handler = self.handler.borrow_mut();
        let packets = match handler.process(now) {
            Ok(packets) => packets,
            Err(e) => return self.finish(Err(e)),
        };
        if packets == 0 && handler.is_finished() {
            return self.finish(Ok(BWF_OK));
        }
        if self.end.is_some_and(|end| end <= now) {
            self.finish(Ok(BWF_TIMED_OUT));
        }
        packets
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.handler.borrow().next_deadline().into_iter().chain(self.end).min()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        Agent::wait_fds(&*self.handler.borrow(), add);
    }

    fn fds_generation(&self) -> u64 {
        Agent::fds_generation(&*self.handler.borrow())
    }

    fn prepare_wait(&mut self) -> bool {
        // Behind the announcement of the sleep: who asks for the stop later than this look rings the bell.
        Agent::prepare_wait(&mut *self.handler.borrow_mut()) && !self.stop.is_asked()
    }

    fn finish_wait(&mut self) {
        Agent::finish_wait(&mut *self.handler.borrow_mut());
    }

    fn on_close(&mut self) {
        Agent::on_close(&mut *self.handler.borrow_mut());
    }
}

const PARENTS: &str = "the handler is of the process that this one was forked from: open another one";

/// A value that only the thread that made it touches. A child of fork(2) has a copy of that thread, and no part in the value: its
/// sockets are the parent's, too, which would lack each packet that the child takes.
struct OnThread<T> {
    value: ManuallyDrop<T>,
    thread: ThreadId,
    process: Process,
}

// SAFETY: the value is reached through `get` and `drop` alone, and both look first whether they are on its thread. Thread ids
// are never given out twice, so no later thread is taken for it.
unsafe impl<T> Send for OnThread<T> {}

impl<T> OnThread<T> {
    fn new(value: T) -> OnThread<T> {
        OnThread { value: ManuallyDrop::new(value), thread: thread::current().id(), process: Process::this() }
    }

    #[inline]
    fn get(&mut self) -> Result<&mut T, Failure> {
        if !self.process.is_this() {
            return Err(Failure::new(BWF_ERR_HANDLE, PARENTS));
        }
        if self.thread != thread::current().id() {
            return Err(BWF_ERR_THREAD.into());
        }
        Ok(&mut *self.value)
    }
}

impl<T> Drop for OnThread<T> {
    fn drop(&mut self) {
        // Elsewhere it is left as it is: what cannot be touched cannot be freed.
        if self.get().is_ok() {
            // SAFETY: not used again, since this is the end of its owner; and on its own thread.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// What stands beside a slot of the table, outside its lock.
struct SlotState {
    /// The tenant's ticket, with [`ASKED`] once it is to stop; zero while there is no tenant.
    tenant: AtomicUsize,
    /// The thread that is inside a call, by [`here`]; zero when none is.
    inside: AtomicUsize,
    /// Wakes the engine of the tenant's run. Made once for all tenants, and anew in a child of fork(2); never freed.
    bell: AtomicPtr<Bell>,
}

/// A waker, and the process whose engine it wakes: the event behind it is a child's as well.
struct Bell {
    process: Process,
    waker: Waker,
}

impl SlotState {
    /// Whether the tenant is a handler of the process that this one was forked from.
    #[inline]
    fn is_parents(&self) -> bool {
        // SAFETY: as in `bell`.
        let bell = unsafe { self.bell.load(Acquire).as_ref() };
        bell.is_some_and(|bell| !bell.process.is_this())
    }

    /// The bell of this process, where there is one.
    fn bell(&self) -> Option<&'static Bell> {
        // SAFETY: null, or made by `hang` from a box that nobody frees, and changed by nobody.
        let bell = unsafe { self.bell.load(Acquire).as_ref() };
        bell.filter(|bell| bell.process.is_this())
    }

    /// Makes sure that there is one. Called by the slot's only tenant, before it is told its ticket.
    fn hang(&self) -> Result<(), EngineError> {
        if self.bell().is_none() {
            let bell = Box::new(Bell { process: Process::this(), waker: Waker::new()? });
            // What hung there before may be in use by a signal handler: it stays. There is one for each fork at most.
            self.bell.store(Box::into_raw(bell), Release);
        }
        Ok(())
    }
}

/// No ticket has this bit.
const ASKED: usize = 1 << (usize::BITS - 1);

static FEEDS: Table<OnThread<Session>> = Table::new();
static SLOT_STATES: [SlotState; SLOTS] = [const {
    SlotState {
        tenant: AtomicUsize::new(0),
        inside: AtomicUsize::new(0),
        bell: AtomicPtr::new(ptr::null_mut()),
    }
}; SLOTS];

thread_local! {
    static HERE: u8 = const { 0 };
}

/// A number that no other living thread has.
#[inline]
fn here() -> usize {
    HERE.with(|here| ptr::from_ref(here).addr())
}

/// Says that this thread is inside, for as long as it lives.
struct Inside(&'static SlotState);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.store(0, Relaxed);
    }
}

/// Whether a stop was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Stop {
    ticket: usize,
}

impl Stop {
    fn state(self) -> &'static SlotState {
        &SLOT_STATES[slot_of(self.ticket)]
    }

    #[inline]
    pub(crate) fn is_asked(self) -> bool {
        self.state().tenant.load(Acquire) & ASKED != 0
    }

    #[inline]
    fn is_parents(self) -> bool {
        self.state().is_parents()
    }

    /// The stop has been obeyed: the next run is not ended by it.
    fn take(self) {
        let _ = self.state().tenant.compare_exchange(self.ticket | ASKED, self.ticket, AcqRel, Relaxed);
    }

    fn waker(self) -> Result<Waker, Failure> {
        self.state().bell().map(|bell| bell.waker.clone()).ok_or_else(|| BWF_ERR_HANDLE.into())
    }
}

/// Takes a handler in.
pub(crate) fn insert(session: Session) -> Result<usize, Failure> {
    let ticket = FEEDS.insert(OnThread::new(session)).ok_or(BWF_ERR_TOO_MANY)?;
    let beside = &SLOT_STATES[slot_of(ticket)];
    if let Err(e) = beside.hang() {
        drop(FEEDS.remove(ticket)?);
        return Err(e.into());
    }
    beside.tenant.store(ticket, Release);
    Ok(ticket)
}

/// Works with a handler, on its own thread, and not from inside one of its callbacks.
#[inline]
pub(crate) fn with<R>(
    feed: *mut BwfFeed,
    work: impl FnOnce(&mut Session, Stop) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // The pointer's bits are the ticket; it is never followed.
    let ticket = feed.addr();
    let beside = &SLOT_STATES[slot_of(ticket)];
    if beside.is_parents() {
        // Before all else: the thread that was inside when the process was forked, or held the slot's lock, is not here to leave.
        return Err(Failure::new(BWF_ERR_HANDLE, PARENTS));
    }
    let me = here();
    if beside.inside.load(Relaxed) == me {
        let is_tenant = beside.tenant.load(Acquire) & !ASKED == ticket;
        return Err(if is_tenant { BWF_ERR_REENTRANT } else { BWF_ERR_HANDLE }.into());
    }
    FEEDS.with(ticket, false, |bound| {
        let session = bound.get()?;
        beside.inside.store(me, Relaxed);
        let _inside = Inside(beside);
        work(session, Stop { ticket })
    })?
}

/// Takes a handler out and ends it.
pub(crate) fn close(feed: *mut BwfFeed) -> Result<(), Failure> {
    let flushed = match with(feed, |session, _| Ok(session.flush())) {
        Ok(flushed) => flushed,
        // Broken by a panic: it is ended all the same.
        Err(failure) if failure.code == crate::error::BWF_ERR_PANIC => Ok(()),
        Err(failure) => return Err(failure),
    };
    let ticket = feed.addr();
    let tenant = &SLOT_STATES[slot_of(ticket)].tenant;
    let gone = FEEDS.remove(ticket).map_err(|miss: Miss| Failure::from(miss))?;
    // Only this tenant's: the slot may be let again.
    let _ = tenant.compare_exchange(ticket, 0, AcqRel, Relaxed);
    let _ = tenant.compare_exchange(ticket | ASKED, 0, AcqRel, Relaxed);
    drop(gone);
    flushed.map_err(Failure::from)
}

/// Asks a run or replay to end. Neither waits nor allocates.
pub(crate) fn stop(feed: *mut BwfFeed) -> Result<(), Failure> {
    let ticket = feed.addr();
    // Tickets are odd, so null and what is aligned are none.
    if ticket & 1 == 0 || ticket & ASKED != 0 {
        return Err(BWF_ERR_HANDLE.into());
    }
    let beside = &SLOT_STATES[slot_of(ticket)];
    // A child's: the handler is its parent's.
    let bell = beside.bell().ok_or(BWF_ERR_HANDLE)?;
    match beside.tenant.compare_exchange(ticket, ticket | ASKED, AcqRel, Acquire) {
        Ok(_) => {
            bell.waker.wake();
            Ok(())
        }
        Err(tenant) if tenant == ticket | ASKED => Ok(()),
        Err(_) => Err(BWF_ERR_HANDLE.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_bound_value_is_neither_touched_nor_dropped_elsewhere() {
        struct Count(Rc<Cell<u32>>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let drops = Rc::new(Cell::new(0));
        let mut here = OnThread::new(Count(Rc::clone(&drops)));
        assert!(here.get().is_ok());
        drop(here);
        assert_eq!(drops.get(), 1);
        let mut sent = OnThread::new(Count(Rc::clone(&drops)));
        thread::spawn(move || {
            assert_eq!(sent.get().map(|_| ()).unwrap_err().code, BWF_ERR_THREAD);
            drop(sent);
        })
        .join()
        .unwrap();
        assert_eq!(drops.get(), 1, "leaked, not dropped");
    }

    #[test]
    fn tickets_leave_the_top_bit_free() {
        let table = Box::new(Table::new());
        for _ in 0..3 {
            let ticket = table.insert(()).unwrap();
            assert_eq!((ticket & ASKED, ticket & 1), (0, 1));
        }
    }
}
