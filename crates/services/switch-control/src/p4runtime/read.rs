//! Reading entities: patterns in, entities out.

use super::entity::{ActionChoice, ActionProfileActionSet};
use super::entity::{
    DirectCounterEntry, DirectMeterEntry, Entity, EntityKind, IdleTimeout, TableAction as WireAction,
    TableEntry,
};
use super::error::{Result, invalid, unimplemented};
use super::keys::{matches_of, store_priority, wire_call, wire_matches, wire_priority};
use super::target::{EntryNote, Target};
use crate::p4info::index::TableIndex;
use barewire_switch::control::{CounterValue, Entry, TableAction};
use std::collections::HashMap;

/// What of a table is wanted, beyond its entries' own data.
#[derive(Default)]
struct Extras {
    counters: HashMap<u64, CounterValue>,
    ages_ms: HashMap<u64, u64>,
}

impl Target {
    /// Everything that one pattern matches.
    ///
    /// # Errors
    /// INVALID_ARGUMENT and NOT_FOUND for patterns that cannot match, UNIMPLEMENTED, and what the switch answers.
    pub fn read(&self, wanted: &Entity, out: &mut dyn FnMut(Entity)) -> Result<()> {
        let mut push = |entity| out(Entity { entity: Some(entity) });
        match wanted
            .entity
            .as_ref()
            .ok_or_else(|| invalid("the entity is not set: there is no reading of everything"))?
        {
            EntityKind::TableEntry(wanted) => {
                self.read_entries(wanted, &mut |entry| push(EntityKind::TableEntry(entry)))
            }
            EntityKind::ActionProfileMember(wanted) => {
                self.read_members(wanted)?
                    .into_iter()
                    .for_each(|member| push(EntityKind::ActionProfileMember(member)));
                Ok(())
            }
            EntityKind::ActionProfileGroup(wanted) => {
                self.read_groups(wanted)?
                    .into_iter()
                    .for_each(|group| push(EntityKind::ActionProfileGroup(group)));
                Ok(())
            }
            EntityKind::MeterEntry(wanted) => {
                self.read_meters(wanted, &mut |entry| push(EntityKind::MeterEntry(entry)))
            }
            EntityKind::DirectMeterEntry(wanted) => {
                self.read_direct_meters(wanted, &mut |entry| push(EntityKind::DirectMeterEntry(entry)))
            }
            EntityKind::CounterEntry(wanted) => {
                self.read_counters(wanted, &mut |entry| push(EntityKind::CounterEntry(entry)))
            }
            EntityKind::DirectCounterEntry(wanted) => {
                self.read_direct_counters(wanted, &mut |entry| push(EntityKind::DirectCounterEntry(entry)))
            }
            EntityKind::PacketReplicationEngineEntry(wanted) => {
                let wanted = wanted
                    .r#type
                    .as_ref()
                    .ok_or_else(|| invalid("neither multicast group nor clone session"))?;
                self.read_replication(wanted, &mut |entry| {
                    push(EntityKind::PacketReplicationEngineEntry(entry))
                });
                Ok(())
            }
            EntityKind::ValueSetEntry(wanted) => {
                self.read_value_sets(wanted)?
                    .into_iter()
                    .for_each(|set| push(EntityKind::ValueSetEntry(set)));
                Ok(())
            }
            EntityKind::RegisterEntry(wanted) => {
                self.read_registers(wanted, &mut |entry| push(EntityKind::RegisterEntry(entry)))
            }
            EntityKind::DigestEntry(wanted) => {
                self.read_digests(wanted)?
                    .into_iter()
                    .for_each(|digest| push(EntityKind::DigestEntry(digest)));
                Ok(())
            }
            EntityKind::ExternEntry(wanted) if wanted.extern_type_id == 0 => Ok(()),
            EntityKind::ExternEntry(_) => {
                Err(unimplemented("the switch has no externs beyond P4Runtime's own"))
            }
        }
    }

    /// The tables a pattern names: one, or (0) all.
    fn tables_of(&self, id: u32) -> Result<Vec<&TableIndex>> {
        match id {
            0 => Ok(self.index().tables.iter().collect()),
            id => Ok(vec![Self::table(&self.pipeline, id)?]),
        }
    }

    /// The entries of a table that a pattern with a key (or without) matches.
    fn matching(&self, table: &TableIndex, wanted: &TableEntry) -> Result<Vec<Entry>> {
        if table.fields.is_empty() {
            return Ok(Vec::new());
        }
        let entries = if wanted.r#match.is_empty() {
            self.switch.entries(table.table)?
        } else {
            let key = matches_of(&table.fields, &wanted.r#match)
                .map_err(|error| error.at(&format!("table '{}'", table.name)))?;
            if !table.needs_priority || wanted.priority > 0 {
                let priority = if table.needs_priority { store_priority(table, wanted.priority) } else { 0 };
                self.find_entry(table, &key, priority).into_iter().collect()
            } else {
                self.switch.entries(table.table)?.into_iter().filter(|entry| entry.key == key).collect()
            }
        };
        Ok(entries)
    }

    fn read_entries(&self, wanted: &TableEntry, out: &mut dyn FnMut(TableEntry)) -> Result<()> {
        let all = wanted.table_id == 0;
        if wanted.meter_counter_data.is_some() && !all {
            return Err(unimplemented("meters keep no counters for each colour"));
        }
        let no_key = TableEntry::default();
        for table in self.tables_of(wanted.table_id)? {
            if wanted.is_default_action {
                if !wanted.r#match.is_empty() || wanted.priority != 0 || wanted.time_since_last_hit.is_some()
                {
                    return Err(invalid(
                        "a default entry has neither match nor priority nor time_since_last_hit",
                    ));
                }
                let entry = self.default_message(table)?;
                if all || passes(&entry, wanted) {
                    out(entry);
                }
                continue;
            }
            if wanted.time_since_last_hit.is_some() && !table.idle && !all {
                return Err(invalid(format!("table '{}': its entries do not age", table.name)));
            }
            let entries = self.matching(table, if all { &no_key } else { wanted })?;
            let extras = self.extras(table, wanted, &entries)?;
            for entry in &entries {
                let message = self.entry_message(table, entry, wanted, &extras)?;
                if all || passes(&message, wanted) {
                    out(message);
                }
            }
        }
        Ok(())
    }

    /// Counters and ages, by one question to the engines when there are many entries.
    fn extras(&self, table: &TableIndex, wanted: &TableEntry, entries: &[Entry]) -> Result<Extras> {
        let mut extras = Extras::default();
        if entries.is_empty() {
            return Ok(extras);
        }
        let single = (entries.len() == 1).then(|| entries[0].handle);
        if wanted.counter_data.is_some() && table.counter.is_some() {
            extras.counters = self.direct_counters(table, single)?;
        }
        if wanted.time_since_last_hit.is_some() && table.idle {
            extras.ages_ms = match single {
                Some(handle) => {
                    HashMap::from([(handle, self.switch.time_since_hit_ms(table.table, handle)?)])
                }
                None => self.switch.ages(table.table)?.into_iter().collect(),
            };
        }
        Ok(extras)
    }

    fn direct_counters(&self, table: &TableIndex, single: Option<u64>) -> Result<HashMap<u64, CounterValue>> {
        Ok(match single {
            Some(handle) => HashMap::from([(handle, self.switch.read_direct_counter(table.table, handle)?)]),
            None => self.switch.read_direct_counters(table.table)?.into_iter().collect(),
        })
    }

    /// The message of an action; `note` has a group in place, if the entry has one.
    fn action_message(
        &self,
        table: &TableIndex,
        action: &TableAction,
        one_shot: Option<ActionProfileActionSet>,
    ) -> Option<WireAction> {
        let choice = match (action, one_shot) {
            (_, Some(set)) => ActionChoice::ActionProfileActionSet(set),
            (TableAction::Call(call), None) => {
                ActionChoice::Action(wire_call(self.index(), &table.actions, call)?)
            }
            (TableAction::Member(id), None) => ActionChoice::ActionProfileMemberId(*id),
            (TableAction::Group(id), None) => ActionChoice::ActionProfileGroupId(*id),
        };
        Some(WireAction { r#type: Some(choice) })
    }

    /// The message of an entry without what only engines know.
    pub(super) fn bare_message(&self, table: &TableIndex, entry: &Entry) -> TableEntry {
        let note = EntryNote::of(entry);
        TableEntry {
            table_id: table.id,
            r#match: wire_matches(&table.fields, &entry.key),
            action: self.action_message(table, &entry.action, note.one_shot),
            priority: wire_priority(table, entry.priority),
            controller_metadata: note.controller_metadata,
            metadata: note.metadata,
            // Another control plane's time-out has no nanoseconds.
            idle_timeout_ns: match (entry.ttl_ms, note.idle_timeout_ns) {
                (0, _) => 0,
                (ms, 0) => i64::from(ms) * 1_000_000,
                (_, ns) => ns,
            },
            is_const: entry.is_const,
            ..TableEntry::default()
        }
    }

    fn entry_message(
        &self,
        table: &TableIndex,
        entry: &Entry,
        wanted: &TableEntry,
        extras: &Extras,
    ) -> Result<TableEntry> {
        let mut message = self.bare_message(table, entry);
        message.counter_data = extras.counters.get(&entry.handle).copied().map(super::arrays::counter_data);
        message.time_since_last_hit = extras.ages_ms.get(&entry.handle).map(|&ms| {
            let ns = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
            IdleTimeout { elapsed_ns: ns }
        });
        if wanted.meter_config.is_some() && table.meter.is_some() {
            message.meter_config =
                super::arrays::meter_config(&self.switch.direct_meter_rates(table.table, entry.handle)?);
        }
        Ok(message)
    }

    fn default_message(&self, table: &TableIndex) -> Result<TableEntry> {
        let action = self.switch.default_entry(table.table)?;
        let note = self.notes.defaults.get(&table.id).cloned().unwrap_or_default();
        Ok(TableEntry {
            table_id: table.id,
            action: action.and_then(|action| self.action_message(table, &action, None)),
            controller_metadata: note.controller_metadata,
            metadata: note.metadata,
            is_default_action: true,
            ..TableEntry::default()
        })
    }

    /// The tables and entries that the pattern of a direct resource names. A pattern with a key must match.
    fn owners(&self, wanted: Option<&TableEntry>, what: &str) -> Result<Vec<(&TableIndex, Vec<Entry>)>> {
        let empty = TableEntry::default();
        let wanted = wanted.unwrap_or(&empty);
        if wanted.is_default_action {
            return Err(unimplemented(format!("default entries have no {what} in this switch")));
        }
        let mut out = Vec::new();
        for table in self.tables_of(wanted.table_id)? {
            let there =
                if what == "direct counter" { table.counter.is_some() } else { table.meter.is_some() };
            if !there {
                match wanted.table_id {
                    0 => continue,
                    _ => return Err(invalid(format!("table '{}' has no {what}", table.name))),
                }
            }
            let entries = self.matching(table, wanted)?;
            if entries.is_empty() && !wanted.r#match.is_empty() {
                return Err(super::error::not_found(format!(
                    "table '{}': there is no such entry",
                    table.name
                )));
            }
            out.push((table, entries));
        }
        Ok(out)
    }

    /// An entry's key alone.
    fn key_message(&self, table: &TableIndex, entry: &Entry) -> TableEntry {
        let TableEntry { table_id, r#match, priority, .. } = self.bare_message(table, entry);
        TableEntry { table_id, r#match, priority, ..TableEntry::default() }
    }

    fn read_direct_counters(
        &self,
        wanted: &DirectCounterEntry,
        out: &mut dyn FnMut(DirectCounterEntry),
    ) -> Result<()> {
        for (table, entries) in self.owners(wanted.table_entry.as_ref(), "direct counter")? {
            if entries.is_empty() {
                continue;
            }
            let single = (entries.len() == 1).then(|| entries[0].handle);
            let counters = self.direct_counters(table, single)?;
            for entry in &entries {
                let data = counters.get(&entry.handle).copied().unwrap_or_default();
                out(DirectCounterEntry {
                    table_entry: Some(self.key_message(table, entry)),
                    data: Some(super::arrays::counter_data(data)),
                });
            }
        }
        Ok(())
    }

    fn read_direct_meters(
        &self,
        wanted: &DirectMeterEntry,
        out: &mut dyn FnMut(DirectMeterEntry),
    ) -> Result<()> {
        if wanted.counter_data.is_some() {
            return Err(unimplemented("meters keep no counters for each colour"));
        }
        for (table, entries) in self.owners(wanted.table_entry.as_ref(), "direct meter")? {
            for entry in &entries {
                let rates = self.switch.direct_meter_rates(table.table, entry.handle)?;
                out(DirectMeterEntry {
                    table_entry: Some(self.key_message(table, entry)),
                    config: super::arrays::meter_config(&rates),
                    counter_data: None,
                });
            }
        }
        Ok(())
    }
}

/// The filters of a pattern on one table.
fn passes(entry: &TableEntry, wanted: &TableEntry) -> bool {
    let action_id = |entry: &TableEntry| match &entry.action {
        Some(WireAction { r#type: Some(ActionChoice::Action(action)) }) => Some(action.action_id),
        _ => None,
    };
    (wanted.priority == 0 || wanted.priority == entry.priority)
        && (wanted.controller_metadata == 0 || wanted.controller_metadata == entry.controller_metadata)
        && (wanted.metadata.is_empty() || wanted.metadata == entry.metadata)
        && action_id(wanted).is_none_or(|id| id == 0 || action_id(entry) == Some(id))
}
