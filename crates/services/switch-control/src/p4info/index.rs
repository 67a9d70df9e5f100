//! A P4Info held against the program that runs: its ids become positions in the program, and back.
//!
//! Names tie the two together. Everything is checked here once, when a program is pushed, so that translating an
//! entity needs no search by name and cannot meet a width that does not fit.

use super::message::{
    ActionInfo, ActionScope, ControllerPacketMetadata, MatchFieldKind, MatchType, MeterType, P4Info,
    Preamble, TableInfo,
};
use super::shape::shape_of;
pub use super::shape::{DataShape, ValueShape};
use super::types::SdnType;
use barewire_p4::ir::{
    ActionId, CounterId, LearnListId, MatchKind, MeterId, MeterUnit, ProfileId, Program, RegisterId,
    TableActions, TableId, ValueSetId,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Why a P4Info does not go with a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("P4Info, {place}: {message}")]
#[non_exhaustive]
pub struct IndexError {
    /// The object.
    pub place: String,
    /// What is wrong with it.
    pub message: String,
}

fn refuse(place: impl Into<String>, message: impl Into<String>) -> IndexError {
    IndexError { place: place.into(), message: message.into() }
}

/// A key field.
#[derive(Debug, Clone)]
pub struct FieldIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// As P4Info has it (a P4_14 `valid` is exact).
    pub kind: MatchKind,
    /// Bits.
    pub width: u32,
    /// The program matches a header's validity.
    pub validity: bool,
}

/// A parameter of an action.
#[derive(Debug, Clone)]
pub struct ParamIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Bits.
    pub width: u32,
}

/// An action.
#[derive(Debug, Clone)]
pub struct ActionIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its parameters, in the program's order.
    pub params: Vec<ParamIndex>,
}

/// An action of one table or profile.
#[derive(Debug, Clone, Copy)]
pub struct ActionOf {
    /// P4Info's id.
    pub id: u32,
    /// The program's.
    pub action: ActionId,
    /// Where it may stand.
    pub scope: ActionScope,
}

/// A table.
#[derive(Debug, Clone)]
pub struct TableIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program's.
    pub table: TableId,
    /// The key in the program's order.
    pub fields: Vec<FieldIndex>,
    /// The actions.
    pub actions: Vec<ActionOf>,
    /// The default action may not be changed.
    pub const_default: bool,
    /// Entries need a priority: a field is ternary, range or optional.
    pub needs_priority: bool,
    /// P4Info's id of its action profile.
    pub profile: Option<u32>,
    /// It has a direct counter.
    pub counter: Option<CounterId>,
    /// P4Info's id of its direct meter.
    pub meter: Option<u32>,
    /// Entries may age.
    pub idle: bool,
    /// Entries may not be changed.
    pub is_const: bool,
    /// Initial entries of the program: their store priorities are `1..=initial`.
    pub initial: u32,
}

/// An action profile.
#[derive(Debug, Clone)]
pub struct ProfileIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program's.
    pub profile: ProfileId,
    /// It has groups.
    pub selector: bool,
    /// How large a group may be; 0 for any.
    pub max_group_size: u32,
    /// The size of a group is its number of members, and each weight at most so much (0 for any); none when it is the
    /// sum of weights.
    pub member_weight: Option<u32>,
    /// How many members.
    pub size: u32,
    /// The actions.
    pub actions: Vec<ActionOf>,
}

/// A meter array or a direct meter.
#[derive(Debug, Clone)]
pub struct MeterIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program's.
    pub meter: MeterId,
    /// Which marker.
    pub kind: MeterType,
    /// What it counts.
    pub unit: MeterUnit,
    /// How many.
    pub size: u32,
}

/// An array of counters, or of registers.
#[derive(Debug, Clone)]
pub struct ArrayIndex<T> {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program's.
    pub array: T,
    /// How many.
    pub size: u32,
}

/// A register array.
#[derive(Debug, Clone)]
pub struct RegisterIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program's.
    pub register: RegisterId,
    /// How many.
    pub size: u32,
    /// How a value is written: one number, or a struct whose first member has the highest bits.
    pub shape: DataShape,
}

/// A digest.
#[derive(Debug, Clone)]
pub struct DigestIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program's.
    pub list: LearnListId,
    /// The number by which the switch names it.
    pub number: u32,
    /// How its items become a value.
    pub shape: DataShape,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSetIndex {
    /// P4Info's id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The program's.
    pub set: ValueSetId,
    /// How many values; 0 when not said.
    pub size: u32,
    /// What a value consists of.
    pub fields: Vec<FieldIndex>,
}

/// The header of packets to or from the controller.
#[derive(Debug, Clone, Default)]
pub struct PacketHeader {
    /// Its fields in order.
    pub fields: Vec<ParamIndex>,
    /// Its length: the fields' bits, rounded up to whole bytes.
    pub bytes: usize,
}

/// A whole P4Info, held against a program. Objects are in P4Info's order, ids map to positions.
#[derive(Debug)]
pub struct Index {
    /// The program.
    pub program: Arc<Program>,
    /// Tables.
    pub tables: Catalogue<TableIndex>,
    /// Actions.
    pub actions: Catalogue<ActionIndex>,
    /// Action profiles.
    pub profiles: Catalogue<ProfileIndex>,
    /// Counter arrays.
    pub counters: Catalogue<ArrayIndex<CounterId>>,
    /// Meter arrays.
    pub meters: Catalogue<MeterIndex>,
    /// Direct meters.
    pub direct_meters: Catalogue<MeterIndex>,
    /// Register arrays.
    pub registers: Catalogue<RegisterIndex>,
    /// Digests.
    pub digests: Catalogue<DigestIndex>,
    /// Value sets.
    pub value_sets: Catalogue<ValueSetIndex>,
    /// The header in front of packets from the controller.
    pub packet_out: Option<PacketHeader>,
    /// The header in front of packets to the controller.
    pub packet_in: Option<PacketHeader>,
    by_table: HashMap<TableId, usize>,
}

/// Objects by id.
#[derive(Debug)]
pub struct Catalogue<T> {
    all: Vec<T>,
    by_id: HashMap<u32, usize>,
    what: &'static str,
}

impl<T> Catalogue<T> {
    fn new(what: &'static str) -> Self {
        Catalogue { all: Vec::new(), by_id: HashMap::new(), what }
    }

    fn add(&mut self, id: u32, name: &str, object: T) -> Result<(), IndexError> {
        if id == 0 {
            return Err(refuse(format!("{} '{name}'", self.what), "its id is 0"));
        }
        if self.by_id.insert(id, self.all.len()).is_some() {
            return Err(refuse(format!("{} '{name}'", self.what), format!("id {id} is another's already")));
        }
        self.all.push(object);
        Ok(())
    }

    /// The object with this id.
    pub fn get(&self, id: u32) -> Option<&T> {
        self.by_id.get(&id).map(|&at| &self.all[at])
    }

    /// All of them, in P4Info's order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }

    /// What they are called in messages.
    pub fn what(&self) -> &'static str {
        self.what
    }
}

fn preamble<'a>(preamble: &'a Option<Preamble>, what: &str) -> Result<&'a Preamble, IndexError> {
    preamble.as_ref().ok_or_else(|| refuse(what, "it has no preamble"))
}

/// The position of the object of this name: by the whole name, or else the only one of which either name is the end.
fn find<'a>(
    name: &str,
    what: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, IndexError> {
    if let Some(at) = names.clone().position(|candidate| candidate == name) {
        return Ok(at);
    }
    let ends_with =
        |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('.'));
    let mut near = names.clone().enumerate().filter(|(_, c)| ends_with(c, name) || ends_with(name, c));
    match (near.next(), near.next()) {
        (Some((at, _)), None) => Ok(at),
        _ => Err(refuse(
            format!("{what} '{name}'"),
            format!("the program has no such {what}{}", super::nearest_hint(name, names)),
        )),
    }
}

fn width_of(place: &str, info: i32, program: u32, translated: bool) -> Result<u32, IndexError> {
    if translated || i64::from(info) == i64::from(program) {
        return Ok(program);
    }
    Err(refuse(place, format!("it has {info} bits, in the program {program}")))
}

impl Index {
    /// Hold a P4Info against a program.
    ///
    /// # Errors
    /// Objects the program does not have, widths and kinds that differ, ids given twice.
    pub fn new(info: &P4Info, program: Arc<Program>) -> Result<Index, IndexError> {
        let mut index = Index {
            tables: Catalogue::new("table"),
            actions: Catalogue::new("action"),
            profiles: Catalogue::new("action profile"),
            counters: Catalogue::new("counter"),
            meters: Catalogue::new("meter"),
            direct_meters: Catalogue::new("direct meter"),
            registers: Catalogue::new("register"),
            digests: Catalogue::new("digest"),
            value_sets: Catalogue::new("value set"),
            packet_out: None,
            packet_in: None,
            by_table: HashMap::new(),
            program,
        };
        for action in &info.actions {
            index.add_action(info, action)?;
        }
        for table in &info.tables {
            index.add_table(info, table)?;
        }
        index.add_profiles(info)?;
        index.add_arrays(info)?;
        index.add_digests(info)?;
        index.add_value_sets(info)?;
        index.add_packet_headers(info)?;
        Ok(index)
    }

    /// Counters, meters, registers.
    fn add_arrays(&mut self, info: &P4Info) -> Result<(), IndexError> {
        let program = Arc::clone(&self.program);
        for counter in &info.counters {
            let pre = preamble(&counter.preamble, "counter")?;
            let at = find(&pre.name, "counter", program.counters.iter().map(|c| c.name.as_str()))?;
            let entry = ArrayIndex {
                id: pre.id,
                name: pre.name.clone(),
                array: CounterId::from(at),
                size: program.counters[at].size,
            };
            self.counters.add(pre.id, &pre.name, entry)?;
        }
        for meter in &info.meters {
            let (pre, spec) = (preamble(&meter.preamble, "meter")?, meter.spec.unwrap_or_default());
            let entry = meter_index(&program, pre, spec.r#type)?;
            self.meters.add(pre.id, &pre.name, entry)?;
        }
        for meter in &info.direct_meters {
            let (pre, spec) = (preamble(&meter.preamble, "direct meter")?, meter.spec.unwrap_or_default());
            let entry = meter_index(&program, pre, spec.r#type)?;
            self.direct_meters.add(pre.id, &pre.name, entry)?;
        }
        for register in &info.registers {
            let pre = preamble(&register.preamble, "register")?;
            let at = find(&pre.name, "register", program.registers.iter().map(|r| r.name.as_str()))?;
            let array = &program.registers[at];
            let fits = |shape: &DataShape| {
                let widths = shape.widths().unwrap_or_default();
                widths.iter().map(|width| u64::from(*width)).sum::<u64>() == u64::from(array.width)
            };
            let shape = match register.type_spec.as_ref().and_then(|spec| shape_of(info, spec, 0)) {
                Some(DataShape::Scalar(shape, _)) => DataShape::Scalar(shape, array.width),
                Some(shape) if fits(&shape) => shape,
                _ => DataShape::Scalar(ValueShape::Bits, array.width),
            };
            let entry = RegisterIndex {
                id: pre.id,
                name: pre.name.clone(),
                register: RegisterId::from(at),
                size: array.size,
                shape,
            };
            self.registers.add(pre.id, &pre.name, entry)?;
        }
        Ok(())
    }

    /// Digests.
    fn add_digests(&mut self, info: &P4Info) -> Result<(), IndexError> {
        for digest in &info.digests {
            let pre = preamble(&digest.preamble, "digest")?;
            let at = find(&pre.name, "digest", self.program.learn_lists.iter().map(|l| l.name.as_str()))?;
            let list = &self.program.learn_lists[at];
            let shape = digest.type_spec.as_ref().and_then(|spec| shape_of(info, spec, 0));
            // A shape that does not fit the items would lose some: a plain struct then.
            let shape = shape.filter(|shape| shape.items() == list.items.len()).unwrap_or_else(|| {
                DataShape::Struct(
                    list.items.iter().map(|(_, width)| DataShape::Scalar(ValueShape::Bits, *width)).collect(),
                )
            });
            let entry = DigestIndex {
                id: pre.id,
                name: pre.name.clone(),
                list: LearnListId::from(at),
                number: list.id,
                shape,
            };
            self.digests.add(pre.id, &pre.name, entry)?;
        }
        Ok(())
    }

    /// What stands in front of packets from and for the controller.
    fn add_packet_headers(&mut self, info: &P4Info) -> Result<(), IndexError> {
        for header in &info.controller_packet_metadata {
            let pre = preamble(&header.preamble, "controller packet metadata")?;
            let place = match pre.name.as_str() {
                "packet_out" => &mut self.packet_out,
                "packet_in" => &mut self.packet_in,
                other => {
                    let message = "neither packet_out nor packet_in";
                    return Err(refuse(format!("controller packet metadata '{other}'"), message));
                }
            };
            if place.replace(packet_header(info, pre, header)?).is_some() {
                return Err(refuse(
                    format!("controller packet metadata '{}'", pre.name),
                    "it is there twice",
                ));
            }
        }
        Ok(())
    }

    /// The table of the program with this position.
    pub fn table_at(&self, table: TableId) -> Option<&TableIndex> {
        self.by_table.get(&table).map(|&at| &self.tables.all[at])
    }

    fn add_action(&mut self, info: &P4Info, action: &ActionInfo) -> Result<(), IndexError> {
        let pre = preamble(&action.preamble, "action")?;
        let place = |param: &str| format!("action '{}', parameter '{param}'", pre.name);
        let mut params: Vec<ParamIndex> = Vec::new();
        for param in &action.params {
            if param.id == 0 || params.iter().any(|other| other.id == param.id) {
                return Err(refuse(place(&param.name), format!("its id is {}, 0 or given twice", param.id)));
            }
            refuse_strings(info, param.type_name.as_ref().map(|t| t.name.as_str()), &place(&param.name))?;
            let width = u32::try_from(param.bitwidth).unwrap_or(0);
            params.push(ParamIndex { id: param.id, name: param.name.clone(), width });
        }
        // Several actions of the program may share the name; they are copies of one. Absent ones were optimised away.
        if let Some(of_program) = self.program.actions.iter().find(|a| a.name == pre.name) {
            if of_program.params.len() != params.len() {
                let message =
                    format!("it has {} parameters, in the program {}", params.len(), of_program.params.len());
                return Err(refuse(format!("action '{}'", pre.name), message));
            }
            if of_program.params.iter().all(|p| params.iter().any(|q| q.name == p.name)) {
                params.sort_by_key(|q| of_program.params.iter().position(|p| p.name == q.name));
            }
            for (param, program) in params.iter_mut().zip(&of_program.params) {
                let info_param = action.params.iter().find(|p| p.id == param.id);
                let translated = info_param.is_some_and(|p| p.type_name.is_some());
                let bits = i32::try_from(param.width).unwrap_or(i32::MAX);
                param.width = width_of(&place(&param.name), bits, program.width, translated)?;
            }
        }
        self.actions.add(pre.id, &pre.name, ActionIndex { id: pre.id, name: pre.name.clone(), params })
    }

    fn add_table(&mut self, info: &P4Info, table: &TableInfo) -> Result<(), IndexError> {
        let pre = preamble(&table.preamble, "table")?;
        let program = Arc::clone(&self.program);
        let place = format!("table '{}'", pre.name);
        let at = find(&pre.name, "table", program.tables.iter().map(|t| t.name.as_str()))?;
        let of_program = &program.tables[at];
        if table.match_fields.len() != of_program.key.len() {
            let message = format!(
                "its key has {} fields, in the program {}",
                table.match_fields.len(),
                of_program.key.len()
            );
            return Err(refuse(place, message));
        }
        let mut order: Vec<usize> = (0..table.match_fields.len()).collect();
        if of_program.key.iter().all(|k| table.match_fields.iter().any(|f| f.name == k.name)) {
            order.sort_by_key(|&i| of_program.key.iter().position(|k| k.name == table.match_fields[i].name));
        }
        let mut fields: Vec<FieldIndex> = Vec::new();
        for (key, field) in of_program.key.iter().zip(order.iter().map(|&i| &table.match_fields[i])) {
            let place = format!("{place}, field '{}'", field.name);
            if field.id == 0 || fields.iter().any(|other| other.id == field.id) {
                return Err(refuse(place, format!("its id is {}, 0 or given twice", field.id)));
            }
            let kind =
                match_kind(&field.r#match).ok_or_else(|| refuse(&place, "its match kind is not known"))?;
            // Compilers before `optional` existed in the file wrote it as ternary.
            let same = kind == key.kind
                || matches!((kind, key.kind), (MatchKind::Exact, MatchKind::Valid))
                || matches!((kind, key.kind), (MatchKind::Optional, MatchKind::Ternary));
            if !same {
                return Err(refuse(place, format!("it is {kind:?}, in the program {:?}", key.kind)));
            }
            refuse_strings(info, field.type_name.as_ref().map(|t| t.name.as_str()), &place)?;
            fields.push(FieldIndex {
                id: field.id,
                name: field.name.clone(),
                kind,
                width: width_of(&place, field.bitwidth, key.width, field.type_name.is_some())?,
                validity: key.kind == MatchKind::Valid,
            });
        }
        let actions = self.actions_of(&place, table, &of_program.actions)?;
        let profile = match (table.implementation_id, of_program.source) {
            (0, TableActions::Direct) => None,
            (0, TableActions::Profile(_)) => {
                return Err(refuse(place, "in the program it has an action profile"));
            }
            (_, TableActions::Direct) => {
                return Err(refuse(place, "in the program it has no action profile"));
            }
            (id, TableActions::Profile(_)) => Some(id),
        };
        let is_meter =
            |id: &u32| info.direct_meters.iter().any(|m| m.preamble.as_ref().is_some_and(|p| p.id == *id));
        let is_counter =
            |id: &u32| info.direct_counters.iter().any(|c| c.preamble.as_ref().is_some_and(|p| p.id == *id));
        let meter = table.direct_resource_ids.iter().copied().find(is_meter);
        if meter.is_some() && of_program.meter.is_none() {
            return Err(refuse(place, "in the program it has no direct meter"));
        }
        let counter = table.direct_resource_ids.iter().any(is_counter);
        if counter && of_program.counter.is_none() {
            return Err(refuse(place, "in the program it has no direct counter"));
        }
        let needs_priority = fields
            .iter()
            .any(|f| matches!(f.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
        let entry = TableIndex {
            id: pre.id,
            name: pre.name.clone(),
            table: TableId::from(at),
            fields,
            actions,
            const_default: table.const_default_action_id != 0 || of_program.default_action_const,
            needs_priority,
            profile,
            counter: of_program.counter.filter(|_| counter),
            meter,
            idle: table.idle_timeout_behavior == 1 && of_program.support_timeout,
            is_const: table.is_const_table || of_program.immutable,
            initial: of_program.entries.iter().map(|entry| entry.priority).max().unwrap_or(0),
        };
        self.by_table.insert(entry.table, self.tables.all.len());
        self.tables.add(pre.id, &pre.name, entry)
    }

    fn actions_of(
        &self,
        place: &str,
        table: &TableInfo,
        of_program: &[ActionId],
    ) -> Result<Vec<ActionOf>, IndexError> {
        let mut actions = Vec::new();
        for reference in &table.action_refs {
            let Some(action) = self.actions.get(reference.id) else {
                return Err(refuse(
                    place,
                    format!("it refers to action {}, which is not there", reference.id),
                ));
            };
            // Not there: optimised away, so that nobody can use it.
            let found = of_program.iter().find(|a| self.program.actions[a.at()].name == action.name);
            let scope = ActionScope::try_from(reference.scope).unwrap_or(ActionScope::TableAndDefault);
            actions.extend(found.map(|&program| ActionOf { id: reference.id, action: program, scope }));
        }
        Ok(actions)
    }

    fn add_profiles(&mut self, info: &P4Info) -> Result<(), IndexError> {
        use super::message::SelectorSizeSemantics::SumOfMembers;
        for profile in &info.action_profiles {
            let pre = preamble(&profile.preamble, "action profile")?;
            let place = format!("action profile '{}'", pre.name);
            // A table's own (`implementation` written in place) has no name that both sides know: by its table.
            let of_table = self.tables.iter().find(|table| table.profile == Some(pre.id));
            let names = self.program.profiles.iter().map(|p| p.name.as_str());
            let id = match of_table.map(|table| self.program.tables[table.table.at()].source) {
                Some(TableActions::Profile(id)) => id,
                _ => ProfileId::from(find(&pre.name, "action profile", names)?),
            };
            if profile.with_selector != self.program.profiles[id.at()].selector.is_some() {
                return Err(refuse(place, "it and the program disagree whether it has a selector"));
            }
            let mut actions: Vec<ActionOf> = Vec::new();
            for table in self.tables.iter().filter(|table| table.profile == Some(pre.id)) {
                for action in table.actions.iter().filter(|a| a.scope != ActionScope::DefaultOnly) {
                    if !actions.iter().any(|other| other.id == action.id) {
                        actions.push(*action);
                    }
                }
            }
            let entry = ProfileIndex {
                id: pre.id,
                name: pre.name.clone(),
                profile: id,
                selector: profile.with_selector,
                max_group_size: u32::try_from(profile.max_group_size).unwrap_or(0),
                member_weight: match profile.selector_size_semantics {
                    Some(SumOfMembers(ref members)) => {
                        Some(u32::try_from(members.max_member_weight).unwrap_or(0))
                    }
                    _ => None,
                },
                size: self.program.profiles[id.at()].max_size,
                actions,
            };
            self.profiles.add(pre.id, &pre.name, entry)?;
        }
        match self.tables.iter().find(|t| t.profile.is_some_and(|id| self.profiles.get(id).is_none())) {
            Some(table) => Err(refuse(format!("table '{}'", table.name), "its action profile is not there")),
            None => Ok(()),
        }
    }

    fn add_value_sets(&mut self, info: &P4Info) -> Result<(), IndexError> {
        for set in &info.value_sets {
            let pre = preamble(&set.preamble, "value set")?;
            let at = find(&pre.name, "value set", self.program.value_sets.iter().map(|v| v.name.as_str()))?;
            let of_program = &self.program.value_sets[at];
            let place = format!("value set '{}'", pre.name);
            if of_program.widths.len() != set.r#match.len() {
                let message = format!(
                    "its values have {} parts, in the program {}",
                    set.r#match.len(),
                    of_program.widths.len()
                );
                return Err(refuse(place, message));
            }
            let mut fields = Vec::new();
            for (field, &width) in set.r#match.iter().zip(&of_program.widths) {
                let place = format!("{place}, field {}", field.id);
                let kind = match_kind(&field.r#match)
                    .ok_or_else(|| refuse(&place, "its match kind is not known"))?;
                let width = width_of(&place, field.bitwidth, width, field.type_name.is_some())?;
                fields.push(FieldIndex {
                    id: field.id,
                    name: field.name.clone(),
                    kind,
                    width,
                    validity: false,
                });
            }
            let entry = ValueSetIndex {
                id: pre.id,
                name: pre.name.clone(),
                set: ValueSetId::from(at),
                size: u32::try_from(set.size).unwrap_or(0),
                fields,
            };
            self.value_sets.add(pre.id, &pre.name, entry)?;
        }
        Ok(())
    }
}

fn match_kind(kind: &Option<MatchFieldKind>) -> Option<MatchKind> {
    let Some(MatchFieldKind::MatchType(number)) = kind else { return None };
    match MatchType::try_from(*number).ok()? {
        MatchType::Unspecified => None,
        MatchType::Exact => Some(MatchKind::Exact),
        MatchType::Lpm => Some(MatchKind::Lpm),
        MatchType::Ternary => Some(MatchKind::Ternary),
        MatchType::Range => Some(MatchKind::Range),
        MatchType::Optional => Some(MatchKind::Optional),
    }
}

fn meter_index(program: &Program, pre: &Preamble, kind: i32) -> Result<MeterIndex, IndexError> {
    let at = find(&pre.name, "meter", program.meters.iter().map(|m| m.name.as_str()))?;
    let array = &program.meters[at];
    Ok(MeterIndex {
        id: pre.id,
        name: pre.name.clone(),
        meter: MeterId::from(at),
        kind: MeterType::try_from(kind).unwrap_or(MeterType::TwoRateThreeColor),
        unit: array.unit,
        size: array.size,
    })
}

/// Controllers that translate a type to strings cannot be understood: nobody told the switch which string is what.
fn refuse_strings(info: &P4Info, type_name: Option<&str>, place: &str) -> Result<(), IndexError> {
    use super::types::NewTypeRepresentation::TranslatedType;
    let new_types = info.type_info.as_ref().map(|types| &types.new_types);
    let found = type_name.and_then(|name| new_types.and_then(|types| types.get(name)));
    match found.and_then(|new_type| new_type.representation.as_ref()) {
        Some(TranslatedType(translation)) if matches!(translation.sdn_type, Some(SdnType::SdnString(_))) => {
            Err(refuse(place, "its type is translated to strings, which the switch has no table for"))
        }
        _ => Ok(()),
    }
}

fn packet_header(
    info: &P4Info,
    pre: &Preamble,
    header: &ControllerPacketMetadata,
) -> Result<PacketHeader, IndexError> {
    let mut fields: Vec<ParamIndex> = Vec::new();
    for field in &header.metadata {
        let place = format!("{}, field '{}'", pre.name, field.name);
        refuse_strings(info, field.type_name.as_ref().map(|t| t.name.as_str()), &place)?;
        let width = u32::try_from(field.bitwidth).ok().filter(|bits| (1..=65_536).contains(bits));
        let width = width.ok_or_else(|| refuse(&place, format!("it has {} bits", field.bitwidth)))?;
        if fields.iter().any(|other| other.id == field.id) {
            return Err(refuse(place, format!("id {} is another's already", field.id)));
        }
        fields.push(ParamIndex { id: field.id, name: field.name.clone(), width });
    }
    let bits: u64 = fields.iter().map(|field| u64::from(field.width)).sum();
    if bits > 1 << 16 {
        return Err(refuse(&pre.name, format!("it has {bits} bits")));
    }
    Ok(PacketHeader { fields, bytes: bits.div_ceil(8) as usize })
}
