//! What of a program a controller can see, in the order of P4Info: level by level from the top, in the order of the text.

use std::collections::{HashMap, HashSet};

use barewire_p4_source::ast::{self, Annotation, Decl, DeclKind, Expr, PropertyKind};
use barewire_p4_source::diag::Diagnostic;
use barewire_p4_source::instances::{InstanceId, Instances, Object, Of, external_name};
use barewire_p4_source::types::ty::{FnId, TableId, TypeId};
use barewire_p4_source::types::{Callee, FnKind};

use super::Builder;
use super::arch::{Arch, Property};
use super::ids::Kind;
use super::spec::plain;

/// A table, and the parser or control it stands in.
#[derive(Clone, Copy)]
pub struct TableAt<'a> {
    pub within: InstanceId,
    pub table: TableId,
    pub decl: &'a Decl,
}

/// An action, and the control it stands in; none: at the top level.
#[derive(Clone, Copy)]
pub struct ActionAt {
    pub within: Option<InstanceId>,
    pub action: FnId,
    /// No table has it: what calls it gives it its arguments.
    pub bare: bool,
}

/// One thing, as its turn comes.
pub enum Turn<'a> {
    /// A control: its actions, and the calls in them and in its body.
    Control { actions: Vec<ActionAt>, calls: Vec<(InstanceId, &'a Expr)> },
    /// A parser: its value sets.
    Parser(Vec<(InstanceId, &'a Decl)>),
    /// A table.
    Table(TableAt<'a>),
    /// An extern that has a declaration.
    Extern(InstanceId),
}

/// Everything, in its order.
pub fn turns<'a>(instances: &Instances<'a, '_>) -> Vec<Turn<'a>> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for &top in &instances.top {
        match instances.get(top).of {
            Of::Package(_) => {}
            Of::Extern(..) => {
                if instances.get(top).decl.is_some() {
                    first.push(Turn::Extern(top));
                }
            }
            Of::Block(_) => {
                let objects = instances.objects(top);
                if instances.is_parser(top) {
                    let sets = objects.iter().filter_map(|(within, object)| match object {
                        Object::ValueSet(decl) => Some((*within, *decl)),
                        _ => None,
                    });
                    first.push(Turn::Parser(sets.collect()));
                } else {
                    first.push(control(instances, top, &objects));
                }
                second.extend(objects.into_iter().filter_map(|(within, object)| match object {
                    Object::Table(table, decl) => Some(Turn::Table(TableAt { within, table, decl })),
                    Object::Extern(id) => Some(Turn::Extern(id)),
                    Object::Action(..) | Object::ValueSet(_) => None,
                }));
            }
        }
    }
    first.append(&mut second);
    first
}

/// A control's actions are those that its tables name or that its body calls: those of the top level first, in the order in which
/// tables name them.
fn control<'a>(
    instances: &Instances<'a, '_>,
    top: InstanceId,
    objects: &[(InstanceId, Object<'a>)],
) -> Turn<'a> {
    let typed = instances.typed;
    let mut named: HashSet<(InstanceId, FnId)> = HashSet::new();
    let mut actions: Vec<ActionAt> = Vec::new();
    let mut bare: HashSet<(InstanceId, FnId)> = HashSet::new();
    let mut seen: HashSet<FnId> = HashSet::new();
    for (within, object) in objects {
        let Object::Table(table, decl) = object else { continue };
        let mut name = |action: FnId| {
            named.insert((*within, action));
            if typed.functions[action.index()].global && seen.insert(action) {
                actions.push(ActionAt { within: None, action, bare: false });
            }
        };
        let info = &typed.tables[table.index()];
        let DeclKind::Table(it) = &decl.kind else { continue };
        for property in &it.properties {
            if let (PropertyKind::Value(_), "default_action", Some((action, _))) =
                (&property.kind, property.name.as_str(), info.default_action)
            {
                name(action);
            }
            if matches!(property.kind, PropertyKind::Actions(_)) {
                info.actions.iter().filter(|a| a.listed.is_some()).for_each(|a| name(a.action));
            }
        }
        info.actions.iter().for_each(|a| name(a.action));
        if let Some((action, _)) = info.default_action {
            name(action);
        }
    }
    // What the body calls: an action is told as one without parameters, unless a table has it as well.
    let body = instances.calls(top);
    for (within, call) in &body {
        if let Some(Callee::Function(action)) = typed.calls.get(&call.id).map(|call| call.callee) {
            let info = &typed.functions[action.index()];
            if info.kind != FnKind::Action {
                continue;
            }
            if info.global && seen.insert(action) {
                actions.push(ActionAt { within: None, action, bare: true });
            } else if !info.global {
                bare.insert((*within, action));
            }
        }
    }
    for (within, object) in objects {
        if let Object::Action(action, _) = object {
            let at = (*within, *action);
            if named.contains(&at) || bare.contains(&at) {
                let bare = !named.contains(&at);
                actions.push(ActionAt { within: Some(*within), action: *action, bare });
            }
        }
    }
    let mut calls = Vec::new();
    let decls: HashMap<(InstanceId, FnId), &'a Decl> = objects
        .iter()
        .filter_map(|(within, object)| match object {
            Object::Action(action, decl) => Some(((*within, *action), *decl)),
            _ => None,
        })
        .collect();
    // What an action calls is inlined into it.
    let mut inlined: HashSet<(InstanceId, FnId)> = HashSet::new();
    for at in &actions {
        let within = at.within.unwrap_or(top);
        let mut work = vec![at.action];
        while let Some(action) = work.pop() {
            let local = decls.get(&(within, action)).copied();
            let Some(decl) = local.or_else(|| instances.global_action(action)) else { continue };
            if !inlined.insert((within, action)) {
                continue;
            }
            for call in instances.calls_of_action(within, decl) {
                calls.push((within, call));
                if let Some(Callee::Function(callee)) = typed.calls.get(&call.id).map(|call| call.callee) {
                    work.push(callee);
                }
            }
        }
    }
    calls.extend(body);
    Turn::Control { actions, calls }
}

/// A property's extern.
pub struct PropertyExtern<'a> {
    /// What the control plane calls it.
    pub name: String,
    /// The instance.
    pub id: InstanceId,
    /// Its annotations.
    pub annotations: &'a [Annotation],
    /// It has no declaration of its own.
    pub in_place: bool,
}

/// The extern that a property of a table names or makes.
pub fn property_extern<'a>(
    instances: &Instances<'a, '_>,
    arch: Arch,
    at: TableAt<'a>,
    wanted: Property,
) -> Option<PropertyExtern<'a>> {
    let DeclKind::Table(it) = &at.decl.kind else { return None };
    let property =
        it.properties.iter().find(|property| arch.property(property.name.as_str()) == Some(wanted))?;
    let PropertyKind::Value(value) = &property.kind else { return None };
    let id = instances.find(Some(at.within), value)?;
    if instances.get(id).decl.is_some() {
        let annotations = instances.annotations(id);
        return Some(PropertyExtern { name: instances.name(id), id, annotations, in_place: false });
    }
    let name = ast::annotation(&property.annotations, "name").and_then(Annotation::string)?;
    Some(PropertyExtern { name: plain(name), id, annotations: &property.annotations, in_place: true })
}

impl<'a> Builder<'_, 'a, '_> {
    /// What the control plane calls an action.
    pub(super) fn action_name(&self, within: InstanceId, action: FnId) -> String {
        let info = &self.instances.typed.functions[action.index()];
        if info.global {
            plain(external_name(info.annotations, &info.name))
        } else {
            self.instances.qualify(Some(within), info.annotations, &info.name)
        }
    }

    pub(super) fn table_name(&self, at: TableAt<'a>) -> String {
        let name = &self.instances.typed.tables[at.table.index()].name;
        self.instances.qualify(Some(at.within), &at.decl.annotations, name)
    }

    /// The type of a call of v1model's `digest`.
    pub(super) fn digest_type(&self, call: &Expr) -> Option<TypeId> {
        let typed = self.instances.typed;
        let info = typed.calls.get(&call.id)?;
        let Callee::Function(function) = info.callee else { return None };
        let function = &typed.functions[function.index()];
        let is_digest = function.kind == FnKind::ExternFunction && &*function.name == "digest";
        (self.arch == Arch::V1Model && is_digest).then(|| info.type_args.first().copied()).flatten()
    }

    /// Is it a call of an extern function?
    pub(super) fn is_extern_call(&self, call: &Expr) -> bool {
        let typed = self.instances.typed;
        match typed.calls.get(&call.id).map(|call| call.callee) {
            Some(Callee::Function(function)) => {
                typed.functions[function.index()].kind == FnKind::ExternFunction
            }
            _ => false,
        }
    }

    pub(super) fn extern_of(&self, id: InstanceId) -> Option<Kind> {
        let Of::Extern(of, _) = &self.instances.get(id).of else { return None };
        self.arch.extern_kind(&self.instances.typed.externs[of.index()].name)
    }

    fn symbol(&mut self, kind: Kind, name: &str, annotations: &[Annotation]) {
        use super::ids::IdProblem;
        let Err(problem) = self.symbols.add(kind, name, super::annotate::id(annotations)) else { return };
        let span = ast::annotation(annotations, "id").map(|note| note.span);
        let text = match problem {
            IdProblem::Prefix => "the first byte of this id is that of another kind of object",
            IdProblem::Taken => "another object has this id",
        };
        self.problems.push(
            Diagnostic::error("invalid", span.unwrap_or(barewire_p4_source::Span::NONE), text)
                .help("without a first byte the right one is taken: `@id(7)`"),
        );
    }

    /// First round: every name, before any id is decided.
    pub(super) fn symbols(&mut self, turns: &[Turn<'a>]) {
        for turn in turns {
            match turn {
                Turn::Control { actions, calls } => {
                    for at in actions {
                        let annotations = self.instances.typed.functions[at.action.index()].annotations;
                        let name = match at.within {
                            Some(within) => self.action_name(within, at.action),
                            None => {
                                let info = &self.instances.typed.functions[at.action.index()];
                                plain(external_name(info.annotations, &info.name))
                            }
                        };
                        self.symbol(Kind::Action, &name, annotations);
                    }
                    for (_, call) in calls {
                        if let Some(ty) = self.digest_type(call) {
                            let name = self.digest_name(call, ty);
                            self.symbol(Kind::Digest, &name, &[]);
                        }
                    }
                }
                Turn::Parser(sets) => {
                    for (within, decl) in sets {
                        let name = decl.name().map_or("", ast::Ident::as_str);
                        let name = self.instances.qualify(Some(*within), &decl.annotations, name);
                        self.symbol(Kind::ValueSet, &name, &decl.annotations);
                    }
                }
                Turn::Table(at) => {
                    let name = self.table_name(*at);
                    self.symbol(Kind::Table, &name, &at.decl.annotations);
                    for (property, kind) in [
                        (Property::Implementation, Kind::ActionProfile),
                        (Property::Counter, Kind::DirectCounter),
                        (Property::Meter, Kind::DirectMeter),
                    ] {
                        if let Some(found) = property_extern(self.instances, self.arch, *at, property) {
                            if found.in_place {
                                self.symbol(kind, &found.name, &[]);
                            }
                            if property == Property::Implementation {
                                self.profile_tables.entry(found.name).or_default().insert(name.clone());
                            }
                        }
                    }
                }
                Turn::Extern(id) => {
                    if let Some(kind) = self.extern_of(*id) {
                        let name = self.instances.name(*id);
                        self.symbol(kind, &name, self.instances.annotations(*id));
                    }
                }
            }
        }
        for at in self.controller_headers() {
            let info = &self.instances.typed.structs[at.index()];
            let name = plain(external_name(&info.decl.annotations, &info.name));
            self.symbol(Kind::ControllerHeader, &name, &info.decl.annotations);
        }
        self.symbols.decide();
    }
}
