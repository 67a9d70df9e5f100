//! What was dropped instead of being given back: a message or a reservation finds its way home.
//!
//! A message knows the number of its client or endpoint and nothing else, so that it costs what three numbers cost. One that is
//! released the usual way never comes here. One that is dropped leaves a note at its home, which reads its notes with its next
//! flush, wait or poll. Notes for a home that is gone are thrown away: its memory went with it.

use crate::event::{Inbound, SendBuf};
use barewire_channel::Waker;
use barewire_transport::FlowId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Something that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// A received message.
    Message { flow: FlowId, offset: u32, len: u32 },
    /// A reservation.
    Reservation { offset: u32, len: u32 },
}

#[derive(Default)]
struct Notes {
    /// Set after a note was written, so that a look costs one load when there is none.
    any: AtomicBool,
    list: Mutex<Vec<Lost>>,
    /// Ends the sleep of a client whose message was dropped by another thread.
    waker: OnceLock<Waker>,
}

static HOMES: Mutex<BTreeMap<u32, Arc<Notes>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU32 = AtomicU32::new(1);

fn homes() -> MutexGuard<'static, BTreeMap<u32, Arc<Notes>>> {
    // Nothing is half done in here when something panics.
    HOMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where messages and reservations of one client or endpoint belong.
pub(crate) struct Home {
    number: u32,
    notes: Arc<Notes>,
}

impl Home {
    pub(crate) fn new() -> Home {
        let notes = Arc::new(Notes::default());
        let mut homes = homes();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            // Zero is nobody's, and after four thousand million homes a number may still be in use.
            if number != 0 && !homes.contains_key(&number) {
                homes.insert(number, notes.clone());
                return Home { number, notes };
            }
        }
    }

    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn set_waker(&self, waker: Waker) {
        let _ = self.notes.waker.set(waker);
    }

    /// What was dropped since the last call; nothing is allocated when that is nothing.
    #[inline]
    pub(crate) fn take(&self) -> Vec<Lost> {
        if !self.notes.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.take_all()
    }

    #[cold]
    fn take_all(&self) -> Vec<Lost> {
        let mut list = self.notes.list.lock().unwrap_or_else(PoisonError::into_inner);
        self.notes.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *list)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        homes().remove(&self.number);
    }
}

#[cold]
fn leave(home: u32, lost: Lost) {
    let Some(notes) = homes().get(&home).cloned() else { return };
    notes.list.lock().unwrap_or_else(PoisonError::into_inner).push(lost);
    notes.any.store(true, Ordering::Release);
    if let Some(waker) = notes.waker.get() {
        waker.wake();
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        leave(self.home, Lost::Message { flow: self.flow, offset: self.offset, len: self.len });
    }
}

impl Drop for SendBuf {
    fn drop(&mut self) {
        leave(self.home, Lost::Reservation { offset: self.offset, len: self.len });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_noted_at_its_home_once_and_nowhere_else() {
        let (a, b) = (Home::new(), Home::new());
        assert_ne!(a.number(), b.number());
        let flow = FlowId::from_raw(7);
        drop(Inbound { home: a.number(), flow, offset: 64, len: 10 });
        drop(SendBuf { home: a.number(), offset: 128, len: 20 });
        drop(SendBuf { home: b.number(), offset: 1, len: 2 });
        let all = [Lost::Message { flow, offset: 64, len: 10 }, Lost::Reservation { offset: 128, len: 20 }];
        assert_eq!(a.take(), all);
        assert_eq!(a.take(), []);
        assert_eq!(b.take(), [Lost::Reservation { offset: 1, len: 2 }]);
        // Given back the usual way, it leaves no note.
        let message = Inbound { home: a.number(), flow, offset: 64, len: 10 };
        assert_eq!(message.into_raw(), (flow, 64, 10));
        assert_eq!(a.take(), []);
        // From another thread, and when the home is gone.
        let message = Inbound { home: a.number(), flow, offset: 64, len: 10 };
        std::thread::spawn(move || drop(message)).join().unwrap();
        assert_eq!(a.take().len(), 1);
        let message = Inbound { home: a.number(), flow, offset: 64, len: 10 };
        let number = a.number();
        drop(a);
        drop(message);
        assert!(!homes().contains_key(&number));
    }
}
