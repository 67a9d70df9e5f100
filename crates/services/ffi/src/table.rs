//! Things that C holds, by ticket.
//!
//! A ticket is no address: its low bits name a slot, the rest say the how-manieth tenant of the slot it was given to. So a
//! freed, stale or invented ticket finds nothing, where a pointer would have to be believed.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// Slots of a table, and so tenants at once.
pub(crate) const SLOTS: usize = 1024;

/// How often a patient call lets others go first before it naps between its looks.
const PATIENCE: u32 = 1000;
/// How long it naps.
const NAP: Duration = Duration::from_micros(50);

/// Why a ticket led nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// It is nobody's, or no longer.
    Nobody,
    /// Another thread is inside.
    Busy,
    /// A call on it panicked; all that can be done is to remove it.
    Broken,
}

struct Slot<T> {
    tenants: usize,
    value: Option<Box<T>>,
}

/// A slot, and what is said of it without its lock.
struct Guarded<T> {
    slot: Mutex<Slot<T>>,
    /// Who is inside takes its time.
    at_length: AtomicBool,
    /// The process whose threads are inside. In a child of it nobody is, and what they held there is never let go.
    process: AtomicU32,
}

impl<T> Deref for Guarded<T> {
    type Target = Mutex<Slot<T>>;
    fn deref(&self) -> &Mutex<Slot<T>> {
        &self.slot
    }
}

pub(crate) struct Table<T> {
    slots: [Guarded<T>; SLOTS],
}

/// A call that takes its time, until it is over or panics.
struct AtLength<'a>(&'a AtomicBool);

impl Drop for AtLength<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Odd, so that it is never a pointer to anything aligned, and never zero.
fn ticket_of(index: usize, tenants: usize) -> usize {
    (tenants * SLOTS + index) << 1 | 1
}

/// The slot that a ticket names, for what a library keeps beside its tables.
#[allow(dead_code, reason = "one of the libraries with a table has a use for it")]
pub(crate) fn slot_of(ticket: usize) -> usize {
    (ticket >> 1) % SLOTS
}

impl<T> Guarded<T> {
    /// Between two looks of a patient call; fails where it would not come to an end.
    #[cold]
    fn let_others_go_first(&self, tries: &mut u32) -> Result<(), Miss> {
        *tries += 1;
        if *tries <= PATIENCE {
            std::thread::yield_now();
            return Ok(());
        }
        if self.at_length.load(Ordering::Relaxed)
            || self.process.load(Ordering::Relaxed) != std::process::id()
        {
            return Err(Miss::Busy);
        }
        std::thread::sleep(NAP);
        Ok(())
    }
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table {
            slots: [const {
                Guarded {
                    slot: Mutex::new(Slot { tenants: 0, value: None }),
                    at_length: AtomicBool::new(false),
                    process: AtomicU32::new(0),
                }
            }; SLOTS],
        }
    }

    fn slot(&self, ticket: usize) -> Option<(&Guarded<T>, usize)> {
        (ticket & 1 == 1).then(|| (&self.slots[slot_of(ticket)], (ticket >> 1) / SLOTS))
    }

    /// Takes a value in. `None`: all slots are taken.
    pub(crate) fn insert(&self, value: T) -> Option<usize> {
        let mut value = Some(Box::new(value));
        self.slots.iter().enumerate().find_map(|(index, guarded)| {
            let mut slot = guarded.try_lock().ok().filter(|s| s.value.is_none())?;
            guarded.process.store(std::process::id(), Ordering::Relaxed);
            // Half of the numbers, so that a ticket's bits suffice.
            slot.tenants = (slot.tenants + 1) % (usize::MAX / SLOTS / 4);
            slot.value = value.take();
            Some(ticket_of(index, slot.tenants))
        })
    }

    /// Works on a value. One thread at a time; `wait` says whether a second one waits or misses.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        ticket: usize,
        wait: bool,
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Miss> {
        let (slot, tenants) = self.slot(ticket).ok_or(Miss::Nobody)?;
        let mut slot = match slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(_)) => return Err(Miss::Broken),
            Err(TryLockError::WouldBlock) if !wait => return Err(Miss::Busy),
            Err(TryLockError::WouldBlock) => slot.lock().map_err(|_| Miss::Broken)?,
        };
        if slot.tenants != tenants {
            return Err(Miss::Nobody);
        }
        slot.value.as_deref_mut().map(work).ok_or(Miss::Nobody)
    }

    /// As [`with`](Self::with), and patient: calls of several threads pass one another, however long each is inside, but one that is there
    /// [at length](Self::with_at_length) is not waited for.
    #[allow(dead_code, reason = "one of the libraries with a table has a use for it")]
    #[inline]
    pub(crate) fn with_patience<R>(&self, ticket: usize, work: impl FnOnce(&mut T) -> R) -> Result<R, Miss> {
        let (guarded, tenants) = self.slot(ticket).ok_or(Miss::Nobody)?;
        let mut tries = 0;
        let mut slot = loop {
            match guarded.try_lock() {
                Ok(slot) => break slot,
                Err(TryLockError::Poisoned(_)) => return Err(Miss::Broken),
                Err(TryLockError::WouldBlock) => guarded.let_others_go_first(&mut tries)?,
            }
        };
        if slot.tenants != tenants {
            return Err(Miss::Nobody);
        }
        slot.value.as_deref_mut().map(work).ok_or(Miss::Nobody)
    }

    /// As [`with_patience`](Self::with_patience), for work that takes its time: patient calls miss meanwhile.
    #[allow(dead_code, reason = "one of the libraries with a table has a use for it")]
    pub(crate) fn with_at_length<R>(&self, ticket: usize, work: impl FnOnce(&mut T) -> R) -> Result<R, Miss> {
        let (guarded, _) = self.slot(ticket).ok_or(Miss::Nobody)?;
        self.with_patience(ticket, |value| {
            guarded.at_length.store(true, Ordering::Relaxed);
            let _over = AtLength(&guarded.at_length);
            work(value)
        })
    }

    /// Takes a value out, even a broken one.
    #[allow(dead_code, reason = "one of the libraries with a table has a use for it")]
    pub(crate) fn remove(&self, ticket: usize) -> Result<Box<T>, Miss> {
        self.remove_unless(ticket, |_| false)
    }

    /// As [`remove`](Self::remove), unless somebody still needs the value: then it is busy.
    pub(crate) fn remove_unless(
        &self,
        ticket: usize,
        is_needed: impl FnOnce(&T) -> bool,
    ) -> Result<Box<T>, Miss> {
        let (mutex, tenants) = self.slot(ticket).ok_or(Miss::Nobody)?;
        let mut slot = match mutex.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Miss::Busy),
        };
        if slot.tenants != tenants {
            return Err(Miss::Nobody);
        }
        if slot.value.as_deref().is_some_and(is_needed) {
            return Err(Miss::Busy);
        }
        let value = slot.value.take().ok_or(Miss::Nobody)?;
        drop(slot);
        mutex.clear_poison();
        Ok(value)
    }

    /// Tickets of all slots that are taken and that no other thread is working on.
    #[allow(dead_code, reason = "one of the libraries with a table has a use for it")]
    pub(crate) fn tickets(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let slot = slot.try_lock().ok()?;
            slot.value.as_ref().map(|_| ticket_of(index, slot.tenants))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_finds_its_own_tenant_and_no_other() {
        let table = Box::new(Table::new());
        let a = table.insert(1).unwrap();
        let b = table.insert(2).unwrap();
        assert_eq!(table.with(a, false, |v| *v), Ok(1));
        assert_eq!(table.with(b, true, |v| *v), Ok(2));
        assert_eq!(table.tickets().collect::<Vec<_>>(), [a, b]);
        assert_eq!(table.remove(a), Ok(Box::new(1)));
        assert_eq!(table.remove(a), Err(Miss::Nobody));
        let c = table.insert(3).unwrap();
        assert_ne!(a, c);
        assert_eq!(table.with(a, false, |v| *v), Err(Miss::Nobody));
        assert_eq!(table.with(c, false, |v| *v), Ok(3));
        for invented in [0, 1, 2, 0xa5a5_a5a5, usize::MAX, usize::MAX - 1, c + 2, c ^ 1] {
            if invented != b {
                assert_eq!(table.with(invented, true, |v| *v), Err(Miss::Nobody), "{invented:#x}");
            }
        }
    }

    #[test]
    fn patient_calls_pass_one_another_and_what_is_needed_stays() {
        let table = Box::new(Table::new());
        let a = table.insert(0u64).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        while table.with_patience(a, |v| *v += 1) == Err(Miss::Busy) {}
                    }
                });
            }
        });
        assert_eq!(table.with(a, false, |v| *v), Ok(2000));
        let inside = table.with_at_length(a, |_| table.with_patience(a, |_| ()));
        assert_eq!(inside, Ok(Err(Miss::Busy)));
        assert_eq!(table.remove_unless(a, |v| *v == 2000), Err(Miss::Busy));
        assert_eq!(table.remove_unless(a, |v| *v == 0), Ok(Box::new(2000)));
        assert_eq!(table.with_patience(a, |v| *v), Err(Miss::Nobody));
    }

    #[test]
    fn a_patient_call_waits_for_every_other_but_for_one_at_length() {
        let table = Box::new(Table::new());
        let a = table.insert(0u64).unwrap();
        let (inside, leave) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        // Longer than a thousand yields take, but on a machine with much else to do.
        let hold = |value: &mut u64| {
            inside.wait();
            std::thread::sleep(Duration::from_secs(1));
            *value += 1;
        };
        let hold_at_length = |value: &mut u64| {
            inside.wait();
            leave.wait();
            *value += 1;
        };
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| table.with_patience(a, hold));
            inside.wait();
            assert_eq!(table.with_patience(a, |v| *v), Ok(1));
            assert_eq!(holder.join().unwrap(), Ok(()));
            let holder = scope.spawn(|| table.with_at_length(a, hold_at_length));
            inside.wait();
            assert_eq!(table.with_patience(a, |v| *v), Err(Miss::Busy));
            leave.wait();
            assert_eq!(holder.join().unwrap(), Ok(()));
        });
        assert_eq!(table.with_patience(a, |v| *v), Ok(2));
        // One that panics takes its time no longer.
        let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = table.with_at_length(a, |_| panic!("on purpose"));
        }));
        assert!(thrown.is_err());
        assert_eq!(table.with_patience(a, |v| *v), Err(Miss::Broken));
    }

    #[test]
    fn who_is_inside_keeps_others_out_and_a_panic_breaks_only_its_own() {
        let table = Box::new(Table::new());
        let a = table.insert(1).unwrap();
        let inside = table.with(a, false, |_| (table.with(a, false, |_| ()), table.remove(a)));
        assert_eq!(inside, Ok((Err(Miss::Busy), Err(Miss::Busy))));
        let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = table.with(a, false, |_| panic!("on purpose"));
        }));
        assert!(thrown.is_err());
        assert_eq!(table.with(a, false, |v| *v), Err(Miss::Broken));
        assert_eq!(table.remove(a), Ok(Box::new(1)));
        let again = (0..SLOTS).map(|i| table.insert(i)).collect::<Vec<_>>();
        assert!(again.iter().all(Option::is_some));
        assert_eq!(table.insert(0), None);
    }
}
