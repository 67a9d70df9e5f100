//! `RECONCILE_AND_COMMIT`: a new program that keeps what was written to the old one.
//!
//! What controllers wrote is told apart from what the program says itself, its ids are exchanged by name for the new
//! P4Info's, and it is written to a shadow of the new program. Only when that takes it all is the program changed, in one
//! step and with full tables.

use super::data::P4DataKind;
use super::device::{Device, Forwarding};
use super::entity::{
    Action, ActionChoice, DigestEntry, DirectMeterEntry, Entity, EntityKind, FieldMatch, MeterConfig,
    MeterEntry, RegisterEntry, TableEntry, ValueSetEntry,
};
use super::error::{P4Error, Result, invalid};
use super::keys::wire_call;
use super::message::{Atomicity, Update, UpdateType};
use super::profiles::GroupNote;
use super::target::{Pipeline, Target};
use crate::p4info::Index;
use crate::p4info::index::{Catalogue, FieldIndex, ProfileIndex, TableIndex};
use barewire_p4::ir::TableId;
use barewire_switch::control::{CarriedCounters, Group, Member, Takeover};
use barewire_switch::prepared::Prepared;
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tonic::Code;

/// How often a program is read that other control planes go on writing to.
const ATTEMPTS: usize = 8;

/// Ids of one P4Info to those of another.
struct Exchange<'a> {
    old: &'a Index,
    new: &'a Index,
}

/// Names, to exchange ids by.
trait Named {
    fn id(&self) -> u32;
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($ty:ty),* $(,)?) => { $(
        impl Named for $ty {
            fn id(&self) -> u32 { self.id }
            fn name(&self) -> &str { &self.name }
        }
    )* };
}

named!(
    crate::p4info::index::TableIndex,
    crate::p4info::index::ActionIndex,
    crate::p4info::index::ParamIndex,
    crate::p4info::index::ProfileIndex,
    crate::p4info::index::MeterIndex,
    crate::p4info::index::RegisterIndex,
    crate::p4info::index::DigestIndex,
    crate::p4info::index::ValueSetIndex,
    FieldIndex,
);

fn same<T: Named>(old: &Catalogue<T>, new: &Catalogue<T>, id: u32) -> Result<u32> {
    let name = old.get(id).map_or("?", Named::name);
    let found = new.iter().find(|object| object.name() == name);
    found.map(Named::id).ok_or_else(|| invalid(format!("the new program has no {} '{name}'", old.what())))
}

fn same_of<T: Named>(old: &[T], new: &[T], id: u32, what: &str) -> Result<u32> {
    let name = old.iter().find(|object| object.id() == id).map_or("?", Named::name);
    let found = new.iter().find(|object| object.name() == name);
    found.map(Named::id).ok_or_else(|| invalid(format!("the new program has no {what} '{name}'")))
}

impl Exchange<'_> {
    fn action(&self, action: &mut Action) -> Result<()> {
        let id = same(&self.old.actions, &self.new.actions, action.action_id)?;
        if let (Some(old), Some(new)) = (self.old.actions.get(action.action_id), self.new.actions.get(id)) {
            for param in &mut action.params {
                param.param_id = same_of(&old.params, &new.params, param.param_id, "parameter")
                    .map_err(|error| error.at(&format!("action '{}'", old.name)))?;
            }
        }
        action.action_id = id;
        Ok(())
    }

    fn matches(&self, old: &[FieldIndex], new: &[FieldIndex], matches: &mut [FieldMatch]) -> Result<()> {
        for field in matches {
            field.field_id = same_of(old, new, field.field_id, "key field")?;
        }
        Ok(())
    }

    fn entry(&self, entry: &mut TableEntry) -> Result<()> {
        let id = same(&self.old.tables, &self.new.tables, entry.table_id)?;
        if let (Some(old), Some(new)) = (self.old.tables.get(entry.table_id), self.new.tables.get(id)) {
            let place = |error: P4Error| error.at(&format!("table '{}'", old.name));
            self.matches(&old.fields, &new.fields, &mut entry.r#match).map_err(place)?;
            match entry.action.as_mut().and_then(|action| action.r#type.as_mut()) {
                Some(ActionChoice::Action(action)) => self.action(action).map_err(place)?,
                Some(ActionChoice::ActionProfileActionSet(set)) => {
                    for action in
                        set.action_profile_actions.iter_mut().filter_map(|choice| choice.action.as_mut())
                    {
                        self.action(action).map_err(place)?;
                    }
                }
                _ => {}
            }
        }
        entry.table_id = id;
        Ok(())
    }

    fn entity(&self, entity: &mut EntityKind) -> Result<()> {
        let (old, new) = (self.old, self.new);
        match entity {
            EntityKind::TableEntry(entry) => self.entry(entry)?,
            EntityKind::MeterEntry(meter) => meter.meter_id = same(&old.meters, &new.meters, meter.meter_id)?,
            EntityKind::RegisterEntry(register) => {
                register.register_id = same(&old.registers, &new.registers, register.register_id)?;
            }
            EntityKind::ValueSetEntry(set) => {
                let id = same(&old.value_sets, &new.value_sets, set.value_set_id)?;
                if let (Some(old), Some(new)) = (old.value_sets.get(set.value_set_id), new.value_sets.get(id))
                {
                    for member in &mut set.members {
                        // The parts of a value often have no names: by position then.
                        for field in &mut member.r#match {
                            let at = old.fields.iter().position(|part| part.id == field.field_id);
                            field.field_id =
                                at.and_then(|at| new.fields.get(at)).map_or(field.field_id, |part| part.id);
                        }
                    }
                }
                set.value_set_id = id;
            }
            EntityKind::DigestEntry(digest) => {
                digest.digest_id = same(&old.digests, &new.digests, digest.digest_id)?
            }
            _ => {}
        }
        Ok(())
    }
}

/// Patterns that match what a program holds beside its tables' entries and what these point at. Counters are carried by the
/// switch, to the last packet.
fn after_entries() -> [EntityKind; 4] {
    [
        EntityKind::MeterEntry(MeterEntry::default()),
        EntityKind::RegisterEntry(RegisterEntry::default()),
        EntityKind::ValueSetEntry(ValueSetEntry::default()),
        EntityKind::DigestEntry(DigestEntry::default()),
    ]
}

/// How an entity is written again; none when there is nothing to write.
fn kind_of(entity: &EntityKind) -> Option<UpdateType> {
    match entity {
        EntityKind::DigestEntry(_) => Some(UpdateType::Insert),
        EntityKind::MeterEntry(meter) => meter.config.is_some().then_some(UpdateType::Modify),
        EntityKind::RegisterEntry(register) => (!is_zero(register)).then_some(UpdateType::Modify),
        EntityKind::ValueSetEntry(set) => (!set.members.is_empty()).then_some(UpdateType::Modify),
        _ => None,
    }
}

fn is_zero(register: &RegisterEntry) -> bool {
    match register.data.as_ref().and_then(|data| data.data.as_ref()) {
        Some(P4DataKind::Bitstring(value) | P4DataKind::EnumValue(value)) => {
            value.iter().all(|&byte| byte == 0)
        }
        Some(P4DataKind::Bool(value)) => !value,
        _ => true,
    }
}

/// What tells entries of a table apart, as bytes.
fn key_bytes(entry: &TableEntry) -> Vec<u8> {
    let key =
        TableEntry { r#match: entry.r#match.clone(), priority: entry.priority, ..TableEntry::default() };
    key.encode_to_vec()
}

/// What of one table goes to the new program.
#[derive(Default)]
struct TableMoves {
    /// Entries that controllers wrote, for the new program.
    written: Vec<TableEntry>,
    /// A controller changed or deleted entries of the program: the new program's are not wanted either.
    touched: bool,
}

/// What of one action profile goes to the new program.
struct ProfileMoves {
    /// By the new program's id.
    profile: u32,
    members: Vec<(u32, Action)>,
    groups: Vec<(Group, Option<GroupNote>)>,
}

/// All that goes to the new program.
#[derive(Default)]
struct Moves {
    profiles: Vec<ProfileMoves>,
    /// By the new program's ids.
    tables: Vec<(u32, TableMoves)>,
    /// Meters of entries that are const, which the new program may not have.
    metered: Vec<DirectMeterEntry>,
    after: Vec<Update>,
    carried: CarriedCounters,
    /// Entries with direct counters: where they are, and what they are in the new program.
    counted: Vec<((TableId, u64), TableEntry)>,
}

impl Target {
    /// All that controllers wrote, for another program. `own` is the same program as nobody wrote to it: what is as
    /// there is the program's word, and the new program has its own.
    fn moves_to_program(&self, own: &Target, new: &Index) -> Result<Moves> {
        let exchange = Exchange { old: self.index(), new };
        let mut moves = Moves::default();
        for profile in self.index().profiles.iter() {
            moves.profiles.extend(self.profile_moves(profile, &exchange)?);
        }
        for table in self.index().tables.iter() {
            self.entries_of(table, own, &exchange, &mut moves)?;
        }
        for table in self.index().tables.iter() {
            let default = TableEntry { table_id: table.id, is_default_action: true, ..TableEntry::default() };
            let (mut now, first) = (self.table_entries(&default)?, own.table_entries(&default)?);
            let wrote = self.notes.defaults.contains_key(&table.id) || now != first;
            let Some(mut entry) = now.pop().filter(|entry| wrote && entry.action.is_some()) else { continue };
            exchange.entry(&mut entry)?;
            moves.after.push(update(UpdateType::Modify, EntityKind::TableEntry(entry)));
        }
        self.others(&exchange, &after_entries(), &mut moves.after)?;
        for array in self.index().counters.iter() {
            // A counter that the new program has not is nothing that packets would miss.
            if let Some(same) = new.counters.iter().find(|same| same.name == array.name) {
                moves.carried.arrays.push((array.array, same.array));
            }
        }
        Ok(moves)
    }

    fn profile_moves(&self, profile: &ProfileIndex, exchange: &Exchange<'_>) -> Result<Option<ProfileMoves>> {
        let (members, groups) = self.own_members_and_groups(profile)?;
        if members.is_empty() && groups.is_empty() {
            return Ok(None);
        }
        let place = |error: P4Error| error.at(&format!("action profile '{}'", profile.name));
        let member = |member: Member| {
            let mut action = wire_call(self.index(), &profile.actions, &member.call).ok_or_else(|| {
                invalid(format!("the P4Info has no action for its member {}", member.handle))
            })?;
            exchange.action(&mut action)?;
            Ok((member.handle, action))
        };
        let members = members.into_iter().map(member).collect::<Result<_>>().map_err(place)?;
        let profile = same(&exchange.old.profiles, &exchange.new.profiles, profile.id)?;
        Ok(Some(ProfileMoves { profile, members, groups }))
    }

    fn others(&self, exchange: &Exchange<'_>, wanted: &[EntityKind], out: &mut Vec<Update>) -> Result<()> {
        for wanted in wanted {
            let mut found = Vec::new();
            self.read(&Entity { entity: Some(wanted.clone()) }, &mut |entity| found.extend(entity.entity))?;
            for mut entity in found {
                let Some(kind) = kind_of(&entity) else { continue };
                exchange.entity(&mut entity)?;
                out.push(update(kind, entity));
            }
        }
        Ok(())
    }

    fn table_entries(&self, wanted: &TableEntry) -> Result<Vec<TableEntry>> {
        let mut found = Vec::new();
        self.read(&Entity { entity: Some(EntityKind::TableEntry(wanted.clone())) }, &mut |entity| {
            if let Some(EntityKind::TableEntry(entry)) = entity.entity {
                found.push(entry);
            }
        })?;
        Ok(found)
    }

    fn entries_of(
        &self,
        table: &TableIndex,
        own: &Target,
        exchange: &Exchange<'_>,
        moves: &mut Moves,
    ) -> Result<()> {
        let meter_config = Some(MeterConfig::default());
        let all = TableEntry { table_id: table.id, meter_config, ..TableEntry::default() };
        let initial = if has_own(self.index(), table) { own.table_entries(&all)? } else { Vec::new() };
        let initial: HashMap<Vec<u8>, TableEntry> =
            initial.into_iter().map(|entry| (key_bytes(&entry), entry)).collect();
        let now = self.table_entries(&all)?;
        let as_ever = |entry: &TableEntry| initial.get(&key_bytes(entry)) == Some(entry);
        let untouched = now.iter().filter(|entry| as_ever(entry)).count();
        let mut of_table =
            TableMoves { touched: !table.is_const && untouched < initial.len(), ..TableMoves::default() };
        for entry in now {
            let own = entry.is_const || (as_ever(&entry) && !of_table.touched);
            let mut moved = entry.clone();
            match exchange.entry(&mut moved) {
                Err(_) if own => continue,
                result => result?,
            }
            if table.counter.is_some() {
                let (key, priority) = super::keys::key_of(table, &entry)?;
                let handle = self.find_entry(table, &key, priority)?.handle;
                let key = TableEntry { is_const: false, ..moved.clone() };
                moves.counted.push(((table.table, handle), key));
            }
            if entry.is_const && table.meter.is_some() && !as_ever(&entry) {
                let config = moved.meter_config.take();
                let table_entry = Some(TableEntry { is_const: false, ..moved });
                moves.metered.push(DirectMeterEntry { table_entry, config, counter_data: None });
            } else if !own {
                of_table.written.push(moved);
            }
        }
        if of_table.touched || !of_table.written.is_empty() {
            let id = same(&exchange.old.tables, &exchange.new.tables, table.id)?;
            moves.tables.push((id, of_table));
        }
        Ok(())
    }

    /// Write what moves to this program, which does not run yet. Gives the counters that go on counting.
    fn write_moves(&mut self, moves: Moves) -> Result<CarriedCounters> {
        self.moving = true;
        let carried = self.write_moved(moves);
        self.moving = false;
        carried
    }

    fn write_moved(&mut self, moves: Moves) -> Result<CarriedCounters> {
        let Moves { profiles, tables, metered, after, mut carried, counted } = moves;
        for ProfileMoves { profile, members, groups } in profiles {
            self.take_members_and_groups(profile, members, groups)?;
        }
        for (id, of_table) in tables {
            self.make_room(id, &of_table)?;
            let updates: Vec<Update> = of_table
                .written
                .into_iter()
                .map(|entry| update(UpdateType::Insert, EntityKind::TableEntry(entry)))
                .collect();
            self.write_all(&updates)?;
        }
        // Entries of the old program that the new one has not are left out.
        for meter in metered {
            if meter.table_entry.as_ref().is_some_and(|entry| self.entry_at(entry).is_some()) {
                self.write_direct_meter(UpdateType::Modify, &meter)?;
            }
        }
        self.write_all(&after)?;
        for (from, entry) in counted {
            carried.entries.extend(self.entry_at(&entry).map(|there| (from, there)));
        }
        Ok(carried)
    }

    /// Where the entry with the key of a message is.
    fn entry_at(&self, entry: &TableEntry) -> Option<(TableId, u64)> {
        let table = self.index().tables.get(entry.table_id)?;
        let (key, priority) = super::keys::key_of(table, entry).ok()?;
        Some((table.table, self.find_entry(table, &key, priority).ok()?.handle))
    }

    /// Take away the program's own entries that give way to written ones: all where a controller had changed the old
    /// program's, else those with the same key.
    fn make_room(&self, id: u32, of_table: &TableMoves) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let index = &pipeline.index;
        let table = index.tables.get(id).filter(|table| has_own(index, table) && !table.is_const);
        let Some(table) = table else { return Ok(()) };
        let give_way: HashSet<Vec<u8>> = of_table.written.iter().map(key_bytes).collect();
        for entry in self.switch.entries(table.table)? {
            if of_table.touched || give_way.contains(&key_bytes(&self.bare_message(table, &entry))) {
                self.switch.delete_entry(table.table, entry.handle)?;
            }
        }
        Ok(())
    }

    fn write_all(&mut self, updates: &[Update]) -> Result<()> {
        self.write(updates, Atomicity::ContinueOnError).into_iter().collect()
    }
}

/// Whether entries of a table come with the program.
fn has_own(index: &Index, table: &TableIndex) -> bool {
    index.program.tables.get(table.table.at()).is_some_and(|table| !table.entries.is_empty())
}

fn update(kind: UpdateType, entity: EntityKind) -> Update {
    Update { r#type: kind as i32, entity: Some(Entity { entity: Some(entity) }) }
}

impl Device {
    /// Change the program and keep what was written to the old one.
    ///
    /// Other control planes may write meanwhile. What they write is no part of what was read, so the switch refuses to put the
    /// new program in place then, and all is read anew.
    pub(super) fn reconcile(
        &self,
        forwarding: &mut Forwarding,
        prepared: Arc<Prepared>,
        pipeline: Arc<Pipeline>,
    ) -> Result<()> {
        let mut attempt = 1;
        loop {
            // It may write, so it comes before the version; whatever others write after that is noticed.
            self.refresh(forwarding);
            let version = self.switch.version();
            let result = self.reconcile_at(version, forwarding, &prepared, &pipeline);
            if result.is_ok() || attempt == ATTEMPTS || self.switch.version() == version {
                return result;
            }
            attempt += 1;
        }
    }

    /// [`Device::reconcile`] while the switch has this version.
    fn reconcile_at(
        &self,
        version: u64,
        forwarding: &mut Forwarding,
        prepared: &Arc<Prepared>,
        pipeline: &Arc<Pipeline>,
    ) -> Result<()> {
        let mut next = self.shadow(Arc::clone(prepared), Arc::clone(pipeline))?;
        let Some(live) = &forwarding.live else {
            return self.install(forwarding, next, Takeover::Fresh).map_err(|(_, error)| error);
        };
        let running = self.switch.prepared().filter(|p| Arc::ptr_eq(&p.program, &live.index().program));
        let running = running.ok_or_else(|| {
            P4Error::new(Code::Unavailable, "another control plane is changing the program: try again")
        })?;
        let lost = |error: P4Error| invalid(format!("what is written cannot be kept: {error}"));
        let own = self.shadow(running, Arc::clone(&live.pipeline))?.target;
        let moves = live.moves_to_program(&own, &pipeline.index).map_err(lost)?;
        // Groups are moved without the members whose ports are down.
        next.target.notes.down.clone_from(&live.notes.down);
        let carried = next.target.write_moves(moves).map_err(lost)?;
        // The replication engine belongs to no program.
        next.target.notes.multicast.clone_from(&live.notes.multicast);
        next.target.notes.clones.clone_from(&live.notes.clones);
        let takeover = Takeover::Keep { carried, version };
        self.install(forwarding, next, takeover).map_err(|(_, error)| error)
    }
}
