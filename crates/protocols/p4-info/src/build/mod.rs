//! P4Info made from P4-16 source: ids, names, aliases and the order of everything as p4c gives them.
//!
//! ```text
//! collect   instances behind `main` -> what a controller can see, in its order; every name
//! ids       names -> ids and aliases
//! mod       objects -> messages; arch: what the architectures call them; annotate, spec: annotations and types
//! ```

mod annotate;
mod arch;
mod collect;
mod externs;
mod ids;
mod spec;

use std::collections::{BTreeSet, HashMap, HashSet};

use barewire_p4_source::ast::{
    self, Annotation, AnnotationBody, AnnotationTokenKind, DeclKind, Expr, ExprKind, NodeId, Program,
    PropertyKind,
};
use barewire_p4_source::instances::{InstanceId, Instances, external_name};
use barewire_p4_source::types::ty::{Aggregate, StructId, Type, TypeId};
use barewire_p4_source::types::value::Value;
use barewire_p4_source::types::{self, Typed};
use barewire_p4_source::{Diagnostic, Diagnostics, Span};

use crate::message::{
    ActionInfo, ActionRef, ActionScope, ControllerPacketMetadata, IdleTimeoutBehavior, MatchField,
    MatchFieldKind, MatchType, P4Info, PacketMetadataInfo, ParamInfo, PkgInfo, PlatformProperties,
    TableActionArgument, TableActionCall, TableInfo, ValueSetInfo,
};
use annotate::{notes, part_ids, preamble};
use arch::{Arch, Property};
use collect::{ActionAt, TableAt, Turn};
use ids::{Kind, Symbols};
use spec::{Specs, plain};

/// Entries of a table that says no size.
const TABLE_SIZE: i64 = 1024;

/// The P4Info of a program that [`types::check`] has accepted. What P4Info cannot tell is reported, with its place.
#[must_use]
pub fn from_source<'a>(program: &'a Program, typed: &Typed<'a>, diagnostics: &mut Diagnostics) -> P4Info {
    let mut fail = |text: String, help: &str| {
        let span = typed.main.map_or(Span::NONE, |main| typed.symbol(main).span);
        diagnostics.push(Diagnostic::error(types::code::MODEL, span, text).help(help));
        P4Info::default()
    };
    // Nothing is instantiated, so nothing can be seen.
    let Some(name) = types::architecture(typed) else { return P4Info::default() };
    let Some(arch) = Arch::of(name) else {
        let text = match name {
            "other" => "P4Info is not defined for this architecture".to_owned(),
            name => format!("P4Info is not defined for {name}"),
        };
        return fail(text, "it is for v1model, psa, pna and ubpf");
    };
    let instances = match Instances::of(program, typed) {
        Ok(instances) => instances,
        Err(error) => {
            return fail(error.to_string(), "instantiate less in controls that are instantiated often");
        }
    };
    let mut builder = Builder {
        instances: &instances,
        arch,
        symbols: Symbols::default(),
        specs: Specs { instances: &instances, info: None, depth: 0, bound: Vec::new() },
        out: P4Info::default(),
        problems: Vec::new(),
        profile_tables: HashMap::new(),
        digests: HashMap::new(),
        told: HashSet::new(),
    };
    let turns = collect::turns(&instances);
    builder.symbols(&turns);
    for turn in &turns {
        builder.turn(turn);
    }
    for id in builder.controller_headers() {
        builder.controller_header(id);
    }
    builder.package(name);
    builder.out.type_info = builder.specs.info.take();
    for problem in builder.problems {
        diagnostics.push(problem);
    }
    builder.out
}

struct Builder<'i, 'a, 't> {
    instances: &'i Instances<'a, 't>,
    arch: Arch,
    symbols: Symbols,
    specs: Specs<'i, 'a, 't>,
    out: P4Info,
    problems: Vec<Diagnostic>,
    /// The names of the tables of each action profile.
    profile_tables: HashMap<String, BTreeSet<String>>,
    /// Names of digests whose type has none, by the call.
    digests: HashMap<NodeId, String>,
    /// Ids of actions and digests that are told already.
    told: HashSet<u32>,
}

fn hidden(annotations: &[Annotation]) -> bool {
    ast::annotation(annotations, "hidden").is_some()
}

impl<'a> Builder<'_, 'a, '_> {
    fn turn(&mut self, turn: &Turn<'a>) {
        match turn {
            Turn::Control { actions, calls } => {
                for at in actions {
                    self.action(*at);
                }
                for (within, call) in calls {
                    if self.arch == Arch::V1Model && self.is_extern_call(call) {
                        self.specs.open();
                    }
                    if let Some(ty) = self.digest_type(call) {
                        let name = self.digest_name(call, ty);
                        self.digest(*within, name, ty, annotate::Notes::default());
                    }
                }
            }
            Turn::Parser(sets) => {
                for (within, decl) in sets {
                    self.value_set(*within, decl);
                }
            }
            Turn::Table(at) => self.table(*at),
            Turn::Extern(id) => self.extern_instance(*id),
        }
    }

    fn digest_name(&mut self, call: &Expr, ty: TypeId) -> String {
        match self.instances.typed.types.get(ty) {
            Type::Struct(id, _) => {
                let info = &self.instances.typed.structs[id.index()];
                plain(external_name(&info.decl.annotations, &info.name))
            }
            _ => {
                let next = format!("digest_{}", self.digests.len());
                self.digests.entry(call.id).or_insert(next).clone()
            }
        }
    }

    fn problem(&mut self, span: Span, text: String, help: &str) {
        self.problems.push(Diagnostic::error(types::code::UNSUPPORTED, span, text).help(help));
    }

    fn action(&mut self, at: ActionAt) {
        let info = &self.instances.typed.functions[at.action.index()];
        if hidden(info.annotations) {
            return;
        }
        let name = match at.within {
            Some(within) => self.action_name(within, at.action),
            None => plain(external_name(info.annotations, &info.name)),
        };
        let id = self.symbols.id(Kind::Action, &name);
        if !self.told.insert(id) {
            return;
        }
        let alias = self.symbols.alias(&name);
        let notes_of = notes(self.instances, info.annotations, &|_| false);
        let given: Vec<_> =
            info.params.iter().filter(|param| !at.bare && param.direction == ast::Direction::None).collect();
        let ids = part_ids(given.iter().map(|param| &param.decl.annotations[..]));
        let mut params = Vec::new();
        for (param, id) in given.iter().zip(ids) {
            let ty = self.instances.type_in(at.within, param.ty);
            let fits = matches!(
                self.instances.typed.types.get(ty),
                Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::Newtype(_) | Type::Enum(_)
            );
            if !fits {
                let shown = self.instances.typed.show(ty);
                self.problem(
                    param.decl.span,
                    format!("a controller cannot give a parameter of type `{shown}`"),
                    "parameters from the control plane are bit<W>, int<W>, bool, enum or a `type`",
                );
            }
            self.specs.spec(at.within, ty);
            let of = notes(self.instances, &param.decl.annotations, &|_| false);
            params.push(ParamInfo {
                id,
                name: plain(external_name(&param.decl.annotations, &param.name)),
                annotations: of.texts,
                annotation_locations: Vec::new(),
                bitwidth: self.specs.width(ty) as i32,
                doc: of.doc,
                type_name: self.specs.type_name(ty).or_else(|| self.specs.enum_type_name(ty)),
                structured_annotations: of.structured,
            });
        }
        self.out.actions.push(ActionInfo { preamble: Some(preamble(id, name, alias, notes_of)), params });
    }

    fn table(&mut self, at: TableAt<'a>) {
        if hidden(&at.decl.annotations) {
            return;
        }
        self.specs.open();
        let typed = self.instances.typed;
        let info = &typed.tables[at.table.index()];
        let name = self.table_name(at);
        let id = self.symbols.id(Kind::Table, &name);
        if self.out.tables.iter().any(|other| other.preamble.as_ref().is_some_and(|p| p.name == name)) {
            self.problems.push(
                Diagnostic::error(
                    types::code::DUPLICATE,
                    at.decl.span,
                    format!("two tables are called `{name}`"),
                )
                .help("`@name` gives one of them another name"),
            );
        }
        let mut table = TableInfo {
            preamble: Some(preamble(
                id,
                name.clone(),
                self.symbols.alias(&name),
                notes(self.instances, &at.decl.annotations, &|_| false),
            )),
            size: TABLE_SIZE,
            ..TableInfo::default()
        };
        let DeclKind::Table(it) = &at.decl.kind else { return };
        for property in &it.properties {
            match (&property.kind, property.name.as_str()) {
                (PropertyKind::Value(value), "size") => {
                    let size = self.instances.value(Some(at.within), value).and_then(|value| value.as_u32());
                    table.size = size.filter(|&size| size > 0).map_or(TABLE_SIZE, i64::from);
                }
                (PropertyKind::Entries(entries), _) => {
                    table.is_const_table = property.is_const;
                    table.has_initial_entries = !entries.is_empty();
                }
                (PropertyKind::Value(value), name)
                    if self.arch.property(name) == Some(Property::Ageing) && self.ages(at.within, value) =>
                {
                    table.idle_timeout_behavior = IdleTimeoutBehavior::NotifyControl as i32;
                }
                _ => {}
            }
        }
        self.match_fields(at, &mut table);
        if let Some((action, call)) = info.default_action {
            let id = self.symbols.id(Kind::Action, &self.action_name(at.within, action));
            if info.default_is_const {
                table.const_default_action_id = id;
            }
            let arguments = self.default_arguments(at, action, call);
            table.initial_default_action = Some(TableActionCall { action_id: id, arguments });
        }
        for action in &info.actions {
            let id = self.symbols.id(Kind::Action, &self.action_name(at.within, action.action));
            let mut reference = ActionRef { id, ..ActionRef::default() };
            match action.listed {
                Some(listed) => {
                    let of = notes(self.instances, &listed.annotations, &|_| false);
                    reference.annotations = of.texts;
                    reference.structured_annotations = of.structured;
                    if ast::annotation(&listed.annotations, "tableonly").is_some() {
                        reference.scope = ActionScope::TableOnly as i32;
                    } else if ast::annotation(&listed.annotations, "defaultonly").is_some() {
                        reference.scope = ActionScope::DefaultOnly as i32;
                    }
                }
                None => {
                    reference.annotations.push("@defaultonly".to_owned());
                    reference.scope = ActionScope::DefaultOnly as i32;
                }
            }
            table.action_refs.push(reference);
        }
        self.table_externs(at, &name, &mut table);
        self.out.tables.push(table);
    }

    fn ages(&self, within: InstanceId, value: &'a Expr) -> bool {
        match self.instances.value(Some(within), value) {
            Some(Value::Bool(ages)) => ages,
            Some(Value::Enum(of, at)) => {
                let members = &self.instances.typed.enums[of.index()].members;
                members.get(at as usize).is_some_and(|(name, _)| &**name == "NOTIFY_CONTROL")
            }
            _ => false,
        }
    }

    fn default_arguments(
        &mut self,
        at: TableAt<'a>,
        action: types::ty::FnId,
        call: Option<&'a Expr>,
    ) -> Vec<TableActionArgument> {
        let Some(Expr { kind: ExprKind::Call(call), .. }) = call else { return Vec::new() };
        let params: Vec<_> = self.instances.typed.functions[action.index()]
            .params
            .iter()
            .filter(|param| param.direction == ast::Direction::None)
            .collect();
        let first = self.instances.typed.functions[action.index()].params.len() - params.len();
        let mut arguments = Vec::new();
        for (place, arg) in call.args.iter().skip(first).enumerate() {
            let place = match &arg.name {
                Some(name) => params.iter().position(|param| param.name == name.name).unwrap_or(place),
                None => place,
            };
            let Some(param) = params.get(place) else { continue };
            let ty = self.instances.type_in(Some(at.within), param.ty);
            let value = self.instances.value(Some(at.within), &arg.value);
            let bytes = value.and_then(|value| self.specs.value_bytes(&value, ty));
            let Some(value) = bytes else {
                self.problem(
                    arg.span,
                    "P4Info has no form for this argument".to_owned(),
                    "it has to be a number that is not negative, a bool, or a member of an enum with numbers",
                );
                continue;
            };
            let param_id = annotate::id(&param.decl.annotations).unwrap_or(place as u32 + 1);
            arguments.push(TableActionArgument { param_id, value });
        }
        arguments
    }

    fn match_fields(&mut self, at: TableAt<'a>, table: &mut TableInfo) {
        let typed = self.instances.typed;
        let keys = &typed.tables[at.table.index()].keys;
        let ids = part_ids(keys.iter().map(|key| &key.element.annotations[..]));
        for (key, id) in keys.iter().zip(ids) {
            let word = key.element.match_kind.as_str();
            if word == "selector" {
                continue;
            }
            let ty = self.instances.type_in(Some(at.within), key.ty);
            let Some(name) = self.instances.key_name(key.element) else {
                self.problem(
                    key.element.expr.span,
                    "a controller has no name for this key".to_owned(),
                    "give it one: `@name(\"…\")` behind its match kind",
                );
                continue;
            };
            self.specs.spec(Some(at.within), ty);
            let of = notes(self.instances, &key.element.annotations, &|_| false);
            table.match_fields.push(MatchField {
                id,
                name: plain(name),
                annotations: of.texts,
                annotation_locations: Vec::new(),
                bitwidth: self.specs.width(ty) as i32,
                r#match: Some(match_kind(word)),
                doc: of.doc,
                type_name: self.specs.type_name(ty),
                structured_annotations: of.structured,
            });
        }
    }

    fn value_set(&mut self, within: InstanceId, decl: &'a ast::Decl) {
        let DeclKind::ValueSet(it) = &decl.kind else { return };
        let name = self.instances.qualify(Some(within), &decl.annotations, it.name.as_str());
        let id = self.symbols.id(Kind::ValueSet, &name);
        let size = self.instances.value(Some(within), &it.size).and_then(|value| value.as_u32()).unwrap_or(0);
        let mut set = ValueSetInfo {
            preamble: Some(preamble(
                id,
                name.clone(),
                self.symbols.alias(&name),
                notes(self.instances, &decl.annotations, &|_| false),
            )),
            r#match: Vec::new(),
            size: size as i32,
        };
        let typed = self.instances.typed;
        let ty = self.instances.type_in(Some(within), typed.ty(it.ty.id).unwrap_or(TypeId::ERROR));
        let exact = Some(MatchFieldKind::MatchType(MatchType::Exact as i32));
        match typed.types.get(ty) {
            Type::Bit(width) | Type::Signed(width) => set.r#match.push(MatchField {
                id: 1,
                bitwidth: *width as i32,
                r#match: exact,
                ..MatchField::default()
            }),
            Type::Struct(of, _) => {
                let fields = &typed.structs[of.index()].fields;
                let ids = part_ids(fields.iter().map(|field| &field.decl.annotations[..]));
                for (field, id) in fields.iter().zip(ids) {
                    let of = notes(self.instances, &field.decl.annotations, &|name| name == "match");
                    let kind = ast::annotation(&field.decl.annotations, "match").and_then(word);
                    set.r#match.push(MatchField {
                        id,
                        name: plain(external_name(&field.decl.annotations, &field.name)),
                        annotations: of.texts,
                        annotation_locations: Vec::new(),
                        bitwidth: self.specs.width(field.ty) as i32,
                        r#match: kind.map(match_kind).or_else(|| exact.clone()),
                        doc: of.doc,
                        type_name: None,
                        structured_annotations: of.structured,
                    });
                }
            }
            Type::Enum(of) if typed.enums[of.index()].repr.is_some() => {
                for (at, (name, _)) in typed.enums[of.index()].members.iter().enumerate() {
                    set.r#match.push(MatchField {
                        id: at as u32 + 1,
                        name: name.to_string(),
                        bitwidth: self.specs.width(ty) as i32,
                        r#match: exact.clone(),
                        ..MatchField::default()
                    });
                }
            }
            _ => {
                let shown = typed.show(ty);
                self.problem(
                    it.ty.span,
                    format!("P4Info has no value sets of `{shown}`"),
                    "members are bit<W>, a struct of bit<W>, or an enum with numbers",
                );
            }
        }
        self.out.value_sets.push(set);
    }

    fn controller_headers(&self) -> Vec<StructId> {
        let structs = self.instances.typed.structs.iter().enumerate();
        structs
            .filter(|(_, info)| {
                info.kind == Aggregate::Header
                    && ast::annotation(&info.decl.annotations, "controller_header").is_some()
                    && !hidden(&info.decl.annotations)
            })
            .map(|(at, _)| StructId(at as u32))
            .collect()
    }

    fn controller_header(&mut self, id: StructId) {
        let typed = self.instances.typed;
        let info = &typed.structs[id.index()];
        let symbol = plain(external_name(&info.decl.annotations, &info.name));
        let name = ast::annotation(&info.decl.annotations, "controller_header")
            .and_then(Annotation::string)
            .unwrap_or_else(|| symbol.clone());
        let fields = self.specs.flat(id);
        let ids = part_ids(fields.iter().map(|(_, annotations, _)| *annotations));
        let mut metadata = Vec::new();
        for ((name, annotations, ty), id) in fields.into_iter().zip(ids) {
            if hidden(annotations) {
                continue;
            }
            self.specs.spec(None, ty);
            let of = notes(self.instances, annotations, &|_| false);
            metadata.push(PacketMetadataInfo {
                id,
                name,
                annotations: of.texts,
                annotation_locations: Vec::new(),
                bitwidth: self.specs.width(ty) as i32,
                type_name: self.specs.type_name(ty),
                structured_annotations: of.structured,
            });
        }
        let of = notes(self.instances, &info.decl.annotations, &|_| false);
        self.out.controller_packet_metadata.push(ControllerPacketMetadata {
            preamble: Some(preamble(
                self.symbols.id(Kind::ControllerHeader, &symbol),
                name.clone(),
                name,
                of,
            )),
            metadata,
        });
    }

    /// The keys and values of `@pkginfo(name = "x")`, in round or square brackets.
    fn pairs(&self, note: &'a Annotation) -> Vec<(String, Value)> {
        match &note.body {
            AnnotationBody::KeyValues(list) => list
                .iter()
                .filter_map(|pair| Some((pair.key.to_string(), self.instances.value(None, &pair.value)?)))
                .collect(),
            AnnotationBody::Unstructured(tokens) => tokens
                .split(|token| token.kind == AnnotationTokenKind::Symbol && &*token.text == ",")
                .filter_map(|tokens| match tokens {
                    [key, _, value] => {
                        let value = match value.kind {
                            AnnotationTokenKind::String => Value::Str((&*value.text).into()),
                            _ => Value::int(annotate::integer(&value.text)?),
                        };
                        Some((key.text.to_string(), value))
                    }
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn package(&mut self, arch: &str) {
        let mut info = PkgInfo { arch: arch.to_owned(), ..PkgInfo::default() };
        let main = self.instances.main.map_or(&[][..], |main| self.instances.annotations(main));
        for note in main {
            for (key, value) in self.pairs(note) {
                let text = || match &value {
                    Value::Str(text) => text.to_string(),
                    _ => String::new(),
                };
                match note.name.as_str() {
                    "pkginfo" => match &*key {
                        "name" => info.name = text(),
                        "version" => info.version = text(),
                        "organization" => info.organization = text(),
                        "contact" => info.contact = text(),
                        "url" => info.url = text(),
                        "arch" => info.arch = text(),
                        _ => {}
                    },
                    "platform_property" => {
                        let platform =
                            info.platform_properties.get_or_insert_with(PlatformProperties::default);
                        let number = value.as_u32().unwrap_or(0) as i32;
                        match &*key {
                            "multicast_group_table_size" => platform.multicast_group_table_size = number,
                            "multicast_group_table_total_replicas" => {
                                platform.multicast_group_table_total_replicas = number;
                            }
                            "multicast_group_table_max_replicas_per_entry" => {
                                platform.multicast_group_table_max_replicas_per_entry = number;
                            }
                            _ => {}
                        }
                    }
                    _ => {}
                }
            }
        }
        let of = notes(self.instances, main, &|name| matches!(name, "pkginfo" | "platform_property"));
        info.annotations = of.texts;
        info.structured_annotations = of.structured;
        info.doc = of.doc;
        self.out.pkg_info = Some(info);
    }
}

/// The only word of an annotation: `@match(ternary)`.
fn word(note: &Annotation) -> Option<&str> {
    match &note.body {
        AnnotationBody::Unstructured(tokens) => match &tokens[..] {
            [token] => Some(&token.text),
            _ => None,
        },
        _ => None,
    }
}

fn match_kind(word: &str) -> MatchFieldKind {
    MatchFieldKind::MatchType(match word {
        "exact" => MatchType::Exact,
        "lpm" => MatchType::Lpm,
        "ternary" => MatchType::Ternary,
        "range" => MatchType::Range,
        "optional" => MatchType::Optional,
        other => return MatchFieldKind::OtherMatchType(other.to_owned()),
    } as i32)
}
