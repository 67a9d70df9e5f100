//! Table entries: writing them, alone and many at once.

use super::entity::{ActionChoice, Entity, EntityKind, TableAction as WireAction, TableEntry};
use super::error::{P4Error, Result, denied, invalid, not_found, unimplemented};
use super::keys::{Stand, call_of, key_of};
use super::message::{Update, UpdateType};
use super::target::{EntryNote, Target};
use crate::p4info::index::TableIndex;
use barewire_p4::ir::TableId;
use barewire_p4::key::MatchParam;
use barewire_switch::control::link::MAX_ATOMIC;
use barewire_switch::control::{
    CounterValue, Entry, ErrorKind, MeterRate, NewEntry, TableAction, TableWrite,
};
use prost::Message;
use std::sync::Arc;
use tonic::Code;

/// What a table entry says, checked, with the key in the store's form.
struct Checked {
    key: Vec<MatchParam>,
    priority: u32,
    note: EntryNote,
    ttl_ms: u32,
}

impl EntryNote {
    /// The note in a store's cookie; an empty one when somebody else wrote it.
    pub(super) fn of(entry: &Entry) -> EntryNote {
        let note = EntryNote::decode(&entry.cookie[..]).unwrap_or_default();
        let in_force = note.group.is_some_and(|group| entry.action == TableAction::Group(group));
        if note.one_shot.is_none() || in_force {
            return note;
        }
        // Another control plane gave the entry another action.
        EntryNote { one_shot: None, group: None, members: Vec::new(), ..note }
    }

    fn cookie(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// An entry as a batch knows it: its handle changes when it is deleted and comes again, its key does not.
#[derive(Clone)]
pub(super) struct EntryKey {
    /// P4Info's id.
    table: u32,
    key: Vec<MatchParam>,
    priority: u32,
}

impl EntryKey {
    pub(super) fn new(table: &TableIndex, key: &[MatchParam], priority: u32) -> EntryKey {
        EntryKey { table: table.id, key: key.to_vec(), priority }
    }

    fn of(table: &TableIndex, entry: &Entry) -> EntryKey {
        EntryKey::new(table, &entry.key, entry.priority)
    }
}

/// Time-outs are kept in whole milliseconds, at least one.
fn ttl_ms(idle_timeout_ns: i64) -> u32 {
    let ns = u64::try_from(idle_timeout_ns).unwrap_or(0);
    u32::try_from(ns.div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

impl Target {
    /// The table of an entry, and its name for messages.
    pub(super) fn table(pipeline: &super::target::Pipeline, id: u32) -> Result<&TableIndex> {
        pipeline.index.tables.get(id).ok_or_else(|| {
            let known: Vec<String> =
                pipeline.index.tables.iter().take(8).map(|t| format!("{} ('{}')", t.id, t.name)).collect();
            not_found(format!("there is no table {id}; tables are {}", known.join(", ")))
        })
    }

    /// What holds for each kind of write.
    fn check_entry(table: &TableIndex, entry: &TableEntry, kind: UpdateType) -> Result<Checked> {
        let place = |error: P4Error| error.at(&format!("table '{}'", table.name));
        if entry.is_const {
            return Err(place(invalid("is_const may not be set in a write")));
        }
        if table.fields.is_empty() {
            return Err(place(invalid("it has no key: it has a default entry only")));
        }
        if table.is_const && kind != UpdateType::Modify {
            return Err(place(denied("its entries are const")));
        }
        let (key, priority) = key_of(table, entry)?;
        if kind == UpdateType::Delete {
            return Ok(Checked { key, priority, note: EntryNote::default(), ttl_ms: 0 });
        }
        if entry.time_since_last_hit.is_some() {
            return Err(place(invalid("time_since_last_hit may not be set in a write")));
        }
        if entry.idle_timeout_ns < 0 {
            return Err(place(invalid(format!("idle_timeout_ns is {}", entry.idle_timeout_ns))));
        }
        if entry.idle_timeout_ns != 0 && !table.idle {
            return Err(place(invalid("its entries do not age, idle_timeout_ns must be 0")));
        }
        if entry.counter_data.is_some() && table.counter.is_none() {
            return Err(place(invalid("it has no direct counter, counter_data must not be set")));
        }
        if entry.meter_config.is_some() && table.meter.is_none() {
            return Err(place(invalid("it has no direct meter, meter_config must not be set")));
        }
        if entry.meter_counter_data.is_some() {
            return Err(place(unimplemented("meters keep no counters for each colour")));
        }
        let note = EntryNote {
            controller_metadata: entry.controller_metadata,
            metadata: entry.metadata.clone(),
            idle_timeout_ns: entry.idle_timeout_ns,
            ..EntryNote::default()
        };
        Ok(Checked { key, priority, note, ttl_ms: ttl_ms(entry.idle_timeout_ns) })
    }

    /// The store's action for an entry's, which is no group in place.
    fn action_of(&mut self, table: &TableIndex, action: &WireAction, stand: Stand) -> Result<TableAction> {
        let pipeline = Arc::clone(&self.pipeline);
        let place = format!("table '{}'", table.name);
        let wrong = |given: &str, wanted: &str| {
            Err(invalid(format!("{place}: {given} was given, it takes {wanted}")))
        };
        let profile = table.profile.and_then(|id| pipeline.index.profiles.get(id));
        match (action.r#type.as_ref(), profile) {
            (None, _) => Err(invalid(format!("{place}: the action is not set"))),
            (Some(ActionChoice::Action(action)), None) => {
                call_of(&pipeline.index, &place, &table.actions, action, stand).map(TableAction::Call)
            }
            (Some(ActionChoice::Action(_)), Some(_)) => {
                wrong("an action", "members and groups of its action profile")
            }
            (Some(_), None) => wrong("a member or group", "actions"),
            (Some(ActionChoice::ActionProfileMemberId(id)), Some(profile)) => {
                self.exclusive(profile.id, false)?;
                self.switch.member(profile.profile, *id).map_err(|_| {
                    not_found(format!("{place}: its action profile '{}' has no member {id}", profile.name))
                })?;
                Ok(TableAction::Member(*id))
            }
            (Some(ActionChoice::ActionProfileGroupId(_)), Some(profile)) if !profile.selector => {
                wrong("a group", "members: its action profile has no selector")
            }
            (Some(ActionChoice::ActionProfileGroupId(id)), Some(profile)) => {
                self.exclusive(profile.id, false)?;
                self.switch.group(profile.profile, *id).map_err(|_| {
                    not_found(format!("{place}: its action profile '{}' has no group {id}", profile.name))
                })?;
                Ok(TableAction::Group(*id))
            }
            (Some(ActionChoice::ActionProfileActionSet(_)), Some(_)) => {
                Err(invalid(format!("{place}: a group in place was not expected here")))
            }
        }
    }

    /// The entry with a key.
    pub(super) fn find_entry(&self, table: &TableIndex, key: &[MatchParam], priority: u32) -> Result<Entry> {
        let priority = table.needs_priority.then_some(priority);
        self.switch.entry_by_key(table.table, key, priority).map_err(|error| match error.kind {
            // The key itself was checked before.
            ErrorKind::InvalidHandle | ErrorKind::ExpiredHandle | ErrorKind::BadMatchKey => {
                not_found(format!("table '{}': there is no such entry", table.name))
            }
            _ => P4Error::from(error).at(&format!("table '{}'", table.name)),
        })
    }

    /// The table and the handle of the entry that has a key now.
    pub(super) fn place_of(&self, at: &EntryKey) -> Result<(TableId, u64)> {
        let table = Self::table(&self.pipeline, at.table)?;
        Ok((table.table, self.find_entry(table, &at.key, at.priority)?.handle))
    }

    pub(super) fn write_entry(&mut self, kind: UpdateType, entry: &TableEntry) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let table = Self::table(&pipeline, entry.table_id)?;
        if entry.is_default_action {
            return self.write_default(kind, table, entry);
        }
        let checked = Self::check_entry(table, entry, kind)?;
        match kind {
            UpdateType::Insert => self.insert_entry(table, entry, checked),
            UpdateType::Modify => self.modify_entry(table, entry, checked),
            _ => self.delete_entry(table, &checked),
        }
    }

    /// What counters and meters of an entry are to be. Checked before anything is written.
    fn resources(
        &self,
        table: &TableIndex,
        entry: &TableEntry,
    ) -> Result<(Option<CounterValue>, Option<Vec<MeterRate>>)> {
        let place = |error: P4Error| error.at(&format!("table '{}'", table.name));
        let counter =
            entry.counter_data.as_ref().map(super::arrays::counter_value).transpose().map_err(place)?;
        let meter = table.meter.and_then(|id| self.index().direct_meters.get(id));
        let rates = match (&entry.meter_config, meter) {
            (Some(config), Some(meter)) => Some(super::arrays::rates_of(meter, config).map_err(place)?),
            _ => None,
        };
        Ok((counter, rates))
    }

    fn insert_entry(&mut self, table: &TableIndex, entry: &TableEntry, mut checked: Checked) -> Result<()> {
        let (counter, rates) = self.resources(table, entry)?;
        let wire = entry
            .action
            .as_ref()
            .ok_or_else(|| invalid(format!("table '{}': the action is not set", table.name)))?;
        let action = match &wire.r#type {
            Some(ActionChoice::ActionProfileActionSet(set)) => {
                // A duplicate must not cost a group made and taken away again.
                if self.find_entry(table, &checked.key, checked.priority).is_ok() {
                    let message = format!("table '{}': the entry is there already", table.name);
                    return Err(P4Error::new(Code::AlreadyExists, message));
                }
                self.make_one_shot(table, set, &mut checked.note)?
            }
            _ => self.action_of(table, wire, Stand::Entry)?,
        };
        let note = checked.note;
        let place = EntryKey::new(table, &checked.key, checked.priority);
        let new = NewEntry {
            key: checked.key,
            priority: checked.priority,
            action,
            ttl_ms: checked.ttl_ms,
            cookie: note.cookie(),
        };
        let handle = match self.switch.add_entry_with(table.table, new) {
            Ok(handle) => handle,
            Err(error) => {
                self.drop_one_shot(table, &note)?;
                return Err(error.into());
            }
        };
        let at = table.table;
        self.undo_with(move |target| {
            let (table, handle) = target.place_of(&place)?;
            target.switch.delete_entry(table, handle)?;
            let pipeline = Arc::clone(&target.pipeline);
            target.drop_one_shot(Self::table(&pipeline, place.table)?, &note)
        });
        if let Some(value) = counter {
            self.switch.write_direct_counter(at, handle, value)?;
        }
        if let Some(rates) = rates {
            self.switch.set_direct_meter(at, handle, &rates)?;
        }
        Ok(())
    }

    fn modify_entry(&mut self, table: &TableIndex, entry: &TableEntry, mut checked: Checked) -> Result<()> {
        let old = self.find_entry(table, &checked.key, checked.priority)?;
        if table.is_const {
            if entry.action.is_some() || entry.idle_timeout_ns != 0 {
                return Err(denied(format!(
                    "table '{}': its entries are const, their actions too",
                    table.name
                )));
            }
            return self.modify_resources(table, entry, &old);
        }
        self.resources(table, entry)?;
        let old_note = EntryNote::of(&old);
        let action = match &entry.action {
            None => {
                checked.note.one_shot = old_note.one_shot.clone();
                checked.note.group = old_note.group;
                checked.note.members.clone_from(&old_note.members);
                old.action.clone()
            }
            Some(wire) => match &wire.r#type {
                Some(ActionChoice::ActionProfileActionSet(set)) => {
                    self.make_one_shot(table, set, &mut checked.note)?
                }
                _ => self.action_of(table, wire, Stand::Entry)?,
            },
        };
        let replaced = entry.action.is_some();
        let (at, note) = (table.table, checked.note);
        if let Err(error) = self.replace_entry(at, old.handle, action, checked.ttl_ms, note.cookie()) {
            if replaced {
                self.drop_one_shot(table, &note)?;
            }
            return Err(error);
        }
        if self.wants_undo() {
            // Groups in place stay until the batch is over: then one of the two is taken away.
            let (before, place) = (old.clone(), EntryKey::of(table, &old));
            self.undo_with(move |target| {
                let (at, handle) = target.place_of(&place)?;
                target.replace_entry(at, handle, before.action, before.ttl_ms, before.cookie)?;
                let pipeline = Arc::clone(&target.pipeline);
                match replaced {
                    true => target.drop_one_shot(Self::table(&pipeline, place.table)?, &note),
                    false => Ok(()),
                }
            });
            if replaced {
                self.retire_one_shot(table.id, old_note);
            }
        } else if replaced {
            self.drop_one_shot(table, &old_note)?;
        }
        self.modify_resources(table, entry, &old)
    }

    /// All of an entry but its key, at once.
    fn replace_entry(
        &self,
        table: TableId,
        handle: u64,
        action: TableAction,
        ttl_ms: u32,
        cookie: Vec<u8>,
    ) -> Result<()> {
        let write = TableWrite::Modify { table, handle, action, ttl_ms: Some(ttl_ms), cookie: Some(cookie) };
        self.switch.write_batch(vec![write]).into_iter().try_for_each(|result| Ok(result.map(|_| ())?))
    }

    /// Counter and meter of an entry by a MODIFY: an absent counter stays, an absent meter is reset.
    fn modify_resources(&mut self, table: &TableIndex, entry: &TableEntry, old: &Entry) -> Result<()> {
        let (counter, rates) = self.resources(table, entry)?;
        let (at, handle) = (table.table, old.handle);
        if let Some(value) = counter {
            if self.wants_undo() {
                self.undo_counter(at, handle, EntryKey::of(table, old))?;
            }
            self.switch.write_direct_counter(at, handle, value)?;
        }
        if table.meter.is_some() {
            if self.wants_undo() {
                self.undo_meter(at, handle, EntryKey::of(table, old))?;
            }
            self.switch.set_direct_meter(at, handle, &rates.unwrap_or_default())?;
        }
        Ok(())
    }

    /// Say how the counter of an entry is set back to what it is now.
    pub(super) fn undo_counter(&mut self, at: TableId, handle: u64, place: EntryKey) -> Result<()> {
        let before = self.switch.read_direct_counter(at, handle)?;
        self.undo_with(move |target| {
            let (at, handle) = target.place_of(&place)?;
            Ok(target.switch.write_direct_counter(at, handle, before)?)
        });
        Ok(())
    }

    /// Say how the meter of an entry is set back to what it is now.
    pub(super) fn undo_meter(&mut self, at: TableId, handle: u64, place: EntryKey) -> Result<()> {
        let before = self.switch.direct_meter_rates(at, handle)?;
        self.undo_with(move |target| {
            let (at, handle) = target.place_of(&place)?;
            Ok(target.switch.set_direct_meter(at, handle, &before)?)
        });
        Ok(())
    }

    fn delete_entry(&mut self, table: &TableIndex, checked: &Checked) -> Result<()> {
        let old = self.find_entry(table, &checked.key, checked.priority)?;
        let note = EntryNote::of(&old);
        let at = table.table;
        if self.wants_undo() {
            let counter =
                table.counter.map(|_| self.switch.read_direct_counter(at, old.handle)).transpose()?;
            let rates = table.meter.map(|_| self.switch.direct_meter_rates(at, old.handle)).transpose()?;
            let before = old.clone();
            self.undo_with(move |target| {
                let Entry { key, priority, action, ttl_ms, cookie, .. } = before;
                let handle =
                    target.switch.add_entry_with(at, NewEntry { key, priority, action, ttl_ms, cookie })?;
                if let Some(value) = counter {
                    target.switch.write_direct_counter(at, handle, value)?;
                }
                match rates {
                    Some(rates) => Ok(target.switch.set_direct_meter(at, handle, &rates)?),
                    None => Ok(()),
                }
            });
        }
        self.switch.delete_entry(at, old.handle)?;
        if self.wants_undo() {
            self.retire_one_shot(table.id, note);
            return Ok(());
        }
        self.drop_one_shot(table, &note)
    }

    fn write_default(&mut self, kind: UpdateType, table: &TableIndex, entry: &TableEntry) -> Result<()> {
        let place = |error: P4Error| error.at(&format!("table '{}', default entry", table.name));
        if kind != UpdateType::Modify {
            return Err(place(invalid("it is always there and can be modified only")));
        }
        if !entry.r#match.is_empty() || entry.priority != 0 {
            return Err(place(invalid("match and priority must not be set")));
        }
        if entry.is_const {
            return Err(place(invalid("is_const may not be set in a write")));
        }
        if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
            return Err(place(invalid(
                "it does not age: idle_timeout_ns and time_since_last_hit must not be set",
            )));
        }
        if entry.meter_config.is_some() || entry.counter_data.is_some() || entry.meter_counter_data.is_some()
        {
            return Err(place(unimplemented("it has no direct counter and no direct meter in this switch")));
        }
        if table.const_default {
            return Err(place(denied("it is const")));
        }
        let before = self.switch.default_entry(table.table)?;
        let note = match &entry.action {
            None => {
                self.switch.reset_default(table.table)?;
                None
            }
            Some(_) if table.profile.is_some() => {
                return Err(place(denied("it is NoAction and const where a table has an action profile")));
            }
            Some(action) => {
                let action = self.action_of(table, action, Stand::Default)?;
                self.switch.set_default(table.table, action)?;
                Some(EntryNote {
                    controller_metadata: entry.controller_metadata,
                    metadata: entry.metadata.clone(),
                    ..EntryNote::default()
                })
            }
        };
        let old_note = self.notes.defaults.remove(&table.id);
        if let Some(note) = note {
            self.notes.defaults.insert(table.id, note);
        }
        let (at, id) = (table.table, table.id);
        self.undo_with(move |target| {
            target.notes.defaults.remove(&id);
            if let Some(note) = old_note {
                target.notes.defaults.insert(id, note);
            }
            match before {
                Some(action) => Ok(target.switch.set_default(at, action)?),
                None => Ok(target.switch.reset_default(at)?),
            }
        });
        Ok(())
    }

    /// The store's write for a plain table entry, and what was there before.
    fn table_write(&mut self, kind: UpdateType, update: &Update) -> Result<(TableWrite, Option<Entry>)> {
        let Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) = &update.entity else {
            return Err(invalid("the update has no table entry"));
        };
        let pipeline = Arc::clone(&self.pipeline);
        let table = Self::table(&pipeline, entry.table_id)?;
        let checked = Self::check_entry(table, entry, kind)?;
        let at = table.table;
        Ok(match kind {
            UpdateType::Insert => {
                let wire = entry.action.as_ref();
                let wire =
                    wire.ok_or_else(|| invalid(format!("table '{}': the action is not set", table.name)))?;
                let action = self.action_of(table, wire, Stand::Entry)?;
                let entry = NewEntry {
                    key: checked.key,
                    priority: checked.priority,
                    action,
                    ttl_ms: checked.ttl_ms,
                    cookie: checked.note.cookie(),
                };
                (TableWrite::Add { table: at, entry }, None)
            }
            UpdateType::Delete => {
                let old = self.find_entry(table, &checked.key, checked.priority)?;
                let handle = old.handle;
                (TableWrite::Delete { table: at, handle }, Some(old))
            }
            _ => {
                let old = self.find_entry(table, &checked.key, checked.priority)?;
                let action = match &entry.action {
                    Some(_) if table.is_const => {
                        return Err(denied(format!(
                            "table '{}': its entries are const, their actions too",
                            table.name
                        )));
                    }
                    Some(wire) => self.action_of(table, wire, Stand::Entry)?,
                    None => old.action.clone(),
                };
                let (ttl_ms, cookie) = (Some(checked.ttl_ms), Some(checked.note.cookie()));
                (TableWrite::Modify { table: at, handle: old.handle, action, ttl_ms, cookie }, Some(old))
            }
        })
    }

    /// Whether an entry needs more than the store's batch: a group in place before, or (MODIFY) a meter to be reset or
    /// an action to be kept.
    fn needs_more(&self, kind: UpdateType, update: &Update, old: Option<&Entry>) -> bool {
        let Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) = &update.entity else {
            return true;
        };
        let table = self.index().tables.get(entry.table_id);
        old.is_some_and(|old| EntryNote::of(old).one_shot.is_some())
            || kind == UpdateType::Modify
                && (entry.action.is_none()
                    || table.is_none_or(|table| table.meter.is_some() || table.is_const))
    }

    /// Many plain entries of one kind of update, in order: those that need no more than the store with one lock and one
    /// message to each engine.
    pub(super) fn write_entries(
        &mut self,
        kind: UpdateType,
        updates: &[Update],
        results: &mut Vec<Result<()>>,
    ) {
        if kind == UpdateType::Unspecified {
            results.extend(updates.iter().map(|update| self.write_one(update)));
            return;
        }
        let first = results.len();
        let mut writes = Vec::with_capacity(updates.len());
        let mut of_write = Vec::with_capacity(updates.len());
        for (at, update) in updates.iter().enumerate() {
            results.push(Ok(()));
            match self.table_write(kind, update) {
                Ok((_, old)) if self.needs_more(kind, update, old.as_ref()) => {
                    // What stands before it may be of the same entry.
                    self.write_some(&mut writes, &mut of_write, &mut results[first..]);
                    results[first + at] = self.write_one(update);
                }
                Ok((write, _)) => {
                    writes.push(write);
                    of_write.push(at);
                }
                Err(error) => results[first + at] = Err(error),
            }
        }
        self.write_some(&mut writes, &mut of_write, &mut results[first..]);
    }

    fn write_some(
        &self,
        writes: &mut Vec<TableWrite>,
        of_write: &mut Vec<usize>,
        results: &mut [Result<()>],
    ) {
        let written = self.switch.write_batch(std::mem::take(writes));
        for (result, at) in written.into_iter().zip(of_write.drain(..)) {
            results[at] = result.map(|_| ()).map_err(P4Error::from);
        }
    }

    /// Plain entries, all or none, and for packets all at once.
    pub(super) fn write_entries_at_once(&mut self, updates: &[Update]) -> Vec<Result<()>> {
        if updates.len() > MAX_ATOMIC {
            let error = unimplemented(format!("DATAPLANE_ATOMIC is done for {MAX_ATOMIC} updates at most"));
            return updates.iter().map(|_| Err(error.clone())).collect();
        }
        let mut writes = Vec::with_capacity(updates.len());
        let mut results: Vec<Result<()>> = Vec::with_capacity(updates.len());
        for update in updates {
            let kind = UpdateType::try_from(update.r#type).unwrap_or_default();
            results.push(match kind {
                UpdateType::Unspecified => {
                    Err(invalid(format!("update type {} is not INSERT, MODIFY or DELETE", update.r#type)))
                }
                kind => match self.table_write(kind, update) {
                    Err(error) => Err(error),
                    Ok((_, old)) if self.needs_more(kind, update, old.as_ref()) => Err(unimplemented(
                        "DATAPLANE_ATOMIC is not done for entries with meters or groups in place",
                    )),
                    Ok((write, _)) => {
                        writes.push(write);
                        Ok(())
                    }
                },
            });
        }
        if results.iter().all(Result::is_ok) {
            match self.switch.write_all(writes) {
                Ok(_) => return results,
                Err((at, error)) => {
                    if let Some(result) = results.get_mut(at) {
                        *result = Err(error.into());
                    }
                }
            }
        }
        let aborted = P4Error::new(Code::Aborted, "not done: another update of the batch failed");
        results.into_iter().map(|result| result.and(Err(aborted.clone()))).collect()
    }
}
