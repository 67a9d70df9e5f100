//! Tables with their actions, keys and entries.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use barewire_p4::ir::{
    Action, ActionCall, ActionId, BinaryOp, CalcInput, Expr, FieldRef, InitialEntry, KeyField, KeySource,
    MatchKind, Param, Selector, Stmt, Table, TableActions, TableId, TableKind, UnaryOp,
};
use barewire_p4::key::MatchParam;
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, DeclKind, Direction, ExprKind, Keyset, KeysetKind, PropertyKind};
use barewire_p4_source::instances::key_name;
use barewire_p4_source::types::ty::{self, FnId, TypeId};
use barewire_p4_source::types::value;
use barewire_p4_source::types::{ArgSource, CallInfo, Callee, EntryInfo, TableInfo};
use num_bigint::{BigInt, BigUint};

use super::code::{self, Ins, Label};
use super::externs::{METER_BYTES, at_most};
use super::{Frame, Lower, Lowered, Mode, Object, Result, Val, refuse};

/// How many entries a table has that does not say (p4c's rule).
const DEFAULT_SIZE: u32 = 1024;

/// What an entry says of one key.
#[derive(Clone, Copy)]
enum Set<'a> {
    Keyset(&'a Keyset),
    /// An element of a list.
    Value(&'a ast::Expr),
}

/// What a table is looked up by.
#[derive(Default)]
struct Keys {
    key: Vec<KeyField>,
    /// Fields that are computed in front of the table, and from which of its keys.
    computed: Vec<(FieldRef, usize)>,
    /// What an action selector hashes.
    selected: Vec<CalcInput>,
}

/// How entries of these keys are found.
fn kind_of(key: &[KeyField], span: Span) -> Result<TableKind> {
    let lpms = key.iter().filter(|k| k.kind == MatchKind::Lpm).count();
    if lpms > 1 {
        return refuse(span, "several `lpm` keys in one table");
    }
    let has = |wanted: &[MatchKind]| key.iter().any(|k| wanted.contains(&k.kind));
    Ok(if has(&[MatchKind::Range]) {
        TableKind::Range
    } else if has(&[MatchKind::Ternary, MatchKind::Optional]) {
        TableKind::Ternary
    } else if lpms == 1 {
        TableKind::Lpm
    } else {
        TableKind::Exact
    })
}

/// `@priority(n)` of an entry, which the reference compiler reads: lower numbers win.
fn annotated(annotations: &[ast::Annotation]) -> Option<u32> {
    match &ast::annotation(annotations, "priority")?.body {
        ast::AnnotationBody::Unstructured(tokens) => match &tokens[..] {
            [token] => token.text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

impl<'a> Lower<'a> {
    /// Applies a table.
    pub(crate) fn table_hit(
        &mut self,
        table: ty::TableId,
        hit: Label,
        miss: Label,
        span: Span,
    ) -> Result<()> {
        let lowered = self.ready(table, span)?;
        if lowered.exits.is_none() {
            self.hit_or_miss(lowered.id, hit, miss);
            return Ok(());
        }
        let (found, lacking) = (self.label(), self.label());
        self.hit_or_miss(lowered.id, found, lacking);
        for (label, next) in [(found, hit), (lacking, miss)] {
            self.emit(Ins::Label(label));
            self.unless_exits(&lowered, next, span)?;
        }
        Ok(())
    }

    fn hit_or_miss(&mut self, table: TableId, hit: Label, miss: Label) {
        if self.mode == Mode::Pipeline {
            self.emit(Ins::Hit { table, hit, miss });
            return;
        }
        if hit == miss {
            self.stmt_out(Stmt::Apply { table, hit: None, ran: None });
        } else {
            let found = self.temp("hit", 1, false);
            self.stmt_out(Stmt::Apply { table, hit: Some(found.clone()), ran: None });
            self.emit(Ins::Unless(super::ops::to_truth(Expr::Field(found)), miss));
        }
        self.emit(Ins::Jump(hit));
    }

    /// Goes on by the action that the table runs.
    pub(crate) fn by_action(&mut self, table: TableId, cases: Vec<(ActionId, Label)>, other: Label) {
        if self.mode == Mode::Pipeline {
            self.emit(Ins::Run { table, cases, other });
            return;
        }
        let ran = self.temp("ran", 32, false);
        self.stmt_out(Stmt::Apply { table, hit: None, ran: Some(ran.clone()) });
        for (action, label) in cases {
            let other = super::ops::int(u64::from(action.0) + 1);
            let differs = super::ops::binary(BinaryOp::Ne, Expr::Field(ran.clone()), other);
            self.emit(Ins::Unless(differs, label));
        }
        self.emit(Ins::Jump(other));
    }

    /// The table, with the keys that are computed in front of it.
    pub(crate) fn ready(&mut self, table: ty::TableId, span: Span) -> Result<Rc<Lowered>> {
        if self.mode != Mode::Pipeline && !self.looping {
            return refuse(span, "a table is applied in a control");
        }
        let key = (self.here, table);
        let lowered = match self.tables.get(&key) {
            Some(lowered) => Rc::clone(lowered),
            None => {
                let lowered = Rc::new(self.table(table, span)?);
                self.tables.insert(key, Rc::clone(&lowered));
                lowered
            }
        };
        let info = &self.t.tables[table.index()];
        for (field, at) in &lowered.computed {
            let expr = &info.keys[*at].element.expr;
            let (val, ty) = self.value(expr)?;
            self.assign(&Val::Field(field.clone()), &val, ty, expr.span)?;
        }
        if let Some(flag) = &lowered.exits {
            self.assign(&Val::Field(flag.clone()), &Val::Num(super::ops::int(0)), TypeId::BOOL, span)?;
        }
        Ok(lowered)
    }

    fn property(&self, decl: &'a ast::Decl, name: &str) -> Option<&'a ast::Property> {
        match &decl.kind {
            DeclKind::Table(table) => table.properties.iter().find(|p| &p.name == name),
            _ => None,
        }
    }

    fn property_value(&mut self, decl: &'a ast::Decl, name: &str) -> Result<Option<Val>> {
        let Some(property) = self.property(decl, name) else { return Ok(None) };
        let PropertyKind::Value(expr) = &property.kind else { return Ok(None) };
        // An instance that is made here has the whole name that the property's `@name` says.
        if let Some(given) = ast::annotation(&property.annotations, "name").and_then(ast::Annotation::string)
            && let (ExprKind::Call(call), Some(info)) = (&expr.kind, self.t.calls.get(&expr.id))
            && let Callee::Constructor(_) = info.callee
        {
            let name = format!(".{}", given.trim_start_matches('.'));
            return self.construct(info, &call.args, Some((&name, &[])), expr.id, expr.span).map(Some);
        }
        Ok(Some(self.value(expr)?.0))
    }

    fn table(&mut self, id: ty::TableId, span: Span) -> Result<Lowered> {
        let info = &self.t.tables[id.index()];
        let decl = info.decl;
        let Keys { key, computed, selected } = self.keys(info)?;
        let kind = kind_of(&key, span)?;

        let mut actions: Vec<(FnId, ActionId)> = Vec::new();
        let copies = self.frames.iter().any(|frame| !frame.copies.is_empty());
        let around = std::mem::replace(&mut self.exits, copies.then_some(None));
        for action in &info.actions {
            if actions.iter().all(|(known, _)| *known != action.action) {
                let id = self.table_action(action.action, action.listed, span)?;
                actions.push((action.action, id));
            }
        }
        let exits = std::mem::replace(&mut self.exits, around).flatten();
        // Two applications of one control by its type are told apart.
        let mut name = self.control_name(&info.name, &decl.annotations);
        if self.program.tables.iter().any(|table| table.name == name) {
            self.names.entry(name.clone()).or_insert(1);
            name = self.unique(&name);
        }
        let size = self.size_of(info, span)?;
        let source = self.implementation(decl, selected, span)?;
        let id = TableId::from(self.program.tables.len());
        let mut table = Table {
            id: id.0,
            source,
            default_action_const: info.default_is_const,
            // The behavioral model lets nobody change a table that comes with entries, be they none.
            immutable: self.property(decl, "entries").is_some(),
            ..Table::new(name, kind, key, actions.iter().map(|(_, id)| *id).collect(), size)
        };
        if let Some(Val::Truth(Expr::Bool(true))) = self.property_value(decl, "support_timeout")? {
            table.support_timeout = true;
        }
        self.default_action(info, &actions, &mut table, span)?;
        let smallest = matches!(
            self.property_value(decl, "largest_priority_wins")?,
            Some(Val::Truth(Expr::Bool(false)))
        );
        self.entries(&info.entries, !smallest, &actions, &mut table)?;
        table.max_size = table.max_size.max(table.entries.len() as u32);
        // PSA's NOTIFY_CONTROL.
        if let Some(Val::Num(Expr::Int(mode))) = self.property_value(decl, "psa_idle_timeout")? {
            table.support_timeout = mode == BigInt::from(1);
        }
        self.direct_objects(decl, &mut table, span)?;
        self.program.tables.push(table);
        Ok(Lowered { id, actions, computed, exits })
    }

    /// What a table is looked up by.
    fn keys(&mut self, info: &'a TableInfo<'a>) -> Result<Keys> {
        let mut keys = Keys::default();
        for (at, field) in info.keys.iter().enumerate() {
            let element = field.element;
            let span = element.span;
            let kind = match element.match_kind.as_str() {
                "exact" => MatchKind::Exact,
                "lpm" => MatchKind::Lpm,
                "ternary" => MatchKind::Ternary,
                "range" => MatchKind::Range,
                "optional" => MatchKind::Optional,
                "selector" => {
                    let (val, ty) = self.value(&element.expr)?;
                    self.inputs(&val, ty, span, &mut keys.selected)?;
                    continue;
                }
                other => return refuse(span, format!("the match kind `{other}` is not one of v1model")),
            };
            let ty = self.closed(field.ty);
            let Some(shape) = self.scalar(ty) else { return refuse(span, "a key without a width") };
            if shape.width == 0 {
                return refuse(span, "a key of no bits");
            }
            // Only what is computed the same way for every packet may stand in a key as it is, and what no key behind it changes.
            let changed = info.keys[at + 1..].iter().any(|later| self.acts(&later.element.expr));
            let (val, takes_code) = if self.acts(&element.expr) {
                (Val::Nothing, false)
            } else {
                let (value, takes_code) = self.tried(&element.expr);
                (value?.0, takes_code)
            };
            let source = match (val, takes_code || changed) {
                (Val::Field(field), false) if field.fixed().is_some() => KeySource::Field(field),
                (Val::Truth(Expr::Valid(header)), false)
                    if kind != MatchKind::Lpm && kind != MatchKind::Range =>
                {
                    KeySource::Valid(header)
                }
                _ => {
                    let field = self.temp("key", shape.width, shape.signed);
                    keys.computed.push((field.clone(), at));
                    KeySource::Field(field)
                }
            };
            let name = key_name(self.t, element)
                .unwrap_or_else(|| self.map.text(element.expr.span).split_whitespace().collect::<String>());
            keys.key.push(KeyField { name, kind, source, width: shape.width, mask: None });
        }
        Ok(keys)
    }

    /// For how many entries a table has room.
    fn size_of(&self, info: &'a TableInfo<'a>, span: Span) -> Result<u32> {
        let own = self.property(info.decl, "entries");
        let count = info.entries.len() as u32;
        let asked = match info.size.as_ref().and_then(value::Value::as_int) {
            Some(size) => {
                let span = self.property(info.decl, "size").map_or(span, |property| property.span);
                Some(at_most(size, "entries", span)?)
            }
            None => None,
        };
        Ok(match asked {
            // Constant entries are all that there is room for.
            _ if count > 0 && own.is_some_and(|entries| entries.is_const) => count,
            _ if info.keys.is_empty() && info.default_is_const => DEFAULT_SIZE,
            Some(size) => size.max(count),
            None if count > 0 => count,
            None => DEFAULT_SIZE,
        })
    }

    /// Where a table's entries have their actions from. A selector takes what the table's keys select by, unless another table came first.
    fn implementation(
        &mut self,
        decl: &'a ast::Decl,
        selected: Vec<CalcInput>,
        span: Span,
    ) -> Result<TableActions> {
        let found = match self.property_value(decl, "implementation")? {
            None => self.property_value(decl, "psa_implementation")?,
            found => found,
        };
        match found {
            None => Ok(TableActions::Direct),
            Some(Val::Object(Object::Profile(profile))) => {
                if let Some(selector) = &mut self.program.profiles[profile.at()].selector
                    && selector.input.is_empty()
                {
                    *selector = Selector { algorithm: selector.algorithm, input: selected };
                }
                Ok(TableActions::Profile(profile))
            }
            Some(_) => refuse(span, "this implementation is not lowered"),
        }
    }

    /// What runs where no entry matches.
    fn default_action(
        &mut self,
        info: &'a TableInfo<'a>,
        actions: &[(FnId, ActionId)],
        table: &mut Table,
        span: Span,
    ) -> Result<()> {
        let Some((action, call)) = info.default_action else { return Ok(()) };
        let args = match call.map(|call| (&call.kind, self.t.calls.get(&call.id), call.span)) {
            Some((ExprKind::Call(call), Some(info), span)) => {
                self.entry_args(action, info, &call.args, span)?
            }
            _ => self.no_args(action, span)?,
        };
        let Some((_, id)) = actions.iter().find(|(known, _)| *known == action) else {
            return refuse(span, "the default action is not in the table");
        };
        table.default_entry_const = info.default_is_const;
        table.default = Some(ActionCall { action: *id, args });
        Ok(())
    }

    /// The counter and the meter that have an element for each entry.
    fn direct_objects(&mut self, decl: &'a ast::Decl, table: &mut Table, span: Span) -> Result<()> {
        let id = TableId(table.id);
        for property in ["counters", "meters", "psa_direct_counter", "psa_direct_meter"] {
            let Some(value) = self.property_value(decl, property)? else { continue };
            let span = self.property(decl, property).map_or(span, |property| property.span);
            let twice =
                |name: &str, what: &str| refuse(span, format!("`{name}` {what} for a table before this one"));
            let counts = property.contains("counter");
            match value {
                Val::Object(Object::Counter(counter)) if counts => {
                    let array = &mut self.program.counters[counter.at()];
                    if array.direct.is_some() {
                        return twice(&array.name, "counts");
                    }
                    (array.size, array.direct) = (table.max_size, Some(id));
                    table.counter = Some(counter);
                }
                Val::Object(Object::Meter(meter)) if !counts => {
                    let array = &mut self.program.meters[meter.at()];
                    if array.direct.is_some() {
                        return twice(&array.name, "measures");
                    }
                    (array.size, array.direct) = (table.max_size, Some(id));
                    self.keeps(u64::from(table.max_size) * METER_BYTES, span)?;
                    table.meter = Some(meter);
                }
                _ => {
                    let wanted = if counts { "counter" } else { "meter" };
                    return refuse(span, format!("`{property}` takes a direct {wanted}, and this is none"));
                }
            }
        }
        Ok(())
    }

    /// An action as a table runs it.
    fn table_action(&mut self, id: FnId, listed: Option<&'a ast::ActionRef>, span: Span) -> Result<ActionId> {
        let function = &self.t.functions[id.index()];
        let code = std::mem::take(&mut self.code);
        let mode = std::mem::replace(&mut self.mode, Mode::Action);
        let looping = std::mem::replace(&mut self.looping, false);
        let frames = std::mem::take(&mut self.frames);
        // What the table's list binds, and what the control plane gives.
        let mut args: Vec<(Val, TypeId)> =
            match listed.and_then(|l| Some((l.args.as_ref()?, self.t.calls.get(&l.id)?))) {
                Some((args, info)) => self.args(args, info, &function.params, span)?,
                None => function.params.iter().map(|_| (Val::Nothing, TypeId::VOID)).collect(),
            };
        let mut params = Vec::new();
        for (param, arg) in function.params.iter().zip(&mut args) {
            if param.direction != Direction::None {
                continue;
            }
            let ty = self.closed(param.ty);
            let Some(shape) = self.scalar(ty) else {
                return refuse(param.decl.span, "action data that is not a number");
            };
            let at = Expr::Param(params.len() as u32);
            params.push(Param { name: param.name.to_string(), width: shape.width });
            let number =
                if shape.signed { Expr::Wrap { value: Box::new(at), width: shape.width.max(1) } } else { at };
            let val = if shape.truth {
                Val::Truth(Expr::Unary(UnaryOp::IntToBool, Box::new(number)))
            } else {
                Val::Num(number)
            };
            *arg = (val, ty);
        }
        self.frames.push(Frame { leave: Label::END, result: None, copies: Vec::new() });
        self.inline(id, args, span)?;
        self.frames = frames;
        (self.mode, self.looping) = (mode, looping);
        let made = std::mem::replace(&mut self.code, code);
        self.check_once(&made)?;
        let body = code::body(&made, function.span)?;
        Ok(self.named_action(id, params, body))
    }

    /// An action by the name that control planes know.
    pub(crate) fn named_action(&mut self, id: FnId, params: Vec<Param>, body: Vec<Stmt>) -> ActionId {
        let function = &self.t.functions[id.index()];
        let within = if function.global { None } else { self.here };
        let name = self.tree.qualify(within, function.annotations, &function.name);
        let number = self.program.actions.len();
        self.program.actions.push(Action { name, id: number as u32, params, body });
        ActionId::from(number)
    }

    fn no_args(&mut self, action: FnId, span: Span) -> Result<Vec<BigUint>> {
        let missing = self.t.functions[action.index()].params.iter().any(|p| p.direction == Direction::None);
        if missing {
            return refuse(span, "the default action's arguments are missing");
        }
        Ok(Vec::new())
    }

    /// The numbers for an action's run-time parameters.
    fn entry_args(
        &mut self,
        action: FnId,
        info: &'a CallInfo,
        args: &'a [ast::Arg],
        span: Span,
    ) -> Result<Vec<BigUint>> {
        let mut out = Vec::new();
        let function = &self.t.functions[action.index()];
        for (param, source) in function.params.iter().zip(&info.args) {
            if param.direction != Direction::None {
                continue;
            }
            let expr = match source {
                ArgSource::Arg(at) => args.get(*at as usize).map(|arg| &arg.value),
                _ => param.decl.default.as_ref(),
            };
            let Some(expr) = expr else { return refuse(span, "an argument is missing") };
            let ty = self.closed(param.ty);
            let (val, from) = self.value(expr)?;
            let val = self.cast(val, from, ty, expr.span)?;
            out.push(self.bits(&val, ty, expr.span)?);
        }
        Ok(out)
    }

    /// A known value's bits.
    pub(crate) fn bits(&mut self, val: &Val, ty: TypeId, span: Span) -> Result<BigUint> {
        let Some(shape) = self.scalar(ty) else { return refuse(span, "this has no width") };
        match self.num(val, span)? {
            Expr::Int(number) => {
                Ok(value::wrap(&number, shape.width, false).to_biguint().unwrap_or_default())
            }
            _ => refuse(span, "this has to be known when the program is compiled"),
        }
    }

    fn entries(
        &mut self,
        list: &'a [EntryInfo<'a>],
        largest_wins: bool,
        actions: &[(FnId, ActionId)],
        table: &mut Table,
    ) -> Result<()> {
        if list.is_empty() {
            return Ok(());
        }
        if table.source != TableActions::Direct {
            return refuse(list[0].entry.span, "entries of a table with an action profile");
        }
        let ranked = matches!(table.kind, TableKind::Ternary | TableKind::Range);
        let stated = list.iter().any(|e| e.entry.priority.is_some());
        // In the target lower numbers win.
        let mut order: Vec<BigInt> = list.iter().filter_map(|e| e.priority.clone()).collect();
        order.sort();
        order.dedup();
        if largest_wins {
            order.reverse();
        }
        let ranks: HashMap<&BigInt, u32> = order.iter().zip(1..).collect();
        let mut known = HashSet::new();
        for (at, entry) in list.iter().enumerate() {
            let span = entry.entry.span;
            let priority = match (&entry.priority, ranked) {
                (_, false) => 0,
                (Some(priority), true) if stated => ranks.get(priority).copied().unwrap_or(at as u32 + 1),
                _ => annotated(&entry.entry.annotations).unwrap_or(at as u32 + 1),
            };
            let sets: Vec<Set<'a>> = match &entry.entry.keyset.kind {
                KeysetKind::Tuple(sets) => sets.iter().map(Set::Keyset).collect(),
                KeysetKind::Value(ast::Expr { kind: ExprKind::List { items, .. }, .. }) => {
                    items.iter().map(Set::Value).collect()
                }
                _ => vec![Set::Keyset(&entry.entry.keyset)],
            };
            let all_free = matches!(entry.entry.keyset.kind, KeysetKind::Default | KeysetKind::DontCare);
            if sets.len() != table.key.len() && !all_free {
                return refuse(span, "an entry that does not fit the key");
            }
            let mut key = Vec::new();
            for (at, field) in table.key.iter().enumerate() {
                let set = if all_free { Set::Keyset(&entry.entry.keyset) } else { sets[at] };
                key.push(self.match_param(set, field)?);
            }
            let args = match (&entry.entry.action.args, self.t.calls.get(&entry.entry.action.id)) {
                (Some(args), Some(info)) => self.entry_args(entry.action, info, args, span)?,
                _ => self.no_args(entry.action, span)?,
            };
            let Some((_, action)) = actions.iter().find(|(known, _)| *known == entry.action) else {
                return refuse(span, "the table has no such action");
            };
            // Of two that are alike the first matches: the other never would.
            if !known.insert(format!("{priority} {key:?}")) {
                continue;
            }
            table.entries.push(InitialEntry { key, call: ActionCall { action: *action, args }, priority });
        }
        Ok(())
    }

    fn known_bits(&mut self, expr: &'a ast::Expr, width: u32) -> Result<BigUint> {
        let (val, _) = self.value(expr)?;
        match self.num(&val, expr.span)? {
            Expr::Int(number) => Ok(value::wrap(&number, width, false).to_biguint().unwrap_or_default()),
            _ => refuse(expr.span, "this has to be known when the program is compiled"),
        }
    }

    fn match_param(&mut self, set: Set<'a>, field: &KeyField) -> Result<MatchParam> {
        let width = field.width;
        let all: BigUint = (BigUint::from(1_u8) << width) - 1_u8;
        let set = match set {
            Set::Value(expr) => {
                let value = self.known_bits(expr, width)?;
                return Self::matched(value, all.clone(), &all, field, expr.span);
            }
            Set::Keyset(set) => set,
        };
        let (value, mask) = match &set.kind {
            KeysetKind::Default | KeysetKind::DontCare => (BigUint::ZERO, BigUint::ZERO),
            KeysetKind::Value(expr) => (self.known_bits(expr, width)?, all.clone()),
            KeysetKind::Mask(value, mask) => {
                let (value, mask) = (self.known_bits(value, width)?, self.known_bits(mask, width)?);
                (value & &mask, mask)
            }
            KeysetKind::Range(low, high) => {
                let (low, high) = (self.known_bits(low, width)?, self.known_bits(high, width)?);
                if field.kind != MatchKind::Range {
                    return refuse(set.span, "a range for a key that is not matched by range");
                }
                return Ok(MatchParam::Range { low, high });
            }
            KeysetKind::Tuple(_) => return refuse(set.span, "an entry that does not fit the key"),
        };
        Self::matched(value, mask, &all, field, set.span)
    }

    /// A value and a mask as the match kind of a key has them.
    fn matched(
        value: BigUint,
        mask: BigUint,
        all: &BigUint,
        field: &KeyField,
        span: Span,
    ) -> Result<MatchParam> {
        Ok(match field.kind {
            MatchKind::Exact | MatchKind::Valid if mask == *all => MatchParam::Exact(value),
            MatchKind::Exact | MatchKind::Valid => return refuse(span, "an exact key wants one value"),
            MatchKind::Lpm => {
                let prefix_len = mask.count_ones() as u32;
                if mask != (all ^ (all >> prefix_len)) {
                    return refuse(span, "the mask of an `lpm` key is not a prefix");
                }
                MatchParam::Lpm { value, prefix_len }
            }
            MatchKind::Ternary | MatchKind::Optional => MatchParam::Ternary { value, mask },
            MatchKind::Range if mask == *all => MatchParam::Range { low: value.clone(), high: value },
            MatchKind::Range if mask == BigUint::ZERO => {
                MatchParam::Range { low: BigUint::ZERO, high: all.clone() }
            }
            MatchKind::Range => return refuse(span, "a mask for a key that is matched by range"),
        })
    }

    /// A field that a target's operation writes, and the place it is copied to afterwards.
    pub(crate) fn written(&mut self, place: &Val, ty: TypeId, span: Span) -> Result<(FieldRef, bool)> {
        match place {
            Val::Field(field) => Ok((field.clone(), false)),
            _ => {
                let Some(shape) = self.scalar(ty) else {
                    return refuse(span, "a result that is not a number");
                };
                Ok((self.temp("result", shape.width, shape.signed), true))
            }
        }
    }
}
