//! Who waits for what: a future, or a handle that is polled as a stream, under a number of its own.
//!
//! Whoever is dropped takes its entries away. A waker keeps its task's memory, and what is waited for (the end of a daemon, say) may
//! never come.

use super::Handle;
use super::state::State;
use crate::FlowId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

/// Tasks that wait for the same, by the numbers of their [`Entries`].
#[derive(Default)]
pub(crate) struct Waiting(BTreeMap<u64, Waker>);

impl Waiting {
    fn add(&mut self, number: u64, cx: &Context<'_>, later: &mut Later) {
        later.let_go(self.0.insert(number, cx.waker().clone()));
    }

    pub fn wake(&mut self, later: &mut Later) {
        later.wake.extend(std::mem::take(&mut self.0).into_values());
    }
}

/// Wakers to be woken, and some to be dropped, once nobody holds the lock. They are others' code: to wake one may be to use the client, and
/// the last waker of a task may take along what that holds.
#[derive(Default)]
pub(crate) struct Later {
    wake: Vec<Waker>,
    gone: Vec<Waker>,
}

impl Later {
    pub fn wake(&mut self, waker: Option<Waker>) {
        self.wake.extend(waker);
    }

    pub fn let_go(&mut self, old: Option<Waker>) {
        self.gone.extend(old);
    }

    /// What there is, without the lock.
    pub fn take(&mut self) -> Later {
        Later { wake: std::mem::take(&mut self.wake), gone: std::mem::take(&mut self.gone) }
    }

    pub fn done(self) {
        self.wake.into_iter().for_each(Waker::wake);
    }
}

/// What can be waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Room that is no flow's.
    Room,
    /// The end of everything.
    End,
    /// News of the daemon.
    Daemon,
    /// A connection to this listener, or its answer.
    Listener(u64),
    /// A message on this flow, or its end.
    Reader(FlowId),
    /// Room to send on this flow, or its end.
    Writer(FlowId),
}

/// Where somebody waits.
#[derive(Default)]
pub(crate) struct Entries {
    /// Zero: it has not waited yet.
    number: u64,
    places: Vec<Place>,
}

impl Entries {
    /// Wakes the task of `cx` when there is news at `place`.
    pub fn wait(&mut self, state: &mut State, place: Place, cx: &Context<'_>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut later = state.later.take();
        if let Some(waiting) = state.waiting(place) {
            if self.number == 0 {
                self.number = NEXT.fetch_add(1, Ordering::Relaxed);
            }
            waiting.add(self.number, cx, &mut later);
            if !self.places.contains(&place) {
                self.places.push(place);
            }
        }
        state.later = later;
    }

    /// Waits no longer.
    pub fn leave(&mut self, handle: &Handle) {
        if self.places.is_empty() {
            return;
        }
        let mut state = handle.0.lock();
        for place in self.places.drain(..) {
            let taken = state.waiting(place).and_then(|waiting| waiting.0.remove(&self.number));
            state.later.let_go(taken);
        }
    }
}

/// A future that waits.
pub(crate) struct Waiter<'a> {
    handle: &'a Handle,
    pub entries: Entries,
}

impl<'a> Waiter<'a> {
    pub fn new(handle: &'a Handle) -> Waiter<'a> {
        Waiter { handle, entries: Entries::default() }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.entries.leave(self.handle);
    }
}
