//! Pipelines: tables, action profiles, conditions, direct action calls, and what follows what.

use super::constant::hex_unsigned;
use super::error::{Fault, Problem, Result, nearest};
use super::expr::{Context, FieldOrValid, Value};
use super::json::{Json, Kind};
use super::names::{Numbers, Scope};
use super::{Importer, MAX_ARRAY_SIZE, MAX_FIELDS};
use barewire_p4::ir::{
    ActionId, ActionProfile, CounterArray, CounterId, Expr, HeaderRef, KeyField, KeySource, MatchKind,
    NextNode, Node, NodeId, Pipeline, ProfileId, Selector, Table, TableActions, TableId, TableKind,
};
use num_bigint::BigUint;
use std::collections::{HashMap, HashSet};

/// The match kinds' names.
const MATCH_KINDS: [(&str, MatchKind); 6] = [
    ("exact", MatchKind::Exact),
    ("valid", MatchKind::Valid),
    ("lpm", MatchKind::Lpm),
    ("ternary", MatchKind::Ternary),
    ("range", MatchKind::Range),
    ("optional", MatchKind::Optional),
];

/// Marks a ternary key that is optional in the source. bmv2 knows no optional keys, and passes over members it does not know.
pub(crate) const OPTIONAL_KEY: &str = "optional";

pub(super) fn match_kind(at: &Json<'_>) -> Result<MatchKind> {
    let name = at.str()?;
    match MATCH_KINDS.iter().find(|(n, _)| *n == name) {
        Some((_, kind)) => Ok(*kind),
        None => {
            let nearest = nearest(name, MATCH_KINDS.iter().map(|(n, _)| *n));
            Err(Fault::new(at, Problem::Unknown { kind: "match type", name: name.into(), nearest }))
        }
    }
}

/// What all pipelines share while they are read.
struct Shared {
    tables: Scope<TableId>,
    nodes: Scope<()>,
    /// Where each direct counter array is bound to, by the table's name.
    counters: HashMap<String, CounterId>,
}

impl Importer {
    pub(super) fn pipelines(&mut self, root: &Json<'_>) -> Result<()> {
        let mut counters = HashMap::new();
        for (index, item) in root.list("counter_arrays")?.iter().enumerate() {
            if item.flag("is_direct", false)?
                && let Some(table) = item.get("binding")
            {
                let table = table.str()?.to_owned();
                if counters.insert(table.clone(), CounterId::from(index)).is_some() {
                    let problem = Problem::Duplicate { kind: "direct counter of table", name: table };
                    return Err(Fault::new(item, problem));
                }
            }
        }
        let mut shared = Shared { tables: Scope::new("table"), nodes: Scope::new("control node"), counters };
        let (mut ids, mut names) = (Numbers::new("pipeline number"), Scope::new("pipeline"));
        for item in root.list("pipelines")? {
            ids.add(item, ())?;
            names.add(item, item.need_str("name")?, ())?;
            self.profiles(item)?;
            let pipeline = self.pipeline(item, &mut shared)?;
            self.program.pipelines.push(pipeline);
        }
        Ok(())
    }

    fn profiles(&mut self, pipeline: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("action profile number");
        for item in pipeline.list("action_profiles")? {
            let number = ids.add(item, ())?;
            let max_size = match item.get("max_size") {
                Some(size) => size.count("an action profile's size", MAX_ARRAY_SIZE)?,
                None => 0,
            };
            let selector = item.get("selector").map(|s| self.selector(s)).transpose()?;
            self.profile(item, item.need_str("name")?, number, max_size, selector)?;
        }
        Ok(())
    }

    fn profile(
        &mut self,
        at: &Json<'_>,
        name: &str,
        id: u32,
        max_size: u32,
        selector: Option<Selector>,
    ) -> Result<ProfileId> {
        let profile = ProfileId::from(self.program.profiles.len());
        self.names.profiles.add(at, name, profile)?;
        self.program.profiles.push(ActionProfile { name: name.to_owned(), id, max_size, selector });
        Ok(profile)
    }

    fn selector(&mut self, item: &Json<'_>) -> Result<Selector> {
        let algorithm = self.hash(item.need("algo")?)?;
        Ok(Selector { algorithm, input: self.inputs(item.list("input")?)? })
    }

    fn pipeline(&mut self, item: &Json<'_>, shared: &mut Shared) -> Result<Pipeline> {
        let (tables, conditionals) = (item.list("tables")?, item.list("conditionals")?);
        let calls = item.list("action_calls")?;
        let mut nodes: Scope<NodeId> = Scope::new("control node");
        for (index, node) in tables.iter().chain(conditionals).chain(calls).enumerate() {
            let name = node.need_str("name")?;
            nodes.add(node, name, NodeId::from(index))?;
            shared.nodes.add(node, name, ())?;
        }
        let mut list = Vec::with_capacity(tables.len() + conditionals.len() + calls.len());
        let mut ids = Numbers::new("table number");
        for table in tables {
            list.push(self.table_node(table, &mut ids, &nodes, shared)?);
        }
        let next = |at: Option<&Json<'_>>| at.map(|at| nodes.at(at)).transpose();
        let mut ids = Numbers::new("condition number");
        for condition in conditionals {
            ids.add(condition, ())?;
            if condition.member("true_next").is_none() && condition.member("false_next").is_none() {
                return Fault::invalid(condition, "a condition needs 'true_next' or 'false_next'");
            }
            list.push(Node::If {
                name: condition.need_str("name")?.to_owned(),
                condition: self.truth(condition.need("expression")?, &Context::default())?,
                then: next(condition.get("true_next"))?,
                otherwise: next(condition.get("false_next"))?,
            });
        }
        let mut ids = Numbers::new("action call number");
        for call in calls {
            ids.add(call, ())?;
            let at = call.need("action_id")?;
            let action = self.names.actions.at(at)?;
            let params = self.program.actions[action.at()].params.len();
            if params > 0 {
                return Fault::count(at, "parameters of an action called directly", "0", params);
            }
            let name = call.need_str("name")?.to_owned();
            list.push(Node::Call { name, action, next: next(call.get("next_node"))? });
        }
        let start = next(item.get("init_table"))?;
        let pipeline = Pipeline { name: item.need_str("name")?.to_owned(), start, nodes: list };
        if let Some(at) = pipeline.cycle() {
            let node = tables.iter().chain(conditionals).chain(calls).nth(at.at()).unwrap_or(item);
            let name = node.need_str("name")?.to_owned();
            return Err(Fault::new(node, Problem::Cycle(name)));
        }
        Ok(pipeline)
    }

    fn key_field(&mut self, item: &Json<'_>) -> Result<KeyField> {
        let mut kind = match_kind(item.need("match_type")?)?;
        if kind == MatchKind::Ternary && item.get(OPTIONAL_KEY).map_or(Ok(false), Json::bool)? {
            kind = MatchKind::Optional;
        }
        let target = item.need("target")?;
        let valid_name = |importer: &Importer, header: &HeaderRef| match header {
            HeaderRef::Header(id) => importer.program.headers[id.at()].name.clone(),
            _ => String::from("$valid$"),
        };
        let (source, default_name) = match &target.kind {
            // P4_14's `valid`: the header's name alone.
            Kind::Str(_) if kind == MatchKind::Valid => {
                let header: HeaderRef = self.names.headers.at(target)?.into();
                (KeySource::Valid(header.clone()), valid_name(self, &header))
            }
            // p4c writes computed keys (an element of a stack at an index) as an operand.
            Kind::Object(_) => match self.value(target, &Context::default(), 0)? {
                Value::Int(Expr::Field(field)) => (KeySource::Field(field), String::from("key")),
                Value::Header(header) if kind == MatchKind::Valid => {
                    (KeySource::Valid(header.clone()), valid_name(self, &header))
                }
                Value::Int(Expr::Unary(barewire_p4::ir::UnaryOp::BoolToInt, inner))
                    if matches!(*inner, Expr::Valid(_)) =>
                {
                    let Expr::Valid(header) = *inner else { return Fault::invalid(target, "no key") };
                    (KeySource::Valid(header.clone()), valid_name(self, &header))
                }
                _ => {
                    let reason = "a key is a field or a header's validity";
                    return Fault::unsupported(target, "an expression as key", reason);
                }
            },
            _ => {
                let [header, field] = target.tuple::<2>("a key's target (header, field)")?;
                let name = format!("{}.{}", header.str()?, field.str()?);
                match self.field_or_valid(target)? {
                    FieldOrValid::Field(field) => (KeySource::Field(field), name),
                    FieldOrValid::Valid(header) => (KeySource::Valid(header), name),
                }
            }
        };
        let width = match &source {
            KeySource::Valid(_) => 1,
            KeySource::Field(_) if kind == MatchKind::Valid => {
                return Fault::value(target, "match type 'valid' wants a header");
            }
            KeySource::Field(field) if self.is_varbit(field) => {
                return Fault::unsupported(target, "a varbit field as key", "its width is not known");
            }
            KeySource::Field(field) => self.width_of(field),
        };
        let mask = match item.get("mask") {
            Some(mask) => {
                let all = (BigUint::from(1_u8) << width) - 1_u8;
                let value = hex_unsigned(mask)? & &all;
                (value != all).then_some(value)
            }
            None => None,
        };
        let name = match item.get("name") {
            Some(name) => name.str()?.to_owned(),
            None => default_name,
        };
        Ok(KeyField { name, kind, source, width, mask })
    }

    fn table_kind(&self, item: &Json<'_>, key: &[KeyField]) -> Result<TableKind> {
        let at = item.need("match_type")?;
        let declared = match match_kind(at)? {
            MatchKind::Exact | MatchKind::Valid => TableKind::Exact,
            MatchKind::Lpm => TableKind::Lpm,
            MatchKind::Ternary | MatchKind::Optional => TableKind::Ternary,
            MatchKind::Range => TableKind::Range,
        };
        let lpms = key.iter().filter(|field| field.kind == MatchKind::Lpm).count();
        if lpms > 1 {
            return Fault::count(item.need("key")?, "'lpm' fields of a key", "at most 1", lpms);
        }
        // The lookup must be able to do what the fields ask for, whatever the file calls it.
        let rank = |kind| match kind {
            TableKind::Exact => 0,
            TableKind::Lpm => 1,
            TableKind::Ternary => 2,
            TableKind::Range => 3,
        };
        let needed = key.iter().map(|field| match field.kind {
            MatchKind::Exact | MatchKind::Valid => TableKind::Exact,
            MatchKind::Lpm => TableKind::Lpm,
            MatchKind::Ternary | MatchKind::Optional => TableKind::Ternary,
            MatchKind::Range => TableKind::Range,
        });
        let needed = needed.max_by_key(|&kind| rank(kind)).unwrap_or(TableKind::Exact);
        if rank(needed) > rank(declared) {
            return Fault::value(at, format!("the key asks for a {needed:?} lookup").to_lowercase());
        }
        // A key of the LPM kind without such a field is an exact one.
        Ok(if declared == TableKind::Lpm && lpms == 0 { TableKind::Exact } else { declared })
    }

    fn table_node(
        &mut self,
        item: &Json<'_>,
        ids: &mut Numbers<()>,
        nodes: &Scope<NodeId>,
        shared: &mut Shared,
    ) -> Result<Node> {
        let id = TableId::from(self.program.tables.len());
        let number = ids.add(item, ())?;
        let name = item.need_str("name")?.to_owned();
        shared.tables.add(item, &name, id)?;

        let key_at = item.list("key")?;
        if key_at.len() > MAX_FIELDS as usize {
            let (value, limit) = (key_at.len() as u64, MAX_FIELDS.into());
            return Err(Fault::new(item, Problem::Limit { what: "fields of a key", value, limit }));
        }
        let key: Vec<KeyField> = key_at.iter().map(|field| self.key_field(field)).collect::<Result<_>>()?;
        let kind = self.table_kind(item, &key)?;
        let entries_at = item.get("entries");
        let max_size = match (item.get("max_size"), entries_at) {
            (Some(size), _) => size.count("a table's size", MAX_ARRAY_SIZE)?,
            (None, Some(entries)) => entries.items()?.len() as u32,
            (None, None) => return Err(Fault::new(item, Problem::Missing("max_size"))),
        };
        let source = self.table_source(item, &name, number, max_size)?;
        let actions = self.table_actions(item)?;
        let counter = self.direct_counter(item, &name, id, max_size, shared)?;
        let meter = self.direct_meter(item, &name, id, max_size)?;
        let next = self.next_nodes(item, &actions, nodes)?;
        let mut table = Table {
            id: number,
            source,
            counter,
            meter,
            support_timeout: item.flag("support_timeout", false)?,
            ..Table::new(name, kind, key, actions, max_size)
        };
        if let Some(default) = item.get("default_entry") {
            self.default_entry(default, &mut table)?;
        }
        if let Some(entries) = entries_at {
            if table.source != TableActions::Direct {
                return Fault::value(
                    entries,
                    "a table with an action profile cannot have entries in the program",
                );
            }
            self.entries(entries, &mut table)?;
            // bmv2 lets nobody touch a table that comes with entries.
            table.immutable = true;
            table.max_size = table.max_size.max(table.entries.len() as u32);
        }
        self.program.tables.push(table);
        Ok(Node::Table { table: id, next })
    }

    fn table_source(
        &mut self,
        item: &Json<'_>,
        name: &str,
        number: u32,
        max_size: u32,
    ) -> Result<TableActions> {
        let ty = item.need("type")?;
        let with_selector = match ty.str()? {
            "simple" => return Ok(TableActions::Direct),
            "indirect" => false,
            "indirect_ws" => true,
            other => {
                let nearest = nearest(other, ["simple", "indirect", "indirect_ws"]);
                return Err(Fault::new(
                    ty,
                    Problem::Unknown { kind: "table type", name: other.into(), nearest },
                ));
            }
        };
        let profile = match (item.get("action_profile"), item.get("act_prof_name")) {
            (Some(profile), _) => self.names.profiles.at(profile)?,
            // The older form: the table declares a profile of its own.
            (None, Some(profile)) => {
                let selector = match with_selector {
                    true => Some(self.selector(item.need("selector")?)?),
                    false => None,
                };
                self.profile(profile, profile.str()?, number, max_size, selector)?
            }
            (None, None) => {
                return Fault::invalid(item, format!("table '{name}' needs an 'action_profile'"));
            }
        };
        if with_selector && self.program.profiles[profile.at()].selector.is_none() {
            return Fault::value(
                item,
                format!("table '{name}' has groups, but its action profile has no selector"),
            );
        }
        Ok(TableActions::Profile(profile))
    }

    /// A table's actions: by number, or by name in older files.
    fn table_actions(&self, item: &Json<'_>) -> Result<Vec<ActionId>> {
        let mut actions = Vec::new();
        let mut names = HashSet::new();
        let list = match item.get("action_ids") {
            Some(ids) => ids,
            None => item.need("actions")?,
        };
        for at in list.items()? {
            let action = match &at.kind {
                Kind::Str(_) => self.names.first_action.at(at)?,
                _ => self.names.actions.at(at)?,
            };
            let name = &self.program.actions[action.at()].name;
            if !names.insert(name) {
                return Err(Fault::new(
                    at,
                    Problem::Duplicate { kind: "action of the table", name: name.clone() },
                ));
            }
            actions.push(action);
        }
        Ok(actions)
    }

    fn direct_counter(
        &mut self,
        item: &Json<'_>,
        name: &str,
        id: TableId,
        max_size: u32,
        shared: &Shared,
    ) -> Result<Option<CounterId>> {
        let bound = shared.counters.get(name).copied();
        if !item.flag("with_counters", false)? && bound.is_none() {
            return Ok(None);
        }
        self.take_state(item, u64::from(max_size) * 16)?;
        let counter = match bound {
            Some(counter) => counter,
            // A table may count without a counter of its own name.
            None => {
                let number = self.free_counter_number();
                let array = CounterArray { name: name.to_owned(), id: number, size: 0, direct: None };
                self.program.counters.push(array);
                CounterId::from(self.program.counters.len() - 1)
            }
        };
        let array = &mut self.program.counters[counter.at()];
        (array.size, array.direct) = (max_size, Some(id));
        Ok(Some(counter))
    }

    fn direct_meter(
        &mut self,
        item: &Json<'_>,
        name: &str,
        id: TableId,
        max_size: u32,
    ) -> Result<Option<barewire_p4::ir::MeterId>> {
        let Some(at) = item.get("direct_meters") else { return Ok(None) };
        let meter = self.names.meters.at(at)?;
        let array = &mut self.program.meters[meter.at()];
        if array.result.is_none() {
            return Fault::value(at, format!("meter '{}' is not a direct one", array.name));
        }
        if array.direct.is_some() {
            return Fault::value(at, format!("meter '{}' belongs to a table before '{name}'", array.name));
        }
        (array.size, array.direct) = (max_size, Some(id));
        let bytes = u64::from(max_size) * (16 + 32 * u64::from(array.rate_count));
        self.take_state(item, bytes)?;
        Ok(Some(meter))
    }

    fn next_nodes(&self, item: &Json<'_>, actions: &[ActionId], nodes: &Scope<NodeId>) -> Result<NextNode> {
        let at = item.need("next_tables")?;
        let members = at.object()?;
        let by_name: HashMap<&str, &Json<'_>> = members.iter().map(|(name, next)| (&**name, next)).collect();
        let node = |at: &Json<'_>| if at.is_null() { Ok(None) } else { nodes.at(at).map(Some) };
        if by_name.contains_key("__HIT__") || by_name.contains_key("__MISS__") {
            return match (by_name.get("__HIT__"), by_name.get("__MISS__")) {
                (Some(hit), Some(miss)) if members.len() == 2 => {
                    Ok(NextNode::ByHit { hit: node(hit)?, miss: node(miss)? })
                }
                _ => Fault::invalid(at, "'__HIT__' and '__MISS__' stand together and alone"),
            };
        }
        let mut by_action = Vec::with_capacity(actions.len());
        for &action in actions {
            let name = &self.program.actions[action.at()].name;
            let Some(next) = by_name.get(name.as_str()) else {
                return Fault::invalid(at, format!("what follows action '{name}' is missing"));
            };
            by_action.push((action, node(next)?));
        }
        if members.len() != actions.len() {
            let known: HashSet<&str> =
                actions.iter().map(|a| self.program.actions[a.at()].name.as_str()).collect();
            for (name, next) in members {
                if !known.contains(&**name) {
                    let nearest = nearest(name, known.iter().copied());
                    let kind = "action of the table";
                    return Err(Fault::new(next, Problem::Unknown { kind, name: name.to_string(), nearest }));
                }
            }
        }
        let default = item.get("base_default_next").map(|at| nodes.at(at)).transpose()?;
        Ok(NextNode::ByAction { by_action, default })
    }
}
