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
    fn add(&mut self, number: u64, cx: &Context<'_>) {
        self.0
            .entry(number)
            .and_modify(|waker| waker.clone_from(cx.waker()))
            .or_insert_with(|| cx.waker().clone());
    }

    pub fn wake(&mut self) {
        for waker in std::mem::take(&mut self.0).into_values() {
            waker.wake();
        }
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
        let Some(waiting) = state.waiting(place) else { return };
        if self.number == 0 {
            self.number = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        waiting.add(self.number, cx);
        if !self.places.contains(&place) {
            self.places.push(place);
        }
    }

    /// Waits no longer.
    pub fn leave(&mut self, handle: &Handle) {
        if self.places.is_empty() {
            return;
        }
        let mut state = handle.0.lock();
        let taken = |place| state.waiting(place).and_then(|waiting| waiting.0.remove(&self.number));
        let wakers: Vec<Waker> = self.places.drain(..).filter_map(taken).collect();
        // Not under the lock: the last waker of a task may take along what that holds.
        drop(state);
        drop(wakers);
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
