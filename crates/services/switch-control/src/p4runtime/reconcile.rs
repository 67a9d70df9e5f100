//! `RECONCILE_AND_COMMIT`: a new program that keeps the old one's entries.
//!
//! All entities are read, their ids exchanged by name for the new P4Info's, and written to a shadow of the new program.
//! Only when that takes them all is the program changed and the same written to it.

use super::data::P4DataKind;
use super::device::{Device, Forwarding};
use super::entity::CounterData;
use super::entity::{
    Action, ActionChoice, ActionProfileGroup, ActionProfileMember, CounterEntry, DigestEntry, Entity,
    EntityKind, FieldMatch, MeterConfig, MeterEntry, RegisterEntry, TableEntry, ValueSetEntry,
};
use super::error::{P4Error, Result, invalid};
use super::message::{Atomicity, Update, UpdateType};
use super::target::{Notes, Pipeline, Target};
use crate::p4info::Index;
use crate::p4info::index::{Catalogue, FieldIndex};
use barewire_switch::prepared::Prepared;
use std::sync::Arc;

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
    crate::p4info::index::ArrayIndex<barewire_p4::ir::CounterId>,
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
            EntityKind::ActionProfileMember(member) => {
                member.action.as_mut().map_or(Ok(()), |action| self.action(action))?;
                member.action_profile_id = same(&old.profiles, &new.profiles, member.action_profile_id)?;
            }
            EntityKind::ActionProfileGroup(group) => {
                group.action_profile_id = same(&old.profiles, &new.profiles, group.action_profile_id)?;
            }
            EntityKind::MeterEntry(meter) => meter.meter_id = same(&old.meters, &new.meters, meter.meter_id)?,
            EntityKind::CounterEntry(counter) => {
                counter.counter_id = same(&old.counters, &new.counters, counter.counter_id)?;
            }
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

/// Patterns that match all that a program holds, in an order in which it can be written again.
fn everything() -> Vec<EntityKind> {
    vec![
        EntityKind::ActionProfileMember(ActionProfileMember::default()),
        EntityKind::ActionProfileGroup(ActionProfileGroup::default()),
        EntityKind::TableEntry(TableEntry {
            counter_data: Some(CounterData::default()),
            meter_config: Some(MeterConfig::default()),
            ..TableEntry::default()
        }),
        EntityKind::TableEntry(TableEntry { is_default_action: true, ..TableEntry::default() }),
        EntityKind::MeterEntry(MeterEntry::default()),
        EntityKind::CounterEntry(CounterEntry::default()),
        EntityKind::RegisterEntry(RegisterEntry::default()),
        EntityKind::ValueSetEntry(ValueSetEntry::default()),
        EntityKind::DigestEntry(DigestEntry::default()),
    ]
}

/// How an entity is written again; none when there is nothing to write.
fn kind_of(index: &Index, entity: &EntityKind) -> Option<UpdateType> {
    match entity {
        EntityKind::TableEntry(entry) => {
            let table = index.tables.get(entry.table_id)?;
            if entry.is_default_action {
                let writable = !table.const_default && table.profile.is_none() && entry.action.is_some();
                return writable.then_some(UpdateType::Modify);
            }
            (!table.is_const && !entry.is_const).then_some(UpdateType::Insert)
        }
        EntityKind::ActionProfileMember(_)
        | EntityKind::ActionProfileGroup(_)
        | EntityKind::DigestEntry(_) => Some(UpdateType::Insert),
        EntityKind::MeterEntry(meter) => meter.config.is_some().then_some(UpdateType::Modify),
        EntityKind::CounterEntry(counter) => {
            (counter.data.is_some_and(|data| data != CounterData::default())).then_some(UpdateType::Modify)
        }
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

impl Target {
    /// All that was written, as updates for another program.
    fn updates_for(&self, new: &Index) -> Result<Vec<Update>> {
        let exchange = Exchange { old: self.index(), new };
        let mut updates = Vec::new();
        for wanted in everything() {
            let mut found = Vec::new();
            self.read(&Entity { entity: Some(wanted) }, &mut |entity| found.extend(entity.entity))?;
            for mut entity in found {
                let Some(kind) = kind_of(exchange.old, &entity) else { continue };
                exchange.entity(&mut entity)?;
                updates.push(Update { r#type: kind as i32, entity: Some(Entity { entity: Some(entity) }) });
            }
        }
        Ok(updates)
    }

    /// Take away the program's own entries that may be taken away: the old program's come in their place.
    fn clear_initial_entries(&self) -> Result<()> {
        for table in self.index().tables.iter().filter(|table| table.initial > 0 && !table.is_const) {
            for entry in self.switch.entries(table.table)?.into_iter().filter(|entry| !entry.is_const) {
                self.switch.delete_entry(table.table, entry.handle)?;
            }
        }
        Ok(())
    }

    fn write_all(&mut self, updates: &[Update]) -> Result<()> {
        self.clear_initial_entries()?;
        self.write(updates, Atomicity::ContinueOnError).into_iter().collect()
    }
}

impl Device {
    /// Change the program and keep what was written to the old one.
    pub(super) fn reconcile(
        &self,
        forwarding: &mut Forwarding,
        prepared: &Arc<Prepared>,
        pipeline: &Arc<Pipeline>,
    ) -> Result<()> {
        self.refresh(forwarding);
        let Some(live) = &mut forwarding.live else {
            return self.install(forwarding, prepared, pipeline, Notes::default());
        };
        let lost = |error: P4Error| invalid(format!("what is written cannot be kept: {error}"));
        let updates = live.updates_for(&pipeline.index).map_err(lost)?;
        self.shadow(Arc::clone(prepared), Arc::clone(pipeline))?.target.write_all(&updates).map_err(lost)?;
        // The replication engine belongs to no program.
        let notes = Notes {
            multicast: std::mem::take(&mut live.notes.multicast),
            clones: std::mem::take(&mut live.notes.clones),
            down: std::mem::take(&mut live.notes.down),
            ..Notes::default()
        };
        forwarding.saved = None;
        self.install(forwarding, prepared, pipeline, notes)?;
        let written = forwarding.live.as_mut().map_or(Ok(()), |live| live.write_all(&updates));
        self.publish(forwarding);
        written
    }
}
