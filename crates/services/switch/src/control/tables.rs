//! Tables and action profiles: the entries, members and groups of the running program.

use super::link::MAX_ATOMIC;
use super::switch::{CHUNK, Control, PIECE, Result, Switch, WRITE_CHUNK};
use super::{ControlError, CounterValue, Entry, ErrorKind, Group, Member};
use crate::kernel::Fold;
use crate::store::{StateWrite, Store, Undo, Write, read};
use barewire_p4::ir::{ActionCall, ProfileId, TableId};
use barewire_p4::key::MatchParam;
use barewire_p4_state::{ProgramState, TableAction};
use std::sync::Arc;

/// Places of a table that are copied under the lock at once.
const ENTRIES_CHUNK: u32 = 4096;

/// An entry to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// One match for each key field.
    pub key: Vec<MatchParam>,
    /// Lower wins; not considered where the table has no ternary, optional or range field.
    pub priority: u32,
    /// What it does.
    pub action: TableAction,
    /// Idle time-out in milliseconds; 0 for none.
    pub ttl_ms: u32,
    /// For the controller, opaque.
    pub cookie: Vec<u8>,
}

/// One write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum TableWrite {
    Add {
        table: TableId,
        entry: NewEntry,
    },
    /// Change the action; time-out and cookie only where given.
    Modify {
        table: TableId,
        handle: u64,
        action: TableAction,
        ttl_ms: Option<u32>,
        cookie: Option<Vec<u8>>,
    },
    Delete {
        table: TableId,
        handle: u64,
    },
    /// Change the entry with this key (and priority, where the table has them) to this.
    ModifyByKey {
        table: TableId,
        entry: NewEntry,
    },
    /// Delete the entry with this key (and priority, where the table has them).
    DeleteByKey {
        table: TableId,
        key: Vec<MatchParam>,
        priority: u32,
    },
}

/// Change an entry; time-out and cookie only where given. When refused nothing has changed.
fn modify(
    store: &mut Store,
    (table, handle): (TableId, u64),
    action: &TableAction,
    ttl_ms: Option<u32>,
    cookie: Option<Vec<u8>>,
    now_us: u64,
    out: &mut Vec<Write>,
) -> Result<u64> {
    if let Some(1..) = ttl_ms {
        store.check_ageing(table)?;
    }
    store.modify_entry(table, handle, action, out)?;
    if let Some(ttl_ms) = ttl_ms
        && (ttl_ms != 0 || store.check_ageing(table).is_ok())
    {
        store.set_entry_ttl(table, handle, ttl_ms, now_us)?;
    }
    if let Some(cookie) = cookie {
        store.set_entry_cookie(table, handle, cookie)?;
    }
    Ok(handle)
}

/// The same write with a handle where it has a key.
fn by_handle(store: &Store, write: TableWrite) -> Result<TableWrite> {
    Ok(match write {
        TableWrite::ModifyByKey { table, entry } => {
            let handle = store.handle_by_key(table, &entry.key, Some(entry.priority))?;
            let (ttl_ms, cookie) = (Some(entry.ttl_ms), Some(entry.cookie));
            TableWrite::Modify { table, handle, action: entry.action, ttl_ms, cookie }
        }
        TableWrite::DeleteByKey { table, key, priority } => {
            let handle = store.handle_by_key(table, &key, Some(priority))?;
            TableWrite::Delete { table, handle }
        }
        write => write,
    })
}

fn apply(store: &mut Store, write: TableWrite, now_us: u64, out: &mut Vec<Write>) -> Result<u64> {
    match write {
        TableWrite::Add { table, entry } => store.add_entry(table, &entry, now_us, out),
        TableWrite::Modify { table, handle, action, ttl_ms, cookie } => {
            modify(store, (table, handle), &action, ttl_ms, cookie, now_us, out)
        }
        TableWrite::Delete { table, handle } => store.delete_entry(table, handle, out).map(|()| handle),
        TableWrite::ModifyByKey { .. } | TableWrite::DeleteByKey { .. } => {
            let write = by_handle(store, write)?;
            apply(store, write, now_us, out)
        }
    }
}

/// [`apply`], with what takes it back.
fn apply_undoably(
    store: &mut Store,
    write: TableWrite,
    now_us: u64,
    out: &mut Vec<Write>,
) -> Result<(u64, Undo)> {
    let write = by_handle(store, write)?;
    let undo = match &write {
        TableWrite::Modify { table, handle, .. } | TableWrite::Delete { table, handle } => {
            Some(store.undo_changed(*table, *handle)?)
        }
        _ => None,
    };
    let table = write.table();
    let handle = apply(store, write, now_us, out)?;
    Ok((handle, undo.unwrap_or_else(|| Store::undo_added(table, handle))))
}

impl TableWrite {
    /// The table it is for.
    pub fn table(&self) -> TableId {
        match self {
            TableWrite::Add { table, .. }
            | TableWrite::Modify { table, .. }
            | TableWrite::Delete { table, .. }
            | TableWrite::ModifyByKey { table, .. }
            | TableWrite::DeleteByKey { table, .. } => *table,
        }
    }
}

impl Switch {
    /// Add an entry; gives its handle.
    ///
    /// # Errors
    /// As [`Store::add_entry`].
    pub fn add_entry(
        &self,
        t: TableId,
        key: Vec<MatchParam>,
        priority: u32,
        action: TableAction,
    ) -> Result<u64> {
        self.add_entry_with(t, NewEntry { key, priority, action, ttl_ms: 0, cookie: Vec::new() })
    }

    /// Add an entry with everything it may have; gives its handle.
    ///
    /// # Errors
    /// As [`Store::add_entry`].
    pub fn add_entry_with(&self, t: TableId, entry: NewEntry) -> Result<u64> {
        let now_us = self.time_us();
        self.write_store(|store, out| store.add_entry(t, &entry, now_us, out))
    }

    /// Change what an entry does.
    ///
    /// # Errors
    /// As [`Store::modify_entry`].
    pub fn modify_entry(&self, t: TableId, handle: u64, action: TableAction) -> Result<()> {
        self.write_store(|store, out| store.modify_entry(t, handle, &action, out))
    }

    /// Take an entry out.
    ///
    /// # Errors
    /// As [`Store::delete_entry`].
    pub fn delete_entry(&self, t: TableId, handle: u64) -> Result<()> {
        self.write_store(|store, out| store.delete_entry(t, handle, out))
    }

    /// Several writes in order under one lock, with one wake-up for all; each succeeds or fails by itself. Gives the
    /// handle of each entry.
    pub fn write_batch(&self, writes: Vec<TableWrite>) -> Vec<Result<u64>> {
        let now_us = self.time_us();
        let mut results = Vec::with_capacity(writes.len());
        let mut writes = writes.into_iter().peekable();
        // Engines must be able to keep up with a batch of any length.
        while writes.peek().is_some() {
            let mut control = match self.lock_for_store() {
                Ok(control) => control,
                Err(error) => {
                    results.extend(writes.map(|_| Err(error.clone())));
                    break;
                }
            };
            let some = writes.by_ref().take(WRITE_CHUNK);
            let mut out = Vec::with_capacity(WRITE_CHUNK);
            match control.store_mut(&self.view) {
                Ok(store) => results.extend(some.map(|write| apply(store, write, now_us, &mut out))),
                Err(error) => results.extend(some.map(|_| Err(error.clone()))),
            }
            control.send_state(&self.view, out);
        }
        results
    }

    /// Several writes in order, all or none: packets see all of them or none, and so do other control threads. Gives the
    /// handle of each entry.
    ///
    /// # Errors
    /// The position of the first write that was refused, and why; then nothing has changed. More than 16,384 writes
    /// ([`MAX_ATOMIC`]) are refused at the position of the first too many: engines apply them without looking for
    /// packets in between.
    pub fn write_all(&self, writes: Vec<TableWrite>) -> std::result::Result<Vec<u64>, (usize, ControlError)> {
        if writes.len() > MAX_ATOMIC {
            let why = format!("{} writes at once: the limit is {MAX_ATOMIC}", writes.len());
            return Err((MAX_ATOMIC, ControlError::new(ErrorKind::Other, why)));
        }
        let now_us = self.time_us();
        let mut control = self.lock_for_store().map_err(|error| (0, error))?;
        let store = control.store_mut(&self.view).map_err(|error| (0, error))?;
        let (mut handles, mut out) = (Vec::with_capacity(writes.len()), Vec::with_capacity(writes.len()));
        let mut done = Vec::with_capacity(writes.len());
        for (at, write) in writes.into_iter().enumerate() {
            match apply_undoably(store, write, now_us, &mut out) {
                Ok((handle, undo)) => {
                    handles.push(handle);
                    done.push(undo);
                }
                Err(error) => {
                    store.undo(done);
                    return Err((at, error));
                }
            }
        }
        control.send_state(&self.view, out);
        Ok(handles)
    }

    /// Set an entry's idle time-out, 0 for none; it begins now.
    ///
    /// # Errors
    /// As [`Store::set_entry_ttl`].
    pub fn set_entry_ttl(&self, t: TableId, handle: u64, ttl_ms: u32) -> Result<()> {
        let now_us = self.time_us();
        self.write_store(|store, _| store.set_entry_ttl(t, handle, ttl_ms, now_us))
    }

    /// Attach a controller's data to an entry.
    ///
    /// # Errors
    /// As [`Store::set_entry_cookie`].
    pub fn set_entry_cookie(&self, t: TableId, handle: u64, cookie: Vec<u8>) -> Result<()> {
        self.write_store(|store, _| store.set_entry_cookie(t, handle, cookie))
    }

    /// Set what a miss runs.
    ///
    /// # Errors
    /// As [`Store::set_default`].
    pub fn set_default(&self, t: TableId, action: TableAction) -> Result<()> {
        self.write_store(|store, out| store.set_default(t, &action, out))
    }

    /// Set what a miss runs to what the program says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn reset_default(&self, t: TableId) -> Result<()> {
        self.write_store(|store, out| store.reset_default(t, out))
    }

    /// What a miss runs; none for nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn default_entry(&self, t: TableId) -> Result<Option<TableAction>> {
        self.read_store(|store| store.default_entry(t))
    }

    /// Take all entries out, and bring the default entry back if asked.
    ///
    /// # Errors
    /// As [`Store::clear_table`].
    pub fn clear_table(&self, t: TableId, reset_default: bool) -> Result<()> {
        self.write_store(|store, out| store.clear_table(t, reset_default, out))
    }

    /// How many entries a table has.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn num_entries(&self, t: TableId) -> Result<usize> {
        self.read_store(|store| store.num_entries(t))
    }

    /// All entries, by their handles' indices. A table of more than 4,096 places is read in pieces, so that others need
    /// not wait: of writes meanwhile some may be seen and some not.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`], also when the program is swapped meanwhile.
    pub fn entries(&self, t: TableId) -> Result<Vec<Entry>> {
        let (program, total) =
            self.read_store(|store| Ok((Arc::clone(store.program()), store.num_entries(t)?)))?;
        let table = &program.tables[t.at()];
        let mut entries = Vec::with_capacity(total);
        let mut next = Some(0);
        while let Some(from) = next {
            let some;
            (some, next) = self.read_store(|store| {
                if !Arc::ptr_eq(store.program(), &program) {
                    return Err(ControlError::new(
                        ErrorKind::InvalidTableName,
                        format!("the program was swapped while table '{}' was read", table.name),
                    ));
                }
                store.copy_entries(t, from, ENTRIES_CHUNK)
            })?;
            entries.extend(some.unpack(&program, table));
        }
        Ok(entries)
    }

    /// One entry.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidHandle`, `ExpiredHandle`.
    pub fn entry(&self, t: TableId, handle: u64) -> Result<Entry> {
        self.read_store(|store| store.entry(t, handle))
    }

    /// The entry with a key, and a priority where the table has them; without one the entry that wins among those with
    /// the key.
    ///
    /// # Errors
    /// [`ErrorKind::BadMatchKey`] for a bad key and when there is no such entry.
    pub fn entry_by_key(&self, t: TableId, key: &[MatchParam], priority: Option<u32>) -> Result<Entry> {
        self.read_store(|store| store.entry(t, store.handle_by_key(t, key, priority)?))
    }

    /// Milliseconds since an entry was last hit, or made if it never was.
    ///
    /// # Errors
    /// [`ErrorKind`]: `AgeingDisabled`, `InvalidHandle`, `ExpiredHandle`, `Unavailable`.
    pub fn time_since_hit_ms(&self, t: TableId, handle: u64) -> Result<u64> {
        let one = self.ages_of(t, |store| Ok(vec![(handle, store.index(t, handle)?)]))?;
        Ok(one.first().map_or(0, |(_, ms)| *ms))
    }

    /// Of all entries of a table, handle and milliseconds since the last hit.
    ///
    /// # Errors
    /// [`ErrorKind`]: `AgeingDisabled`, `Unavailable`.
    pub fn ages(&self, t: TableId) -> Result<Vec<(u64, u64)>> {
        self.ages_of(t, |store| store.handles(t))
    }

    fn ages_of(
        &self,
        t: TableId,
        which: impl FnOnce(&Store) -> Result<Vec<(u64, u32)>>,
    ) -> Result<Vec<(u64, u64)>> {
        let asked = self.read_store(|store| {
            store.check_ageing(t)?;
            let since = |(handle, index)| Ok((handle, index, store.since_us(t, handle)?));
            which(store)?.into_iter().map(since).collect::<Result<Vec<(u64, u32, u64)>>>()
        })?;
        let now_us = self.time_us();
        let mut ages = Vec::with_capacity(asked.len());
        for some in asked.chunks(CHUNK as usize) {
            let indices: Arc<[u32]> = some.iter().map(|(_, index, _)| *index).collect();
            self.fold(&Fold::Hits(t, Arc::clone(&indices)));
            let hits = self.ask_state(move |_| {
                Ok(move |state: Option<&mut ProgramState>| read::last_hits(state, t, &indices))
            })?;
            for (at, (handle, _, since_us)) in some.iter().enumerate() {
                let hit_us = hits.iter().filter_map(|hits| hits.get(at)).copied().max().unwrap_or(0);
                ages.push((*handle, now_us.saturating_sub(hit_us.max(*since_us)) / 1000));
            }
        }
        Ok(ages)
    }

    /// Packets and bytes that hit an entry.
    ///
    /// # Errors
    /// [`ErrorKind`]: `CountersDisabled`, `InvalidHandle`, `ExpiredHandle`, `Unavailable`.
    pub fn read_direct_counter(&self, t: TableId, handle: u64) -> Result<CounterValue> {
        self.fold(&Fold::Direct(t, vec![handle as u32]));
        let values = self.ask_state(|control: &Control| {
            let store = control.store(&self.view)?;
            store.check_direct_counter(t)?;
            let index = store.index(t, handle)?;
            Ok(move |state: Option<&mut ProgramState>| read::direct_counters(state, t, &[index]))
        })?;
        Ok(values.iter().flatten().copied().sum())
    }

    /// Of all entries of a table, handle and direct counter.
    ///
    /// # Errors
    /// [`ErrorKind`]: `CountersDisabled`, `Unavailable`.
    pub fn read_direct_counters(&self, t: TableId) -> Result<Vec<(u64, CounterValue)>> {
        let handles = self.read_store(|store| {
            store.check_direct_counter(t)?;
            store.handles(t)
        })?;
        let mut counters = Vec::with_capacity(handles.len());
        for some in handles.chunks(CHUNK as usize) {
            let indices: Arc<[u32]> = some.iter().map(|(_, index)| *index).collect();
            self.fold(&Fold::Direct(t, indices.to_vec()));
            let values = self.ask_state(move |_| {
                Ok(move |state: Option<&mut ProgramState>| read::direct_counters(state, t, &indices))
            })?;
            for (at, (handle, _)) in some.iter().enumerate() {
                counters.push((*handle, values.iter().filter_map(|values| values.get(at)).copied().sum()));
            }
        }
        Ok(counters)
    }

    /// Set an entry's counter.
    ///
    /// # Errors
    /// [`ErrorKind`]: `CountersDisabled`, `InvalidHandle`, `ExpiredHandle`.
    pub fn write_direct_counter(&self, t: TableId, handle: u64, value: CounterValue) -> Result<()> {
        let mut control = self.lock_for_store()?;
        let store = control.store(&self.view)?;
        store.check_direct_counter(t)?;
        let handle = store.index(t, handle)?;
        control.send_shares(&self.view, value, |value| StateWrite::DirectCounter { table: t, handle, value });
        Ok(())
    }

    /// Set the counters of all entries of a table to zero.
    ///
    /// # Errors
    /// [`ErrorKind::CountersDisabled`].
    pub fn reset_direct_counters(&self, t: TableId) -> Result<()> {
        let mut control = self.lock_for_store()?;
        let store = control.store(&self.view)?;
        store.check_direct_counter(t)?;
        let records = store.places(t)?;
        let pieces = (0..records).step_by(PIECE as usize);
        control.send_in_pieces(
            &self.view,
            pieces.map(|from| StateWrite::ResetDirectCounters {
                table: t,
                from: from as u32,
                count: PIECE as u32,
            }),
        );
        Ok(())
    }

    /// Add a member to an action profile; gives its handle, the lowest that is free.
    ///
    /// # Errors
    /// As [`Store::add_member`].
    pub fn add_member(&self, p: ProfileId, call: ActionCall) -> Result<u32> {
        self.write_store(|store, out| store.add_member(p, None, call, out))
    }

    /// Add a member of this number.
    ///
    /// # Errors
    /// As [`Store::add_member`].
    pub fn add_member_as(&self, p: ProfileId, id: u32, call: ActionCall) -> Result<()> {
        self.write_store(|store, out| store.add_member(p, Some(id), call, out).map(|_| ()))
    }

    /// Change what a member does.
    ///
    /// # Errors
    /// As [`Store::modify_member`].
    pub fn modify_member(&self, p: ProfileId, member: u32, call: ActionCall) -> Result<()> {
        self.write_store(|store, out| store.modify_member(p, member, call, out))
    }

    /// Take a member out.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMember`, `MemberStillUsed`.
    pub fn delete_member(&self, p: ProfileId, member: u32) -> Result<()> {
        self.write_store(|store, out| store.delete_member(p, member, out))
    }

    /// All members by handle.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidActionProfileName`].
    pub fn members(&self, p: ProfileId) -> Result<Vec<Member>> {
        self.read_store(|store| store.members(p))
    }

    /// One member.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidMember`].
    pub fn member(&self, p: ProfileId, member: u32) -> Result<Member> {
        self.read_store(|store| store.member(p, member))
    }

    /// Make an empty group; gives its handle, the lowest that is free.
    ///
    /// # Errors
    /// [`ErrorKind::NoActionProfileSelection`].
    pub fn create_group(&self, p: ProfileId) -> Result<u32> {
        self.write_store(|store, out| store.add_group(p, None, &[], 0, out))
    }

    /// Make a group of this number, of members with weights; their sum may be `max_size` at most, 0 for no limit.
    ///
    /// # Errors
    /// As [`Store::add_group`].
    pub fn create_group_as(
        &self,
        p: ProfileId,
        id: u32,
        members: Vec<(u32, u32)>,
        max_size: u32,
    ) -> Result<()> {
        self.write_store(|store, out| store.add_group(p, Some(id), &members, max_size, out).map(|_| ()))
    }

    /// Replace a group's members (member, weight).
    ///
    /// # Errors
    /// As [`Store::set_group`].
    pub fn set_group_members(&self, p: ProfileId, group: u32, members: Vec<(u32, u32)>) -> Result<()> {
        self.write_store(|store, out| store.set_group(p, group, &members, out))
    }

    /// Add a member to a group, with weight 1.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMember`, `InvalidGroup`, `MemberAlreadyInGroup`, `NoActionProfileSelection`.
    pub fn add_to_group(&self, p: ProfileId, member: u32, group: u32) -> Result<()> {
        self.write_store(|store, out| store.add_to_group(p, member, group, out))
    }

    /// Take a member out of a group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMember`, `InvalidGroup`, `MemberNotInGroup`, `NoActionProfileSelection`.
    pub fn remove_from_group(&self, p: ProfileId, member: u32, group: u32) -> Result<()> {
        self.write_store(|store, out| store.remove_from_group(p, member, group, out))
    }

    /// Take a group out; its members stay.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidGroup`, `GroupStillUsed`, `NoActionProfileSelection`.
    pub fn delete_group(&self, p: ProfileId, group: u32) -> Result<()> {
        self.write_store(|store, out| store.delete_group(p, group, out))
    }

    /// All groups by handle.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidActionProfileName`].
    pub fn groups(&self, p: ProfileId) -> Result<Vec<Group>> {
        self.read_store(|store| store.groups(p))
    }

    /// One group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidGroup`, `NoActionProfileSelection`.
    pub fn group(&self, p: ProfileId, group: u32) -> Result<Group> {
        self.read_store(|store| store.group(p, group))
    }
}

impl std::iter::Sum for CounterValue {
    fn sum<I: Iterator<Item = CounterValue>>(values: I) -> CounterValue {
        values.fold(CounterValue::default(), |sum, value| CounterValue {
            packets: sum.packets.wrapping_add(value.packets),
            bytes: sum.bytes.wrapping_add(value.bytes),
        })
    }
}
