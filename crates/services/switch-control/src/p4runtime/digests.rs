//! Parser value sets, and which digests are sent.

use super::arrays::known;
use super::entity::{DigestConfig, DigestEntry, ValueSetEntry, ValueSetMember};
use super::error::{P4Error, Result, invalid, not_found, unimplemented};
use super::keys::{matches_of, wire_matches};
use super::message::UpdateType;
use super::target::Target;
use super::value::ones;
use crate::p4info::index::{FieldIndex, ValueSetIndex};
use barewire_p4::ir::MatchKind;
use barewire_p4::key::MatchParam;
use num_bigint::BigUint;
use std::sync::Arc;
use tonic::Code;

/// How many digests a list holds when the controller sets no limit.
const DEFAULT_LIST_SIZE: usize = 1024;

/// The value of one part of a member: the switch keeps single values.
fn single(field: &FieldIndex, param: &MatchParam) -> Result<BigUint> {
    match param {
        MatchParam::Exact(value) => Ok(value.clone()),
        MatchParam::Lpm { value, prefix_len } if *prefix_len == field.width => Ok(value.clone()),
        MatchParam::Ternary { value, mask } if *mask == ones(field.width) => Ok(value.clone()),
        MatchParam::Range { low, high } if low == high => Ok(low.clone()),
        _ => Err(unimplemented(format!("field {}: value sets of this switch hold single values", field.id))),
    }
}

/// The same, the way back.
fn param_of(field: &FieldIndex, value: &BigUint) -> MatchParam {
    let value = value.clone();
    match field.kind {
        MatchKind::Exact | MatchKind::Valid => MatchParam::Exact(value),
        MatchKind::Lpm => MatchParam::Lpm { value, prefix_len: field.width },
        MatchKind::Ternary | MatchKind::Optional => MatchParam::Ternary { value, mask: ones(field.width) },
        MatchKind::Range => MatchParam::Range { low: value.clone(), high: value },
    }
}

impl Target {
    pub(super) fn write_value_set(&mut self, kind: UpdateType, entry: &ValueSetEntry) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let set = known(&pipeline.index.value_sets, entry.value_set_id)?;
        let place = format!("value set '{}'", set.name);
        Self::only_modify(kind, &place)?;
        if set.size > 0 && entry.members.len() > set.size as usize {
            let message =
                format!("{place}: {} members were given, it holds {}", entry.members.len(), set.size);
            return Err(P4Error::new(Code::ResourceExhausted, message));
        }
        let mut wanted: Vec<Vec<BigUint>> = Vec::with_capacity(entry.members.len());
        for (at, member) in entry.members.iter().enumerate() {
            let place = format!("{place}, member {}", at + 1);
            let key = matches_of(&set.fields, &member.r#match).map_err(|error| error.at(&place))?;
            let value = set.fields.iter().zip(&key).map(|(field, param)| single(field, param));
            let value = value.collect::<Result<Vec<_>>>().map_err(|error| error.at(&place))?;
            if wanted.contains(&value) {
                return Err(P4Error::new(Code::AlreadyExists, format!("{place}: it is given twice")));
            }
            wanted.push(value);
        }
        let before = self.set_values(set, wanted)?;
        let id = set.id;
        self.undo_with(move |target| {
            let pipeline = Arc::clone(&target.pipeline);
            target.set_values(known(&pipeline.index.value_sets, id)?, before)?;
            Ok(())
        });
        Ok(())
    }

    /// Bring a set to these values, at once. Gives what it held.
    fn set_values(&self, set: &ValueSetIndex, wanted: Vec<Vec<BigUint>>) -> Result<Vec<Vec<BigUint>>> {
        let before = self.switch.vs_get(set.set)?;
        self.switch.vs_set(set.set, wanted)?;
        Ok(before)
    }

    pub(super) fn read_value_sets(&self, wanted: &ValueSetEntry) -> Result<Vec<ValueSetEntry>> {
        let sets = &self.index().value_sets;
        let one = (wanted.value_set_id != 0).then(|| known(sets, wanted.value_set_id)).transpose()?;
        let mut out = Vec::new();
        for set in sets.iter().filter(|set| one.is_none_or(|one| one.id == set.id)) {
            let members = self
                .switch
                .vs_get(set.set)?
                .iter()
                .map(|value| {
                    let key: Vec<MatchParam> =
                        set.fields.iter().zip(value).map(|(field, value)| param_of(field, value)).collect();
                    ValueSetMember { r#match: wire_matches(&set.fields, &key) }
                })
                .collect();
            out.push(ValueSetEntry { value_set_id: set.id, members });
        }
        Ok(out)
    }

    /// Tell the learning buffers of a digest's limits.
    pub(super) fn configure_digest(&self, number: u32, config: &DigestConfig) -> Result<()> {
        let timeout_ms = u64::try_from(config.max_timeout_ns).unwrap_or(0).div_ceil(1_000_000);
        let size = match (timeout_ms, usize::try_from(config.max_list_size).unwrap_or(0)) {
            // No waiting: each digest is a list.
            (0, _) => 1,
            (_, 0) => DEFAULT_LIST_SIZE,
            (_, size) => size.min(DEFAULT_LIST_SIZE),
        };
        self.switch.set_digest_timeout(number, u32::try_from(timeout_ms).unwrap_or(u32::MAX))?;
        Ok(self.switch.set_digest_max_samples(number, size)?)
    }

    pub(super) fn write_digest(&mut self, kind: UpdateType, entry: &DigestEntry) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let digest = known(&pipeline.index.digests, entry.digest_id)?;
        let place = format!("digest '{}'", digest.name);
        let before = self.notes.digests.get(&digest.id).copied();
        match (kind, before.is_some()) {
            (UpdateType::Insert, true) => {
                return Err(P4Error::new(Code::AlreadyExists, format!("{place}: it is enabled already")));
            }
            (UpdateType::Modify | UpdateType::Delete, false) => {
                return Err(not_found(format!("{place}: it is not enabled")));
            }
            _ => {}
        }
        let (id, number) = (digest.id, digest.number);
        if kind == UpdateType::Delete {
            self.notes.digests.remove(&id);
        } else {
            let config = entry.config.unwrap_or_default();
            if config.max_timeout_ns < 0 || config.max_list_size < 0 || config.ack_timeout_ns < 0 {
                return Err(invalid(format!("{place}: its limits must not be below 0")));
            }
            self.configure_digest(number, &config)?;
            self.notes.digests.insert(id, config);
        }
        self.undo_with(move |target| match before {
            Some(config) => {
                target.notes.digests.insert(id, config);
                target.configure_digest(number, &config)
            }
            None => {
                target.notes.digests.remove(&id);
                Ok(())
            }
        });
        Ok(())
    }

    pub(super) fn read_digests(&self, wanted: &DigestEntry) -> Result<Vec<DigestEntry>> {
        if wanted.digest_id != 0 {
            known(&self.index().digests, wanted.digest_id)?;
        }
        let chosen = |id: &u32| wanted.digest_id == 0 || wanted.digest_id == *id;
        let enabled = self.notes.digests.iter().filter(|(id, _)| chosen(id));
        Ok(enabled.map(|(&digest_id, config)| DigestEntry { digest_id, config: Some(*config) }).collect())
    }
}
