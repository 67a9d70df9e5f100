//! Taking writes to entries back, for batches that are done whole or not at all.

use super::table::Before;
use super::{Result, Store, TableId};

/// What takes one write to a table back. Writes are taken back in the reverse order.
#[derive(Debug)]
pub(crate) enum Undo {
    /// It added the entry at this index.
    Added { table: TableId, index: u32 },
    /// It changed or took out the entry at this index.
    Changed { table: TableId, index: u32, before: Before },
}

impl Store {
    /// What takes back the addition that gave this handle.
    pub(crate) fn undo_added(table: TableId, handle: u64) -> Undo {
        // A handle's low half is the index.
        Undo::Added { table, index: handle as u32 }
    }

    /// What will take back a change or removal of this entry, which is still to be made.
    ///
    /// # Errors
    /// As the change: the table, the handle.
    pub(crate) fn undo_changed(&self, table: TableId, handle: u64) -> Result<Undo> {
        let (_, store) = self.table(table)?;
        let index = store.index(handle)?;
        Ok(Undo::Changed { table, index, before: store.before(index) })
    }

    /// Take writes back, the last of the list first. The replicas must not have seen them.
    pub(crate) fn undo(&mut self, done: Vec<Undo>) {
        let mut refilled: Vec<TableId> = Vec::new();
        for undo in done.into_iter().rev() {
            match undo {
                Undo::Added { table, index } => {
                    let action = self.tables[table.at()].take_back(index);
                    self.release(table, &action);
                }
                Undo::Changed { table, index, before } => {
                    let (after, action) = self.tables[table.at()].put_back(index, before);
                    self.retain(table, &action);
                    match after {
                        Some(after) => self.release(table, &after),
                        None if refilled.contains(&table) => {}
                        None => refilled.push(table),
                    }
                }
            }
        }
        for table in refilled {
            self.tables[table.at()].collect_free();
        }
    }
}
