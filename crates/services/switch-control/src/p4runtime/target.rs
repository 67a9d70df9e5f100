//! One program with its switch, and the writing of entities to it.
//!
//! A target is what Write and Read work on: the switch that runs, or a shadow without engines that holds a program
//! saved but not committed. It is used behind one lock, so writes of different controllers never interleave.

use super::entity::{
    ActionProfileActionSet, CloneSessionEntry, DigestConfig, Entity, EntityKind, MulticastGroupEntry,
    PacketReplicationEngineEntry, ReplicationEntry, TableEntry,
};
use super::error::{P4Error, Result, invalid, unimplemented};
use super::message::{Atomicity, ForwardingPipelineConfig, Update, UpdateType};
use super::profiles::GroupNote;
use crate::p4info::Index;
use barewire_switch::control::Switch;
use barewire_switch::prepared::EngineKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tonic::Code;

/// A program as a controller pushed it.
#[derive(Debug)]
pub struct Pipeline {
    /// What was pushed.
    pub config: ForwardingPipelineConfig,
    /// Its P4Info, held against the program.
    pub index: Index,
}

/// What a controller attached to a table entry; travels in the store's opaque cookie.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EntryNote {
    #[prost(uint64, tag = "1")]
    pub controller_metadata: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub metadata: Vec<u8>,
    /// As given, for the store rounds it to milliseconds.
    #[prost(int64, tag = "3")]
    pub idle_timeout_ns: i64,
    /// The group given in place of an action.
    #[prost(message, optional, tag = "4")]
    pub one_shot: Option<ActionProfileActionSet>,
    /// The group and the members that stand for it in the store.
    #[prost(uint32, optional, tag = "5")]
    pub group: Option<u32>,
    #[prost(uint32, repeated, tag = "6")]
    pub members: Vec<u32>,
}

/// How to take a write back.
pub type Undo = Box<dyn FnOnce(&mut Target) -> Result<()> + Send>;

/// What P4Runtime knows beyond the store, by P4Info's ids.
#[derive(Debug, Default)]
pub struct Notes {
    /// Groups as they were written: profile, group.
    pub(super) groups: BTreeMap<(u32, u32), GroupNote>,
    /// How many groups in place each profile has.
    pub(super) one_shots: HashMap<u32, usize>,
    /// Opaque data of default entries.
    pub(super) defaults: HashMap<u32, EntryNote>,
    /// Digests that are to be sent.
    pub(super) digests: BTreeMap<u32, DigestConfig>,
    pub(super) multicast: BTreeMap<u32, MulticastGroupEntry>,
    pub(super) clones: BTreeMap<u32, CloneSessionEntry>,
    /// Ports known to be down.
    pub(super) down: BTreeSet<u32>,
}

/// One program with its switch.
pub struct Target {
    pub(super) switch: Switch,
    /// The switch that has the ports: the same, but for a shadow.
    pub(super) ports: Switch,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) notes: Notes,
    /// While a batch may have to be rolled back: how, in order.
    undo: Option<Vec<Undo>>,
    /// What the switch holds already is written again, for another program: that it was allowed has been asked before.
    pub(super) moving: bool,
    /// Groups in place that go when the batch has succeeded: table, and the note of the entry that had them.
    retired: Vec<(u32, EntryNote)>,
    /// The switch's epoch that the notes are of.
    epoch: u64,
    /// The epoch at which the program began.
    began: u64,
}

impl Target {
    /// A program on its switch, where it began at an epoch. Once another program runs there, all is refused.
    pub fn new(switch: Switch, pipeline: Arc<Pipeline>, began: u64) -> Target {
        let only = switch.of_program(Arc::clone(&pipeline.index.program));
        Target { epoch: began, began, ..Target::with_ports(only, switch, pipeline) }
    }

    /// A program on a shadow of the switch that has the ports.
    pub fn with_ports(switch: Switch, ports: Switch, pipeline: Arc<Pipeline>) -> Target {
        let (notes, undo, retired) = (Notes::default(), None, Vec::new());
        Target { switch, ports, pipeline, notes, undo, moving: false, retired, epoch: 0, began: 0 }
    }

    /// The switch's epoch that is known.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The switch's epoch at which the program began.
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// What is known is true of a later epoch.
    pub(super) fn is_known_at(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// A shadow's program runs on the switch from an epoch on.
    pub(super) fn moves_to(&mut self, switch: &Switch, epoch: u64) {
        self.switch = switch.of_program(Arc::clone(&self.pipeline.index.program));
        (self.epoch, self.began) = (epoch, epoch);
    }

    /// Keep what is still true of the notes from before another control plane changed everything. What entries say of
    /// groups in place is in their cookies.
    pub(super) fn take_over(&mut self, old: Notes) {
        let Notes { multicast, clones, digests, groups, down, .. } = old;
        self.notes.down = down;
        let there: BTreeSet<u32> = self.switch.mc_dump().groups.iter().map(|(id, _)| *id).collect();
        self.notes.multicast = multicast;
        self.notes.multicast.retain(|id, _| there.contains(id));
        self.notes.clones = clones;
        self.notes.clones.retain(|id, _| self.switch.mirror(*id).is_ok());
        for (id, config) in digests {
            let Some(digest) = self.pipeline.index.digests.get(id) else { continue };
            // A digest whose limits cannot be set is sent by those of the program.
            let _ = self.configure_digest(digest.number, &config);
            self.notes.digests.insert(id, config);
        }
        self.find_groups(groups);
    }

    pub(super) fn index(&self) -> &Index {
        &self.pipeline.index
    }

    /// Whether writes must say how they are taken back.
    pub(super) fn wants_undo(&self) -> bool {
        self.undo.is_some()
    }

    /// Say how the write just made is taken back.
    pub(super) fn undo_with(&mut self, undo: impl FnOnce(&mut Target) -> Result<()> + Send + 'static) {
        if let Some(log) = &mut self.undo {
            log.push(Box::new(undo));
        }
    }

    /// Groups in place that a batch may have to bring back, by number.
    pub(super) fn retired_groups(&self) -> BTreeSet<u32> {
        self.retired.iter().filter_map(|(_, note)| note.group).collect()
    }

    /// A group in place that a batch does away with, unless it is rolled back.
    pub(super) fn retire_one_shot(&mut self, table: u32, note: EntryNote) {
        self.retired.push((table, note));
    }

    /// Carry out a batch: one result for each update.
    pub fn write(&mut self, updates: &[Update], atomicity: Atomicity) -> Vec<Result<()>> {
        match atomicity {
            Atomicity::ContinueOnError => self.write_each(updates),
            Atomicity::RollbackOnError => self.write_or_roll_back(updates),
            Atomicity::DataplaneAtomic => self.write_at_once(updates),
        }
    }

    /// In order, neighbouring plain table entries together.
    fn write_each(&mut self, updates: &[Update]) -> Vec<Result<()>> {
        let mut results = Vec::with_capacity(updates.len());
        let mut rest = updates;
        while let Some(update) = rest.first() {
            let kind = update.r#type;
            let run = match plain(update) {
                true => rest.iter().take_while(|next| next.r#type == kind && plain(next)).count(),
                false => 0,
            };
            if run > 1 {
                self.write_entries(
                    UpdateType::try_from(kind).unwrap_or_default(),
                    &rest[..run],
                    &mut results,
                );
                rest = &rest[run..];
            } else {
                results.push(self.write_one(update));
                rest = &rest[1..];
            }
        }
        results
    }

    fn write_or_roll_back(&mut self, updates: &[Update]) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = Vec::with_capacity(updates.len());
        self.undo = Some(Vec::new());
        for update in updates {
            let result = self.write_one(update);
            let failed = result.is_err();
            results.push(result);
            if failed {
                break;
            }
        }
        let log = self.undo.take().unwrap_or_default();
        let retired = std::mem::take(&mut self.retired);
        if results.last().is_some_and(Result::is_err) {
            let done = results.len() - 1;
            let mut lost = None;
            for undo in log.into_iter().rev() {
                // What was done to a program that is gone is gone with it.
                lost = undo(self).err().filter(|error| error.code != Code::Aborted).or(lost);
            }
            let taken_back = match lost {
                None => P4Error::new(
                    Code::Aborted,
                    format!("taken back: update {} of the batch failed", done + 1),
                ),
                Some(error) => P4Error::new(
                    Code::Internal,
                    format!(
                        "update {} of the batch failed, and taking this one back failed: {error}",
                        done + 1
                    ),
                ),
            };
            results[..done].fill(Err(taken_back));
            let not_tried =
                P4Error::new(Code::Aborted, format!("not tried: update {} of the batch failed", done + 1));
            results.resize(updates.len(), Err(not_tried));
            return results;
        }
        let pipeline = Arc::clone(&self.pipeline);
        for (table, note) in retired {
            let dropped = Self::table(&pipeline, table).and_then(|table| self.drop_one_shot(table, &note));
            if let (Err(error), Some(last)) = (dropped, results.last_mut()) {
                *last = Err(error);
            }
        }
        results
    }

    /// All or nothing for packets too. Entries of tables reach each engine as one message, which it applies between two
    /// packets; other entities cannot be promised that.
    fn write_at_once(&mut self, updates: &[Update]) -> Vec<Result<()>> {
        if self.switch.info().engine == EngineKind::Kernel.to_string() {
            // An entry is in several maps, and packets read them meanwhile.
            let error = unimplemented(
                "DATAPLANE_ATOMIC is not done where the kernel forwards (--engine kernel); use ROLLBACK_ON_ERROR",
            );
            return updates.iter().map(|_| Err(error.clone())).collect();
        }
        if updates.len() < 2 {
            return self.write_or_roll_back(updates);
        }
        if !updates.iter().all(plain) {
            let error = unimplemented(
                "DATAPLANE_ATOMIC is done for table entries without direct resources and without groups in place; \
                 use ROLLBACK_ON_ERROR",
            );
            return updates.iter().map(|_| Err(error.clone())).collect();
        }
        self.write_entries_at_once(updates)
    }

    /// Carry out one update.
    ///
    /// # Errors
    /// What the specification says of the entity.
    pub(super) fn write_one(&mut self, update: &Update) -> Result<()> {
        let kind = match UpdateType::try_from(update.r#type) {
            Ok(UpdateType::Unspecified) | Err(_) => {
                return Err(invalid(format!(
                    "update type {} is not INSERT, MODIFY or DELETE",
                    update.r#type
                )));
            }
            Ok(kind) => kind,
        };
        let Some(Entity { entity: Some(entity) }) = &update.entity else {
            return Err(invalid("the update has no entity"));
        };
        match entity {
            EntityKind::TableEntry(entry) => self.write_entry(kind, entry),
            EntityKind::ActionProfileMember(member) => self.write_member(kind, member),
            EntityKind::ActionProfileGroup(group) => self.write_group(kind, group),
            EntityKind::MeterEntry(meter) => self.write_meter(kind, meter),
            EntityKind::DirectMeterEntry(meter) => self.write_direct_meter(kind, meter),
            EntityKind::CounterEntry(counter) => self.write_counter(kind, counter),
            EntityKind::DirectCounterEntry(counter) => self.write_direct_counter(kind, counter),
            EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                r#type: Some(entry),
            }) => match entry {
                ReplicationEntry::MulticastGroupEntry(group) => self.write_multicast(kind, group),
                ReplicationEntry::CloneSessionEntry(session) => self.write_clone_session(kind, session),
            },
            EntityKind::PacketReplicationEngineEntry(_) => Err(invalid(
                "a packet replication engine entry that is neither multicast group nor clone session",
            )),
            EntityKind::ValueSetEntry(set) => self.write_value_set(kind, set),
            EntityKind::RegisterEntry(register) => self.write_register(kind, register),
            EntityKind::DigestEntry(digest) => self.write_digest(kind, digest),
            EntityKind::ExternEntry(_) => {
                Err(unimplemented("the switch has no externs beyond P4Runtime's own"))
            }
        }
    }

    /// Only MODIFY is meaningful.
    pub(super) fn only_modify(kind: UpdateType, what: &str) -> Result<()> {
        if kind == UpdateType::Modify {
            return Ok(());
        }
        Err(invalid(format!("{what} can be modified only: it is there as long as the program")))
    }
}

/// A table entry that needs nothing but the store: neither default nor direct resources nor a group in place.
fn plain(update: &Update) -> bool {
    match &update.entity {
        Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) => entry.is_plain(),
        _ => false,
    }
}

impl TableEntry {
    pub(super) fn is_plain(&self) -> bool {
        use super::entity::{ActionChoice, TableAction};
        !self.is_default_action
            && self.meter_config.is_none()
            && self.counter_data.is_none()
            && self.meter_counter_data.is_none()
            && !matches!(
                &self.action,
                Some(TableAction { r#type: Some(ActionChoice::ActionProfileActionSet(_)) })
            )
    }
}
