//! Instruments taken in and left out while the channel runs, whatever the white-list says.

use crate::channel::Channel;
use crate::instrument::Instrument;

impl Channel {
    /// Wants an instrument from now on. One that is not handled yet begins without a book: what came before was not heard, so it becomes
    /// good by a snapshot. True when it is handled now; false where there is no room for it. Call it between packets.
    pub fn subscribe(&mut self, security_id: i32) -> bool {
        self.store.chosen.set(security_id, true);
        if self.store.table.get(security_id).is_some() {
            return true;
        }
        let instrument = Instrument::undefined(security_id, self.store.depth, self.store.implied_depth);
        let Some(at) = self.store.add_unheard(instrument) else { return false };
        self.adopt_marks(at, security_id);
        true
    }

    /// Wants an instrument no longer: it is taken out with its books, and what comes of it counts as not listed. True when it was
    /// handled. No callback tells of it. Call it between packets.
    pub fn unsubscribe(&mut self, security_id: i32) -> bool {
        self.store.chosen.set(security_id, false);
        let Some(at) = self.store.table.get(security_id) else { return false };
        // The loops that are under way have had it, or have not: it counts in them as one that is not handled.
        self.definitions.give_back(security_id, self.store.learned[at].mark);
        self.books.give_back(security_id, self.store.slots[at].loop_mark);
        if let Some(orders) = self.store.orders.get(at) {
            self.order_books.give_back(security_id, orders.mark);
        }
        self.store.remove(at);
        true
    }

    /// The running rounds may have had an instrument before it was handled: it is not missing in them.
    pub(crate) fn adopt_marks(&mut self, at: usize, security_id: i32) {
        self.store.slots[at].loop_mark = self.books.unlisted.get(security_id);
        if let Some(orders) = self.store.orders.get_mut(at) {
            orders.mark = self.order_books.unlisted.get(security_id);
        }
        self.store.learned[at].mark = self.definitions.mark_of(security_id);
    }
}

/// What was said of single instruments while the channel runs.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// Sorted by id.
    said: Vec<(i32, bool)>,
}

impl Chosen {
    fn set(&mut self, id: i32, wanted: bool) {
        match self.said.binary_search_by_key(&id, |&(id, _)| id) {
            Ok(at) => self.said[at].1 = wanted,
            Err(at) => self.said.insert(at, (id, wanted)),
        }
    }

    /// Whether an instrument is wanted, where anything was said of it.
    #[inline]
    pub(crate) fn get(&self, id: i32) -> Option<bool> {
        let at = self.said.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.said[at].1)
    }
}
