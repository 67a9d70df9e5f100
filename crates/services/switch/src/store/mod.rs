//! The master copy of everything a control plane can write to one program: tables, action profiles, meter rates,
//! value sets, hash parameters.
//!
//! Plain data without threads. Each write is checked by bmv2's rules, and refused with its error kind, before anything
//! changes; what is accepted comes out as [`Write`]s for the engines' replicas. What packets change (counters,
//! meter levels, registers, the times of hits) is the engines' alone.

mod arrays;
mod encode;
mod json;
mod profile;
pub(crate) mod read;
mod table;
mod undo;
mod write;

pub use encode::has_priority;
pub(crate) use json::SavedStore;
pub use profile::{MAX_GROUP_WEIGHT, MAX_MEMBERS};
pub(crate) use table::PackedEntries;
pub use table::{MAX_ENTRIES, handle_of};
pub(crate) use undo::Undo;
pub use write::{StateWrite, Write};

use crate::control::{ControlError, Entry, ErrorKind, Group, Member, MeterRate, NewEntry};
use arrays::MeterStore;
use barewire_p4::hash::Parameters;
use barewire_p4::ir::{ActionCall, CalculationId, MeterId, ProfileId, Program, Table, TableId, ValueSetId};
use barewire_p4::key::MatchParam;
use barewire_p4_state::{ProgramState, TableAction};
use num_bigint::BigUint;
use profile::{ProfileStore, profile_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use table::{NewSlot, Packed, TableStore};

type Result<T> = std::result::Result<T, ControlError>;

/// The master copy for one program.
#[derive(Debug)]
pub struct Store {
    program: Arc<Program>,
    tables: Vec<TableStore>,
    profiles: Vec<ProfileStore>,
    meters: Vec<MeterStore>,
    value_sets: Vec<Vec<Vec<BigUint>>>,
    hash_parameters: BTreeMap<u32, Parameters>,
    scratch: Vec<u8>,
}

impl Store {
    /// As after start: the program's own entries and defaults.
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`] when the program's own entries break its own rules (one twice).
    pub fn new(program: Arc<Program>) -> Result<Store> {
        let mut store = Store::empty(program);
        let program = Arc::clone(&store.program);
        for (at, table) in program.tables.iter().enumerate() {
            for entry in &table.entries {
                let new = NewEntry {
                    key: entry.key.clone(),
                    priority: entry.priority,
                    action: TableAction::Call(entry.call.clone()),
                    ttl_ms: 0,
                    cookie: Vec::new(),
                };
                store.insert(TableId::from(at), &new, 0, true).map_err(|error| {
                    ControlError::new(ErrorKind::BadProgram, format!("an entry of the program: {error}"))
                })?;
            }
        }
        Ok(store)
    }

    /// Defaults only, without the program's own entries.
    fn empty(program: Arc<Program>) -> Store {
        let profiles = program.profiles.iter().enumerate();
        Store {
            tables: program.tables.iter().map(TableStore::new).collect(),
            profiles: profiles.map(|(at, p)| ProfileStore::new(&program, ProfileId::from(at), p)).collect(),
            meters: program.meters.iter().map(|_| MeterStore::default()).collect(),
            value_sets: program.value_sets.iter().map(|_| Vec::new()).collect(),
            hash_parameters: BTreeMap::new(),
            scratch: Vec::new(),
            program,
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// A state with everything that is here, for a replica.
    pub fn build_state(&self) -> ProgramState {
        let mut state = ProgramState::new(&self.program);
        self.populate(&mut |write| {
            let accepted = write.apply(&mut state);
            debug_assert!(accepted, "a replica accepts what the store holds");
        });
        state
    }

    /// The writes that bring an empty replica to what is here.
    pub fn populate(&self, out: &mut dyn FnMut(StateWrite)) {
        for (at, profile) in self.profiles.iter().enumerate() {
            let id = ProfileId::from(at);
            for slot in profile.members.values() {
                out(StateWrite::InsertMember { profile: id, member: slot.index, call: slot.call.clone() });
            }
            for slot in profile.groups.values() {
                let (group, members) = profile.for_replica(slot);
                out(StateWrite::SetGroup { profile: id, group, members });
            }
        }
        for (at, table) in self.tables.iter().enumerate() {
            let id = TableId::from(at);
            if let Some(action) = &table.default {
                out(StateWrite::SetDefault { table: id, action: Some(self.for_replica(id, action)) });
            }
            for handle in table.indices() {
                let Entry { key, priority, action, .. } =
                    table.entry(&self.program, &self.program.tables[at], handle);
                let action = self.for_replica(id, &action);
                out(StateWrite::Insert { table: id, handle, key, priority, action });
            }
            for (handle, rates) in &table.direct_rates {
                out(StateWrite::DirectMeter { table: id, handle: *handle, rates: rates.clone() });
            }
        }
        self.populate_arrays(out);
    }

    fn table(&self, id: TableId) -> Result<(&Table, &TableStore)> {
        match (self.program.tables.get(id.at()), self.tables.get(id.at())) {
            (Some(table), Some(store)) => Ok((table, store)),
            _ => Err(no_table(id)),
        }
    }

    fn table_mut(&mut self, id: TableId) -> Result<(Arc<Program>, &mut TableStore)> {
        let program = Arc::clone(&self.program);
        Ok((program, self.tables.get_mut(id.at()).ok_or_else(|| no_table(id))?))
    }

    fn check_mutable(&self, id: TableId) -> Result<()> {
        let (table, _) = self.table(id)?;
        if table.immutable {
            return Err(ControlError::new(
                ErrorKind::ImmutableTableEntries,
                format!("the entries of table '{}' are const", table.name),
            ));
        }
        Ok(())
    }

    /// An action for an entry or default entry of a table.
    fn check_action(&mut self, id: TableId, action: &TableAction) -> Result<()> {
        let program = Arc::clone(&self.program);
        let table = program.tables.get(id.at()).ok_or_else(|| no_table(id))?;
        match (profile_of(&program, id), action) {
            (Some(profile), action) => {
                let profile = self.profiles.get_mut(profile.at()).ok_or_else(|| no_profile(profile))?;
                profile.check(&table.name, action)
            }
            (None, TableAction::Call(call)) => {
                encode::check_call(&program, &table.actions, &format!("table '{}'", table.name), call)
            }
            (None, _) => Err(ControlError::new(
                ErrorKind::WrongTableType,
                format!("table '{}' takes actions, it has no action profile", table.name),
            )),
        }
    }

    fn for_replica(&self, id: TableId, action: &TableAction) -> TableAction {
        match profile_of(&self.program, id) {
            Some(profile) => self.profiles[profile.at()].action_for_replica(action),
            None => action.clone(),
        }
    }

    fn retain(&mut self, id: TableId, action: &Packed) {
        if let Some(profile) = profile_of(&self.program, id) {
            self.profiles[profile.at()].retain(action);
        }
    }

    fn release(&mut self, id: TableId, action: &Packed) {
        if let Some(profile) = profile_of(&self.program, id) {
            self.profiles[profile.at()].release(action);
        }
    }

    /// Add an entry; gives its handle.
    ///
    /// # Errors
    /// [`ErrorKind`]: `ImmutableTableEntries`, `AgeingDisabled`, `InvalidActionName`, `BadActionData`,
    /// `WrongTableType`, `InvalidMember`, `InvalidGroup`, `NoTableKey`, `BadMatchKey`, `DuplicateEntry`,
    /// `TableFull`.
    pub fn add_entry(
        &mut self,
        id: TableId,
        new: &NewEntry,
        now_us: u64,
        out: &mut Vec<Write>,
    ) -> Result<u64> {
        self.check_mutable(id)?;
        if new.ttl_ms != 0 {
            self.check_ageing(id)?;
        }
        let (index, key, priority) = self.insert(id, new, now_us, false)?;
        let action = self.for_replica(id, &new.action);
        out.push(Write::State(StateWrite::Insert { table: id, handle: index, key, priority, action }));
        Ok(self.tables[id.at()].handle(index))
    }

    /// `own`: it came with the program.
    fn insert(
        &mut self,
        id: TableId,
        new: &NewEntry,
        now_us: u64,
        own: bool,
    ) -> Result<(u32, Vec<MatchParam>, u32)> {
        self.check_action(id, &new.action)?;
        let (program, _) = self.table_mut(id)?;
        let table = &program.tables[id.at()];
        self.scratch.clear();
        let key = encode::encode_key(table, &new.key, &mut self.scratch)?;
        let priority = if has_priority(table) { new.priority } else { 0 };
        let action = Packed::of(&program, &new.action);
        let slot = NewSlot {
            key: self.scratch.as_slice().into(),
            priority,
            action: action.clone(),
            ttl_ms: new.ttl_ms,
            since_us: now_us,
            is_const: own && table.immutable,
            cookie: new.cookie.as_slice().into(),
        };
        let index = self.tables[id.at()].insert(slot)?;
        self.retain(id, &action);
        Ok((index, key, priority))
    }

    /// Change what an entry does.
    ///
    /// # Errors
    /// As [`Store::add_entry`] for the action; `InvalidHandle`, `ExpiredHandle`.
    pub fn modify_entry(
        &mut self,
        id: TableId,
        handle: u64,
        action: &TableAction,
        out: &mut Vec<Write>,
    ) -> Result<()> {
        self.check_mutable(id)?;
        self.check_action(id, action)?;
        let (program, table) = self.table_mut(id)?;
        let index = table.index(handle)?;
        let packed = Packed::of(&program, action);
        self.retain(id, &packed);
        let old = self.tables[id.at()].set_action(index, packed);
        self.release(id, &old);
        let action = self.for_replica(id, action);
        out.push(Write::State(StateWrite::Modify { table: id, handle: index, action }));
        Ok(())
    }

    /// Take an entry out.
    ///
    /// # Errors
    /// [`ErrorKind`]: `ImmutableTableEntries`, `InvalidHandle`, `ExpiredHandle`.
    pub fn delete_entry(&mut self, id: TableId, handle: u64, out: &mut Vec<Write>) -> Result<()> {
        self.check_mutable(id)?;
        let (_, table) = self.table_mut(id)?;
        let index = table.index(handle)?;
        let old = table.remove(index);
        self.release(id, &old);
        out.push(Write::State(StateWrite::Remove { table: id, handle: index }));
        Ok(())
    }

    /// Take all entries out, and bring the default entry back if asked.
    ///
    /// # Errors
    /// [`ErrorKind::ImmutableTableEntries`].
    pub fn clear_table(&mut self, id: TableId, reset_default: bool, out: &mut Vec<Write>) -> Result<()> {
        self.check_mutable(id)?;
        for old in self.tables[id.at()].clear() {
            self.release(id, &old);
        }
        out.push(Write::State(StateWrite::Clear { table: id }));
        if reset_default { self.reset_default(id, out) } else { Ok(()) }
    }

    /// Set what a miss runs.
    ///
    /// # Errors
    /// [`ErrorKind`]: `DefaultEntryIsConst`, `DefaultActionIsConst`; for the action as [`Store::add_entry`].
    pub fn set_default(&mut self, id: TableId, action: &TableAction, out: &mut Vec<Write>) -> Result<()> {
        let (table, _) = self.table(id)?;
        if table.default_entry_const {
            return Err(ControlError::new(
                ErrorKind::DefaultEntryIsConst,
                format!("the default entry of table '{}' is const", table.name),
            ));
        }
        if let (true, Some(own), TableAction::Call(call)) =
            (table.default_action_const, &table.default, action)
            && own.action != call.action
        {
            return Err(ControlError::new(
                ErrorKind::DefaultActionIsConst,
                format!("the default action of table '{}' is const; its arguments may be set", table.name),
            ));
        }
        self.check_action(id, action)?;
        self.put_default(id, Some(action.clone()), out);
        Ok(())
    }

    /// Set what a miss runs to what the program says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn reset_default(&mut self, id: TableId, out: &mut Vec<Write>) -> Result<()> {
        let (table, _) = self.table(id)?;
        let action = table.default.clone().map(TableAction::Call);
        self.put_default(id, action, out);
        Ok(())
    }

    fn put_default(&mut self, id: TableId, action: Option<TableAction>, out: &mut Vec<Write>) {
        let packed = |store: &Store, action: &Option<TableAction>| {
            action.as_ref().map(|action| Packed::of(&store.program, action))
        };
        let old = packed(self, &self.tables[id.at()].default);
        if let Some(new) = packed(self, &action) {
            self.retain(id, &new);
        }
        if let Some(old) = old {
            self.release(id, &old);
        }
        self.tables[id.at()].default.clone_from(&action);
        let action = action.map(|action| self.for_replica(id, &action));
        out.push(Write::State(StateWrite::SetDefault { table: id, action }));
    }

    /// What a miss runs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn default_entry(&self, id: TableId) -> Result<Option<TableAction>> {
        Ok(self.table(id)?.1.default.clone())
    }

    /// # Errors
    /// [`ErrorKind::AgeingDisabled`].
    pub fn check_ageing(&self, id: TableId) -> Result<()> {
        let (table, _) = self.table(id)?;
        if table.support_timeout {
            return Ok(());
        }
        Err(ControlError::new(
            ErrorKind::AgeingDisabled,
            format!("entries of table '{}' do not age: the program does not ask for it", table.name),
        ))
    }

    /// Set an entry's idle time-out; it begins now.
    ///
    /// # Errors
    /// [`ErrorKind`]: `AgeingDisabled`, `InvalidHandle`, `ExpiredHandle`.
    pub fn set_entry_ttl(&mut self, id: TableId, handle: u64, ttl_ms: u32, now_us: u64) -> Result<()> {
        self.check_ageing(id)?;
        let (_, table) = self.table_mut(id)?;
        let index = table.index(handle)?;
        table.set_ttl(index, ttl_ms, now_us);
        Ok(())
    }

    /// Attach a controller's data to an entry.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidHandle`, `ExpiredHandle`.
    pub fn set_entry_cookie(&mut self, id: TableId, handle: u64, cookie: Vec<u8>) -> Result<()> {
        let (_, table) = self.table_mut(id)?;
        let index = table.index(handle)?;
        table.set_cookie(index, cookie);
        Ok(())
    }

    /// How many entries a table has.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn num_entries(&self, id: TableId) -> Result<usize> {
        Ok(self.table(id)?.1.len())
    }

    /// How many records a table has on replicas, the default entry's and those of entries that were taken out included.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn places(&self, id: TableId) -> Result<u64> {
        Ok(self.table(id)?.1.places() + 1)
    }

    /// The handles of all entries, each with the index by which replicas know it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn handles(&self, id: TableId) -> Result<Vec<(u64, u32)>> {
        let (_, store) = self.table(id)?;
        Ok(store.indices().map(|index| (store.handle(index), index)).collect())
    }

    /// All entries by handle's index.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub fn entries(&self, id: TableId) -> Result<Vec<Entry>> {
        let (table, store) = self.table(id)?;
        Ok(store.indices().map(|index| store.entry(&self.program, table, index)).collect())
    }

    /// The entries of some places as they are kept, from this index on; and where to go on, if there are more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTableName`].
    pub(crate) fn copy_entries(
        &self,
        id: TableId,
        from: u32,
        places: u32,
    ) -> Result<(PackedEntries, Option<u32>)> {
        Ok(self.table(id)?.1.copy(from, places))
    }

    /// Idle time-outs begin now.
    pub(crate) fn restart_ages(&mut self, now_us: u64) {
        self.tables.iter_mut().for_each(|table| table.restart_ages(now_us));
    }

    /// One entry.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidHandle`, `ExpiredHandle`.
    pub fn entry(&self, id: TableId, handle: u64) -> Result<Entry> {
        let (table, store) = self.table(id)?;
        Ok(store.entry(&self.program, table, store.index(handle)?))
    }

    /// The handle of the entry with this key, and this priority where the table has them; without one the entry that
    /// wins among those with the key.
    ///
    /// # Errors
    /// [`ErrorKind::BadMatchKey`] for a bad key and when there is no such entry, as in bmv2.
    pub fn handle_by_key(&self, id: TableId, key: &[MatchParam], priority: Option<u32>) -> Result<u64> {
        let (table, store) = self.table(id)?;
        let mut packed = Vec::new();
        encode::encode_key(table, key, &mut packed)?;
        let found = match priority {
            _ if !has_priority(table) => store.find(&packed, 0),
            Some(priority) => store.find(&packed, priority),
            None => store.find_any_priority(&packed),
        };
        found.map(|index| store.handle(index)).ok_or_else(|| {
            ControlError::new(
                ErrorKind::BadMatchKey,
                format!("table '{}' has no entry with that key", table.name),
            )
        })
    }

    /// The index behind a handle, by which replicas know the entry.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidHandle`, `ExpiredHandle`.
    pub fn index(&self, id: TableId, handle: u64) -> Result<u32> {
        self.table(id)?.1.index(handle)
    }

    /// Since when an entry has been there (or its time-out, or its last notification).
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidHandle`, `ExpiredHandle`.
    pub fn since_us(&self, id: TableId, handle: u64) -> Result<u64> {
        let (_, store) = self.table(id)?;
        Ok(store.since_us(store.index(handle)?))
    }

    /// The indices of the entries that have a time-out, for each table that has any.
    pub fn ageing(&self) -> Vec<(TableId, Vec<u32>)> {
        let tables = self.tables.iter().enumerate().filter(|(_, table)| !table.ageing.is_empty());
        tables.map(|(at, table)| (TableId::from(at), table.ageing.keys().copied().collect())).collect()
    }

    /// The handles of the entries that are idle, given the last hits of some; they count as used now.
    pub fn take_idle(&mut self, id: TableId, hits_us: &[(u32, u64)], now_us: u64) -> Vec<u64> {
        let Some(table) = self.tables.get_mut(id.at()) else { return Vec::new() };
        let idle = hits_us.iter().filter(|(index, hit_us)| table.check_idle(*index, *hit_us, now_us));
        let idle: Vec<u32> = idle.map(|(index, _)| *index).collect();
        idle.into_iter().filter_map(|index| table.live_handle(index)).collect()
    }

    fn profile(&mut self, id: ProfileId) -> Result<&mut ProfileStore> {
        self.profiles.get_mut(id.at()).ok_or_else(|| no_profile(id))
    }

    fn check_profile_call(&self, id: ProfileId, call: &ActionCall) -> Result<()> {
        let profile = self.profiles.get(id.at()).ok_or_else(|| no_profile(id))?;
        encode::check_call(&self.program, &profile.actions, &profile.owner(), call)
    }

    /// Add a member, of this number or the lowest free one; gives the number.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidActionName`, `BadActionData`, `DuplicateEntry` (the number), `TableFull`.
    pub fn add_member(
        &mut self,
        id: ProfileId,
        number: Option<u32>,
        call: ActionCall,
        out: &mut Vec<Write>,
    ) -> Result<u32> {
        self.check_profile_call(id, &call)?;
        let profile = self.profile(id)?;
        let number = profile.add_member(number, call.clone())?;
        let member = profile.member(number)?.index;
        out.push(Write::State(StateWrite::InsertMember { profile: id, member, call }));
        Ok(number)
    }

    /// Change what a member does.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMember`, `InvalidActionName`, `BadActionData`.
    pub fn modify_member(
        &mut self,
        id: ProfileId,
        member: u32,
        call: ActionCall,
        out: &mut Vec<Write>,
    ) -> Result<()> {
        self.check_profile_call(id, &call)?;
        let slot = self.profile(id)?.member(member)?;
        slot.call.clone_from(&call);
        let member = slot.index;
        out.push(Write::State(StateWrite::ModifyMember { profile: id, member, call }));
        Ok(())
    }

    /// Take a member out.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMember`, `MemberStillUsed`.
    pub fn delete_member(&mut self, id: ProfileId, member: u32, out: &mut Vec<Write>) -> Result<()> {
        let member = self.profile(id)?.delete_member(member)?;
        out.push(Write::State(StateWrite::RemoveMember { profile: id, member }));
        Ok(())
    }

    /// All members by number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidActionProfileName`].
    pub fn members(&self, id: ProfileId) -> Result<Vec<Member>> {
        let profile = self.profiles.get(id.at()).ok_or_else(|| no_profile(id))?;
        let member = |(handle, slot): (&u32, &profile::MemberSlot)| Member {
            handle: *handle,
            call: slot.call.clone(),
        };
        Ok(profile.members.iter().map(member).collect())
    }

    /// One member.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidMember`].
    pub fn member(&self, id: ProfileId, member: u32) -> Result<Member> {
        let profile = self.profiles.get(id.at()).ok_or_else(|| no_profile(id))?;
        let slot = profile.members.get(&member).ok_or_else(|| {
            ControlError::new(ErrorKind::InvalidMember, format!("{} has no member {member}", profile.owner()))
        })?;
        Ok(Member { handle: member, call: slot.call.clone() })
    }

    /// Make a group, of this number or the lowest free one; gives the number.
    ///
    /// # Errors
    /// [`ErrorKind`]: `NoActionProfileSelection`, `DuplicateEntry` (the number), `InvalidMember`,
    /// `MemberAlreadyInGroup` (named twice), `TableFull` (weights beyond the size), `Other` (weight 0).
    pub fn add_group(
        &mut self,
        id: ProfileId,
        number: Option<u32>,
        members: &[(u32, u32)],
        max_size: u32,
        out: &mut Vec<Write>,
    ) -> Result<u32> {
        let profile = self.profile(id)?;
        let number = profile.add_group(number, members, max_size)?;
        self.put_group(id, number, out);
        Ok(number)
    }

    fn put_group(&self, id: ProfileId, number: u32, out: &mut Vec<Write>) {
        let profile = &self.profiles[id.at()];
        if let Some(slot) = profile.groups.get(&number) {
            let (group, members) = profile.for_replica(slot);
            out.push(Write::State(StateWrite::SetGroup { profile: id, group, members }));
        }
    }

    /// Replace a group's members.
    ///
    /// # Errors
    /// As [`Store::add_group`]; `InvalidGroup`.
    pub fn set_group(
        &mut self,
        id: ProfileId,
        group: u32,
        members: &[(u32, u32)],
        out: &mut Vec<Write>,
    ) -> Result<()> {
        self.profile(id)?.set_group(group, members)?;
        self.put_group(id, group, out);
        Ok(())
    }

    /// Add a member to a group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMember`, `InvalidGroup`, `MemberAlreadyInGroup`.
    pub fn add_to_group(
        &mut self,
        id: ProfileId,
        member: u32,
        group: u32,
        out: &mut Vec<Write>,
    ) -> Result<()> {
        self.profile(id)?.add_to_group(member, group)?;
        self.put_group(id, group, out);
        Ok(())
    }

    /// Take a member out of a group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMember`, `InvalidGroup`, `MemberNotInGroup`.
    pub fn remove_from_group(
        &mut self,
        id: ProfileId,
        member: u32,
        group: u32,
        out: &mut Vec<Write>,
    ) -> Result<()> {
        self.profile(id)?.remove_from_group(member, group)?;
        self.put_group(id, group, out);
        Ok(())
    }

    /// Take a group out, its members stay.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidGroup`, `GroupStillUsed`.
    pub fn delete_group(&mut self, id: ProfileId, group: u32, out: &mut Vec<Write>) -> Result<()> {
        let group = self.profile(id)?.delete_group(group)?;
        out.push(Write::State(StateWrite::RemoveGroup { profile: id, group }));
        Ok(())
    }

    /// All groups by number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidActionProfileName`].
    pub fn groups(&self, id: ProfileId) -> Result<Vec<Group>> {
        let profile = self.profiles.get(id.at()).ok_or_else(|| no_profile(id))?;
        let group = |(handle, slot): (&u32, &profile::GroupSlot)| Group {
            handle: *handle,
            members: slot.members.clone(),
            max_size: slot.max_size,
        };
        Ok(profile.groups.iter().map(group).collect())
    }

    /// One group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `NoActionProfileSelection`, `InvalidGroup`.
    pub fn group(&self, id: ProfileId, group: u32) -> Result<Group> {
        let profile = self.profiles.get(id.at()).ok_or_else(|| no_profile(id))?;
        profile.check_selector()?;
        let slot = profile.groups.get(&group).ok_or_else(|| {
            ControlError::new(ErrorKind::InvalidGroup, format!("{} has no group {group}", profile.owner()))
        })?;
        Ok(Group { handle: group, members: slot.members.clone(), max_size: slot.max_size })
    }
}

pub(crate) fn no_table(id: TableId) -> ControlError {
    ControlError::new(ErrorKind::InvalidTableName, format!("there is no table number {}", id.0))
}

fn no_profile(id: ProfileId) -> ControlError {
    ControlError::new(
        ErrorKind::InvalidActionProfileName,
        format!("there is no action profile number {}", id.0),
    )
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
