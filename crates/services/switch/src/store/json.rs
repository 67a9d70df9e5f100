//! The master copy as JSON, to be restored into the same program later: what control planes have configured, not what
//! packets have changed. Handles are kept. Actions, tables and arrays go by their names.

use super::encode::{check_call, encode_key};
use super::table::{NewSlot, Packed};
use super::{
    Arc, BigUint, CalculationId, ControlError, ErrorKind, MeterId, MeterRate, Parameters, ProfileId, Program,
    Store, TableId, ValueSetId, has_priority,
};
use crate::control::{ActionCall, Range};
use barewire_p4::ir::ActionId;
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use serde::{Deserialize, Serialize};

type Result<T> = std::result::Result<T, ControlError>;

/// A [`Store`] as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedStore {
    tables: Vec<SavedTable>,
    profiles: Vec<SavedProfile>,
    meters: Vec<SavedMeter>,
    value_sets: Vec<SavedSet>,
    hash_parameters: Vec<SavedHash>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTable {
    name: String,
    default: Option<SavedAction>,
    entries: Vec<SavedEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedEntry {
    index: u32,
    version: u32,
    key: Vec<SavedParam>,
    #[serde(default, skip_serializing_if = "is_default")]
    priority: u32,
    action: SavedAction,
    #[serde(default, skip_serializing_if = "is_default")]
    ttl_ms: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    cookie: Vec<u8>,
    #[serde(default, skip_serializing_if = "is_default")]
    meter: Vec<SavedRate>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedParam {
    Exact(Number),
    Valid(bool),
    Lpm(Number, u32),
    Ternary(Number, Number),
    Range(Number, Number),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedAction {
    Call(SavedCall),
    Member(u32),
    Group(u32),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedCall {
    action: String,
    args: Vec<Number>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedProfile {
    name: String,
    members: Vec<(u32, SavedCall)>,
    groups: Vec<SavedGroup>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedGroup {
    id: u32,
    /// Member and weight.
    members: Vec<(u32, u32)>,
    max_size: u32,
}

/// Units a microsecond, and burst.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct SavedRate(f64, u32);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedMeter {
    name: String,
    all: Vec<SavedRate>,
    some: Vec<(u64, Vec<SavedRate>)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSet {
    name: String,
    values: Vec<Vec<Number>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedHash {
    calculation: String,
    parameters: SavedParameters,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedParameters {
    Crc16 { polynomial: u16, initial: u16, final_xor: u16, reflect_data: bool, reflect_remainder: bool },
    Crc32 { polynomial: u32, initial: u32, final_xor: u32, reflect_data: bool, reflect_remainder: bool },
    Toeplitz(Vec<u8>),
}

/// A number of any size, as a hexadecimal string.
#[derive(Debug, Clone)]
struct Number(BigUint);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("0x{:x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Number, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let number = digits.and_then(|digits| BigUint::parse_bytes(digits.as_bytes(), 16));
        number
            .map(Number)
            .ok_or_else(|| serde::de::Error::custom(format!("'{text}' is not a number like 0x1f")))
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn save_rates(rates: &[MeterRate]) -> Vec<SavedRate> {
    rates.iter().map(|rate| SavedRate(rate.units_per_us, rate.burst)).collect()
}

fn load_rates(rates: &[SavedRate]) -> Vec<MeterRate> {
    rates.iter().map(|rate| MeterRate { units_per_us: rate.0, burst: rate.1 }).collect()
}

fn save_call(program: &Program, call: &ActionCall) -> SavedCall {
    let args = call.args.iter().cloned().map(Number).collect();
    SavedCall { action: program.actions[call.action.at()].name.clone(), args }
}

fn save_action(program: &Program, action: &TableAction) -> SavedAction {
    match action {
        TableAction::Call(call) => SavedAction::Call(save_call(program, call)),
        TableAction::Member(member) => SavedAction::Member(*member),
        TableAction::Group(group) => SavedAction::Group(*group),
    }
}

fn save_param(param: MatchParam) -> SavedParam {
    match param {
        MatchParam::Exact(value) => SavedParam::Exact(Number(value)),
        MatchParam::Valid(valid) => SavedParam::Valid(valid),
        MatchParam::Lpm { value, prefix_len } => SavedParam::Lpm(Number(value), prefix_len),
        MatchParam::Ternary { value, mask } => SavedParam::Ternary(Number(value), Number(mask)),
        MatchParam::Range { low, high } => SavedParam::Range(Number(low), Number(high)),
    }
}

fn load_param(param: SavedParam) -> MatchParam {
    match param {
        SavedParam::Exact(value) => MatchParam::Exact(value.0),
        SavedParam::Valid(valid) => MatchParam::Valid(valid),
        SavedParam::Lpm(value, prefix_len) => MatchParam::Lpm { value: value.0, prefix_len },
        SavedParam::Ternary(value, mask) => MatchParam::Ternary { value: value.0, mask: mask.0 },
        SavedParam::Range(low, high) => MatchParam::Range { low: low.0, high: high.0 },
    }
}

/// The action of this name among those allowed, checked with its arguments.
fn load_call(program: &Program, allowed: &[ActionId], owner: &str, call: SavedCall) -> Result<ActionCall> {
    let named = |id: &&ActionId| program.actions[id.at()].name == call.action;
    let Some(action) = allowed.iter().find(named) else {
        let names: Vec<&str> = allowed.iter().map(|id| program.actions[id.at()].name.as_str()).collect();
        return Err(ControlError::new(
            ErrorKind::InvalidActionName,
            format!(
                "{owner} has no action '{}': {}",
                call.action,
                barewire_text::suggest(&call.action, &names)
            ),
        ));
    };
    let call = ActionCall { action: *action, args: call.args.into_iter().map(|arg| arg.0).collect() };
    check_call(program, allowed, owner, &call)?;
    Ok(call)
}

/// Which of these has this name.
fn find<'a>(
    kind: ErrorKind,
    what: &str,
    name: &str,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize> {
    let all = names.clone();
    names.position(|n| n == name).ok_or_else(|| {
        let all: Vec<&str> = all.collect();
        ControlError::new(
            kind,
            format!("the program has no {what} '{name}': {}", barewire_text::suggest(name, &all)),
        )
    })
}

fn at(place: &str) -> impl Fn(ControlError) -> ControlError + '_ {
    move |error| ControlError::new(error.kind, format!("{place}: {}", error.message))
}

impl Store {
    /// Everything, to be restored.
    pub(crate) fn save(&self) -> SavedStore {
        let program = &self.program;
        let table = |(at, table): (usize, &super::Table)| {
            let store = &self.tables[at];
            let entry = |index: u32| {
                let entry = store.entry(program, table, index);
                SavedEntry {
                    index,
                    version: (entry.handle >> 32) as u32,
                    key: entry.key.into_iter().map(save_param).collect(),
                    priority: entry.priority,
                    action: save_action(program, &entry.action),
                    ttl_ms: entry.ttl_ms,
                    cookie: entry.cookie,
                    meter: store.direct_rates.get(&index).map(|rates| save_rates(rates)).unwrap_or_default(),
                }
            };
            SavedTable {
                name: table.name.clone(),
                default: store.default.as_ref().map(|action| save_action(program, action)),
                // Const entries come with the program.
                entries: if table.immutable { Vec::new() } else { store.indices().map(entry).collect() },
            }
        };
        let profile = |(at, store): (usize, &super::ProfileStore)| SavedProfile {
            name: program.profiles[at].name.clone(),
            members: store.members.iter().map(|(id, slot)| (*id, save_call(program, &slot.call))).collect(),
            groups: store
                .groups
                .iter()
                .map(|(id, slot)| SavedGroup {
                    id: *id,
                    members: slot.members.clone(),
                    max_size: slot.max_size,
                })
                .collect(),
        };
        let meter = |(at, store): (usize, &super::MeterStore)| SavedMeter {
            name: program.meters[at].name.clone(),
            all: save_rates(&store.all),
            some: store.some.iter().map(|(index, rates)| (*index, save_rates(rates))).collect(),
        };
        let set = |(at, values): (usize, &Vec<Vec<BigUint>>)| SavedSet {
            name: program.value_sets[at].name.clone(),
            values: values.iter().map(|value| value.iter().cloned().map(Number).collect()).collect(),
        };
        let hash = |(id, parameters): (&u32, &Parameters)| {
            let parameters = match parameters.clone() {
                Parameters::Crc16 { polynomial, initial, final_xor, reflect_data, reflect_remainder } => {
                    SavedParameters::Crc16 { polynomial, initial, final_xor, reflect_data, reflect_remainder }
                }
                Parameters::Crc32 { polynomial, initial, final_xor, reflect_data, reflect_remainder } => {
                    SavedParameters::Crc32 { polynomial, initial, final_xor, reflect_data, reflect_remainder }
                }
                Parameters::Toeplitz(key) => SavedParameters::Toeplitz(key),
            };
            SavedHash { calculation: program.calculations[*id as usize].name.clone(), parameters }
        };
        SavedStore {
            tables: program.tables.iter().enumerate().map(table).collect(),
            profiles: self.profiles.iter().enumerate().map(profile).collect(),
            meters: self.meters.iter().enumerate().map(meter).collect(),
            value_sets: self.value_sets.iter().enumerate().map(set).collect(),
            hash_parameters: self.hash_parameters.iter().map(hash).collect(),
        }
    }

    /// A master copy with what was saved. Idle time-outs begin now. Every write is checked as if a control plane made it.
    ///
    /// # Errors
    /// As the writes, with the place in front.
    pub(crate) fn restore(program: Arc<Program>, saved: SavedStore, now_us: u64) -> Result<Store> {
        let mut store = Store::new(program)?;
        let program = Arc::clone(&store.program);
        for (at, table) in program.tables.iter().enumerate() {
            if !table.immutable {
                store.tables[at].clear();
            }
        }
        let mut unused = Vec::new();
        for profile in saved.profiles {
            store.restore_profile(&program, profile)?;
        }
        for table in saved.tables {
            let names = program.tables.iter().map(|table| table.name.as_str());
            let id = TableId::from(find(ErrorKind::InvalidTableName, "table", &table.name, names)?);
            store.restore_table(&program, id, table, now_us)?;
        }
        for meter in saved.meters {
            let names = program.meters.iter().map(|meter| meter.name.as_str());
            let id = MeterId::from(find(ErrorKind::InvalidMeterName, "meter", &meter.name, names)?);
            if !meter.all.is_empty() {
                store.set_meter(id, Range::All, &load_rates(&meter.all))?;
            }
            for (index, rates) in meter.some {
                store.set_meter(id, Range::One(index), &load_rates(&rates))?;
            }
        }
        for set in saved.value_sets {
            let names = program.value_sets.iter().map(|set| set.name.as_str());
            let id = ValueSetId::from(find(ErrorKind::InvalidValueSetName, "value set", &set.name, names)?);
            for value in set.values {
                let value = value.into_iter().map(|part| part.0).collect();
                store.value_set_add(id, value, &mut unused)?;
            }
        }
        for hash in saved.hash_parameters {
            let names = program.calculations.iter().map(|c| c.name.as_str());
            let at = find(ErrorKind::InvalidCalculationName, "calculation", &hash.calculation, names)?;
            let parameters = match hash.parameters {
                SavedParameters::Crc16 {
                    polynomial,
                    initial,
                    final_xor,
                    reflect_data,
                    reflect_remainder,
                } => Parameters::Crc16 { polynomial, initial, final_xor, reflect_data, reflect_remainder },
                SavedParameters::Crc32 {
                    polynomial,
                    initial,
                    final_xor,
                    reflect_data,
                    reflect_remainder,
                } => Parameters::Crc32 { polynomial, initial, final_xor, reflect_data, reflect_remainder },
                SavedParameters::Toeplitz(key) => Parameters::Toeplitz(key),
            };
            store.set_hash_parameters(CalculationId::from(at), parameters, &mut unused)?;
        }
        Ok(store)
    }

    fn restore_profile(&mut self, program: &Program, saved: SavedProfile) -> Result<()> {
        let names = program.profiles.iter().map(|profile| profile.name.as_str());
        let kind = ErrorKind::InvalidActionProfileName;
        let id = ProfileId::from(find(kind, "action profile", &saved.name, names)?);
        let profile = self.profile(id)?;
        let owner = profile.owner();
        let actions = profile.actions.clone();
        for (member, call) in saved.members {
            let call = load_call(program, &actions, &owner, call)?;
            self.profile(id)?.add_member(Some(member), call)?;
        }
        for group in saved.groups {
            self.profile(id)?.add_group(Some(group.id), &group.members, group.max_size)?;
        }
        Ok(())
    }

    fn restore_table(
        &mut self,
        program: &Program,
        id: TableId,
        saved: SavedTable,
        now_us: u64,
    ) -> Result<()> {
        let table = &program.tables[id.at()];
        let place = format!("table '{}'", table.name);
        let load = |action: SavedAction| match action {
            SavedAction::Call(call) => {
                load_call(program, &table.actions, &place, call).map(TableAction::Call)
            }
            SavedAction::Member(member) => Ok(TableAction::Member(member)),
            SavedAction::Group(group) => Ok(TableAction::Group(group)),
        };
        if let Some(default) = saved.default {
            let default = load(default).map_err(at(&format!("{place}, default entry")))?;
            if self.tables[id.at()].default.as_ref() != Some(&default) {
                self.set_default(id, &default, &mut Vec::new())?;
            }
        }
        for entry in saved.entries {
            let place = format!("{place}, entry {}", entry.index);
            let place = at(&place);
            self.check_mutable(id).map_err(&place)?;
            if entry.ttl_ms != 0 {
                self.check_ageing(id).map_err(&place)?;
            }
            let action = load(entry.action).map_err(&place)?;
            // As a default entry: a group may have been emptied since.
            self.check_action(id, &action).map_err(&place)?;
            let params: Vec<MatchParam> = entry.key.into_iter().map(load_param).collect();
            let mut key = Vec::new();
            encode_key(table, &params, &mut key).map_err(&place)?;
            let action = Packed::of(program, &action);
            let slot = NewSlot {
                key: key.into(),
                priority: if has_priority(table) { entry.priority } else { 0 },
                action: action.clone(),
                ttl_ms: entry.ttl_ms,
                since_us: now_us,
                is_const: false,
                cookie: entry.cookie.into(),
            };
            self.tables[id.at()].insert_at(entry.index, entry.version, slot).map_err(&place)?;
            self.retain(id, &action);
            if !entry.meter.is_empty() {
                let handle = self.tables[id.at()].handle(entry.index);
                self.set_direct_meter(id, handle, &load_rates(&entry.meter), &mut Vec::new())
                    .map_err(&place)?;
            }
        }
        self.tables[id.at()].collect_free();
        Ok(())
    }
}
