//! Things that C holds, by ticket.
//!
//! A ticket is no address: its low bits name a slot, the rest say the how-manieth tenant of the slot it was given to. So a
//! freed, stale or invented ticket finds nothing, where a pointer would have to be believed.

use std::sync::{Mutex, TryLockError};

/// Slots of a table, and so tenants at once.
pub(crate) const SLOTS: usize = 1024;

/// How often a patient call lets others go first before it gives up.
const PATIENCE: u32 = 1000;

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

pub(crate) struct Table<T> {
    slots: [Mutex<Slot<T>>; SLOTS],
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

impl<T> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table { slots: [const { Mutex::new(Slot { tenants: 0, value: None }) }; SLOTS] }
    }

    fn slot(&self, ticket: usize) -> Option<(&Mutex<Slot<T>>, usize)> {
        (ticket & 1 == 1).then(|| (&self.slots[slot_of(ticket)], (ticket >> 1) / SLOTS))
    }

    /// Takes a value in. `None`: all slots are taken.
    pub(crate) fn insert(&self, value: T) -> Option<usize> {
        let mut value = Some(Box::new(value));
        self.slots.iter().enumerate().find_map(|(index, slot)| {
            let mut slot = slot.try_lock().ok().filter(|s| s.value.is_none())?;
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

    /// As [`with`](Self::with), and patient: calls of several threads pass one another, but one that takes its time is not
    /// waited for.
    #[allow(dead_code, reason = "one of the libraries with a table has a use for it")]
    #[inline]
    pub(crate) fn with_patience<R>(&self, ticket: usize, work: impl FnOnce(&mut T) -> R) -> Result<R, Miss> {
        let (mutex, tenants) = self.slot(ticket).ok_or(Miss::Nobody)?;
        let mut tries = 0;
        let mut slot = loop {
            match mutex.try_lock() {
                Ok(slot) => break slot,
                Err(TryLockError::Poisoned(_)) => return Err(Miss::Broken),
                Err(TryLockError::WouldBlock) if tries < PATIENCE => {
                    tries += 1;
                    std::thread::yield_now();
                }
                Err(TryLockError::WouldBlock) => return Err(Miss::Busy),
            }
        };
        if slot.tenants != tenants {
            return Err(Miss::Nobody);
        }
        slot.value.as_deref_mut().map(work).ok_or(Miss::Nobody)
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
        let inside = table.with(a, false, |_| table.with_patience(a, |_| ()));
        assert_eq!(inside, Ok(Err(Miss::Busy)));
        assert_eq!(table.remove_unless(a, |v| *v == 2000), Err(Miss::Busy));
        assert_eq!(table.remove_unless(a, |v| *v == 0), Ok(Box::new(2000)));
        assert_eq!(table.with_patience(a, |v| *v), Err(Miss::Nobody));
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
