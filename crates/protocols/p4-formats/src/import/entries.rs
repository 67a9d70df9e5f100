//! Default entries and the entries that come with a program.

use super::Importer;
use super::constant::{hex, hex_unsigned, low_bits};
use super::error::{Fault, Problem, Result};
use super::json::Json;
use super::tables::match_kind;
use barewire_p4::ir::{ActionCall, ActionId, InitialEntry, KeyField, MatchKind, Table, TableKind};
use barewire_p4::key::MatchParam;
use num_bigint::{BigUint, Sign};
use std::collections::HashSet;

impl Importer {
    /// An action of the table by its number, with arguments that fit.
    fn call(&self, item: &Json<'_>, table: &Table) -> Result<ActionCall> {
        let at = item.need("action_id")?;
        let action: ActionId = self.names.actions.at(at)?;
        let def = &self.program.actions[action.at()];
        if !table.actions.contains(&action) {
            return Fault::value(at, format!("action '{}' is not one of table '{}'", def.name, table.name));
        }
        let list = item.need("action_data")?;
        let data = list.items()?;
        if data.len() != def.params.len() {
            let what = format!("arguments of action '{}'", def.name);
            return Fault::count(list, what, def.params.len().to_string(), data.len());
        }
        let mut args = Vec::with_capacity(data.len());
        for (value, param) in data.iter().zip(&def.params) {
            args.push(low_bits(&hex(value)?, param.width));
        }
        Ok(ActionCall { action, args })
    }

    pub(super) fn default_entry(&self, item: &Json<'_>, table: &mut Table) -> Result<()> {
        table.default = Some(self.call(item, table)?);
        table.default_action_const = item.flag("action_const", false)?;
        table.default_entry_const = item.flag("action_entry_const", false)?;
        Ok(())
    }

    pub(super) fn entries(&self, item: &Json<'_>, table: &mut Table) -> Result<()> {
        let with_priority = matches!(table.kind, TableKind::Ternary | TableKind::Range);
        let mut seen = HashSet::new();
        for (index, entry) in item.items()?.iter().enumerate() {
            let at = entry.need("match_key")?;
            let fields = at.items()?;
            if fields.len() != table.key.len() {
                return Fault::count(
                    at,
                    "fields of the match key",
                    table.key.len().to_string(),
                    fields.len(),
                );
            }
            let key: Vec<MatchParam> = fields
                .iter()
                .zip(&table.key)
                .map(|(at, field)| match_param(at, field))
                .collect::<Result<_>>()?;
            let priority = match entry.get("priority") {
                Some(priority) => priority.count("a priority", i32::MAX as u32)?,
                // In the order in which they stand, if nothing is said.
                None => index as u32 + 1,
            };
            let priority = if with_priority { priority } else { 0 };
            if !seen.insert((fingerprint(&key), priority)) {
                return Err(Fault::new(
                    entry,
                    Problem::Duplicate { kind: "entry of table", name: table.name.clone() },
                ));
            }
            let call = self.call(entry.need("action_entry")?, table)?;
            table.entries.push(InitialEntry { key, call, priority });
        }
        Ok(())
    }
}

/// What makes two entries the same.
fn fingerprint(key: &[MatchParam]) -> Vec<(BigUint, BigUint)> {
    key.iter()
        .map(|param| match param {
            MatchParam::Exact(value) => (value.clone(), BigUint::ZERO),
            MatchParam::Valid(valid) => (u8::from(*valid).into(), BigUint::ZERO),
            MatchParam::Lpm { value, prefix_len } => (value.clone(), (*prefix_len).into()),
            MatchParam::Ternary { value, mask } => (value.clone(), mask.clone()),
            MatchParam::Range { low, high } => (low.clone(), high.clone()),
        })
        .collect()
}

/// A constant of a key field, a negative one in two's complement; one that is wider than the field is refused (bmv2 counts its bytes).
fn value(at: &Json<'_>, width: u32) -> Result<BigUint> {
    let value = hex(at)?;
    if value.sign() == Sign::Minus {
        return Ok(low_bits(&value, width));
    }
    let value = value.magnitude().clone();
    if value.bits() > u64::from(width) {
        return Fault::value(at, format!("{} does not fit the field's {width} bits", at.describe()));
    }
    Ok(value)
}

/// What an entry says of a key field.
fn match_param(item: &Json<'_>, field: &KeyField) -> Result<MatchParam> {
    let at = item.need("match_type")?;
    let kind = match_kind(at)?;
    let written_as_ternary = (kind, field.kind) == (MatchKind::Ternary, MatchKind::Optional);
    if kind != field.kind && !written_as_ternary {
        let text =
            format!("the entry matches field '{}' by '{}', the table by another kind", field.name, at.str()?);
        return Fault::value(at, text);
    }
    let width = field.width;
    let all = (BigUint::from(1_u8) << width) - 1_u8;
    Ok(match kind {
        MatchKind::Exact => MatchParam::Exact(value(item.need("key")?, width)?),
        MatchKind::Valid => MatchParam::Valid(item.need("key")?.bool()?),
        MatchKind::Lpm => {
            let prefix_len = item.need("prefix_length")?.count("a prefix's length", width)?;
            let mask = &all ^ (&all >> prefix_len);
            MatchParam::Lpm { value: value(item.need("key")?, width)? & mask, prefix_len }
        }
        MatchKind::Ternary => {
            let mask = hex_unsigned(item.need("mask")?)? & &all;
            if written_as_ternary && mask != BigUint::ZERO && mask != all {
                let text = format!("field '{}' is optional: the mask is 0 or all {width} bits", field.name);
                return Fault::value(item, text);
            }
            MatchParam::Ternary { value: value(item.need("key")?, width)? & &mask, mask }
        }
        MatchKind::Optional => match item.get("key") {
            Some(key) => MatchParam::Ternary { value: value(key, width)?, mask: all },
            None => MatchParam::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO },
        },
        MatchKind::Range => {
            let (low, high) = (value(item.need("start")?, width)?, value(item.need("end")?, width)?);
            if low > high {
                return Fault::value(item, format!("a range from {low} to {high}"));
            }
            MatchParam::Range { low, high }
        }
    })
}
