//! The instances behind `main` (specification, chapter 18): which parsers, controls, externs and packages there are, what their
//! constructors were given, what stands in them, and what a control plane calls it.
//!
//! ```text
//! Typed -> Instances   the tree: `main` and the arguments of packages at the top, instances of instances below them
//! value                constants that the arguments of constructors decide
//! names                names outside: `@name`, `outer.inner.table`, table keys
//! calls                the calls in a body
//! outside              each name outside is that of one thing
//! ```
//! The tree is what inlining yields: an instance of a control in a control is told with its own tables, actions and externs, each
//! under its whole name. What no instance applies is not told.

mod calls;
mod names;
mod outside;
mod value;

use std::collections::{HashMap, HashSet, VecDeque};

pub use calls::{CallSite, Walk};
pub use names::{external_name, key_name};
pub(crate) use outside::check as check_names;

use crate::ast::{self, Annotation, Arg, Decl, DeclKind, Expr, ExprKind, NodeId, Program, PropertyKind};
use crate::types::ty::{BlockId, ExternId, FnId, PackageId, TableId, Type, TypeId, TypeList, TypeVar};
use crate::types::value::Value;
use crate::types::{ArgSource, BlockKind, Callee, FnKind, ParamInfo, SymbolKind, Typed};

/// How many instances a program may have, written out: the tree grows with the product of what each control instantiates.
pub const MAX_INSTANCES: usize = 100_000;

/// How deep instances may stand in instances.
pub const MAX_NESTING: u32 = 128;

/// An instance of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(u32);

impl InstanceId {
    /// Its place in [`Instances::list`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an instance is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// A package.
    Package(PackageId),
    /// A parser or control.
    Block(BlockId),
    /// An extern, with its type arguments.
    Extern(ExternId, TypeList),
}

/// What a parameter of a constructor was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A value.
    Value(Value),
    /// An instance.
    Instance(InstanceId),
}

/// An instance.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// What it is of.
    pub of: Of,
    /// What it puts in front of the names inside it: its own name; at the top level that of its parser or control.
    pub prefix: String,
    /// The parser or control that it stands in.
    pub parent: Option<InstanceId>,
    /// How many instances it stands in.
    pub depth: u32,
    /// The node of its declaration, or of the constructor call that made it.
    pub node: NodeId,
    /// Its declaration. None: a constructor call, or `T.apply(…)`.
    pub decl: Option<&'a Decl>,
    /// What the parameters of its constructor were given, by the node that declares each.
    pub bound: HashMap<NodeId, Bound>,
    /// Type parameters of its parser or control, and what they are here.
    pub vars: Vec<(TypeVar, TypeId)>,
    /// The instances in it, by the node that makes each.
    pub inside: HashMap<NodeId, InstanceId>,
}

/// Something that stands in a parser or control, those of inlined instances among them.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// An action.
    Action(FnId, &'a Decl),
    /// A table that something applies.
    Table(TableId, &'a Decl),
    /// An extern.
    Extern(InstanceId),
    /// A value set.
    ValueSet(&'a Decl),
}

/// All instances of a program.
#[derive(Debug)]
pub struct Instances<'a, 't> {
    /// The program.
    pub typed: &'t Typed<'a>,
    /// All of them.
    pub list: Vec<Instance<'a>>,
    /// Those that stand in no parser or control, in the order of the text; what a constructor is given stands before what it makes.
    pub top: Vec<InstanceId>,
    /// The instance `main`.
    pub main: Option<InstanceId>,
    globals: HashMap<NodeId, InstanceId>,
    names: HashSet<String>,
    /// Actions and tables by the node that declares them.
    actions: HashMap<NodeId, FnId>,
    tables: HashMap<NodeId, TableId>,
    global_actions: HashMap<NodeId, &'a Decl>,
    /// Tables and instances that something applies.
    applied: HashSet<(InstanceId, NodeId)>,
}

/// Why a program has no tree of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeError {
    /// More than [`MAX_INSTANCES`].
    TooMany,
    /// Deeper than [`MAX_NESTING`].
    TooDeep,
}

impl std::fmt::Display for TreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany => {
                write!(f, "the program has more than {MAX_INSTANCES} instances, counting those of instances")
            }
            Self::TooDeep => write!(f, "instances stand in instances more than {MAX_NESTING} deep"),
        }
    }
}

impl std::error::Error for TreeError {}

impl<'a, 't> Instances<'a, 't> {
    /// The instances of a program that [`crate::types::check`] has accepted.
    ///
    /// # Errors
    /// A tree beyond the limits.
    pub fn of(program: &'a Program, typed: &'t Typed<'a>) -> Result<Self, TreeError> {
        let names = typed.blocks.iter().map(|block| block.name.to_string()).collect();
        let actions = typed.functions.iter().enumerate().filter(|(_, info)| info.kind == FnKind::Action);
        let tables = typed.tables.iter().enumerate();
        let mut all = Self {
            typed,
            list: Vec::new(),
            top: Vec::new(),
            main: None,
            globals: HashMap::new(),
            names,
            actions: actions.map(|(at, info)| (info.node, FnId(at as u32))).collect(),
            tables: tables.map(|(at, info)| (info.decl.id, TableId(at as u32))).collect(),
            global_actions: HashMap::new(),
            applied: HashSet::new(),
        };
        for decl in &program.decls {
            if let DeclKind::Action(_) = &decl.kind {
                all.global_actions.insert(decl.id, decl);
            }
            if let DeclKind::Instance(it) = &decl.kind {
                let made = all.make(None, decl.id, Some(decl), &it.args)?;
                if let Some(made) = made {
                    all.globals.insert(decl.id, made);
                    if it.name.as_str() == "main" {
                        all.main = Some(made);
                    }
                }
            }
        }
        Ok(all)
    }

    /// An instance.
    #[must_use]
    pub fn get(&self, id: InstanceId) -> &Instance<'a> {
        &self.list[id.index()]
    }

    /// The instance that a declaration or a constructor call in an instance, or at the top level, makes.
    #[must_use]
    pub fn made(&self, within: Option<InstanceId>, node: NodeId) -> Option<InstanceId> {
        let here = within.and_then(|id| self.get(id).inside.get(&node).copied());
        here.or_else(|| self.globals.get(&node).copied())
    }

    /// What a constructor's parameter was given, by the node that declares it.
    #[must_use]
    pub fn bound(&self, id: InstanceId, param: NodeId) -> Option<&Bound> {
        self.get(id).bound.get(&param)
    }

    /// A type in an instance: a type parameter of its parser or control is what it is there.
    #[must_use]
    pub fn type_in(&self, within: Option<InstanceId>, ty: TypeId) -> TypeId {
        let mut ty = ty;
        let mut around = within;
        while let Some(id) = around {
            let instance = self.get(id);
            if let Type::Var(var) = self.typed.types.get(ty)
                && let Some((_, real)) = instance.vars.iter().find(|(other, _)| other == var)
            {
                ty = *real;
            }
            around = instance.parent;
        }
        ty
    }

    /// The instance that a path or a constructor call means.
    #[must_use]
    pub fn find(&self, within: Option<InstanceId>, expr: &Expr) -> Option<InstanceId> {
        let instance = |node: NodeId| self.made(within, node);
        match &expr.kind {
            ExprKind::Path { .. } => {
                let symbol = self.typed.refers_to(expr.id)?;
                match symbol.kind {
                    SymbolKind::Instance => instance(symbol.node),
                    SymbolKind::ConstructorParam => match self.bound(within?, symbol.node)? {
                        Bound::Instance(id) => Some(*id),
                        Bound::Value(_) => None,
                    },
                    _ => None,
                }
            }
            ExprKind::Index(base, _) => self.find(within, base),
            ExprKind::Call(_) => instance(expr.id),
            _ => None,
        }
    }

    fn params(&self, callee: Callee) -> &'t [ParamInfo<'a>] {
        let typed = self.typed;
        match callee {
            Callee::Constructor(id) => &typed.functions[id.index()].params,
            Callee::BlockConstructor(id) => &typed.blocks[id.index()].constructor,
            Callee::PackageConstructor(id) => &typed.packages[id.index()].params,
            _ => &[],
        }
    }

    /// Makes an instance and what stands in it. None: the program says something else than an instance there.
    fn make(
        &mut self,
        within: Option<InstanceId>,
        node: NodeId,
        decl: Option<&'a Decl>,
        args: &'a [Arg],
    ) -> Result<Option<InstanceId>, TreeError> {
        let Some(call) = self.typed.calls.get(&node) else { return Ok(None) };
        let params = self.params(call.callee);
        let mut bound = HashMap::new();
        for (param, source) in params.iter().zip(&call.args) {
            let given = match source {
                ArgSource::Arg(at) => args.get(*at as usize).map(|arg| &arg.value),
                ArgSource::Default => param.decl.default.as_ref(),
                ArgSource::Missing | ArgSource::ControlPlane => None,
            };
            let Some(given) = given else { continue };
            if let Some(what) = self.argument(within, given)? {
                bound.insert(param.decl.id, what);
            }
        }
        let Some(of) = self.kind_of(self.typed.ty(node)) else { return Ok(None) };
        let name = decl.and_then(Decl::name).map(ast::Ident::as_str);
        self.put(within, node, decl, (of, name), bound, call.type_args.clone()).map(Some)
    }

    fn kind_of(&self, ty: Option<TypeId>) -> Option<Of> {
        match self.typed.types.get(ty?) {
            Type::Extern(id, args) => Some(Of::Extern(*id, args.clone())),
            Type::Block(id, _) => Some(Of::Block(*id)),
            Type::Package(id, _) => Some(Of::Package(*id)),
            Type::Stack(element, _) => self.kind_of(Some(*element)),
            _ => None,
        }
    }

    fn argument(&mut self, within: Option<InstanceId>, expr: &'a Expr) -> Result<Option<Bound>, TreeError> {
        if let Some(found) = self.find(within, expr) {
            return Ok(Some(Bound::Instance(found)));
        }
        if let ExprKind::Call(call) = &expr.kind
            && let Some(made) = self.make(within, expr.id, None, &call.args)?
        {
            match within {
                Some(id) => self.list[id.index()].inside.insert(expr.id, made),
                None => self.globals.insert(expr.id, made),
            };
            return Ok(Some(Bound::Instance(made)));
        }
        Ok(self.value(within, expr).map(Bound::Value))
    }

    fn put(
        &mut self,
        within: Option<InstanceId>,
        node: NodeId,
        decl: Option<&'a Decl>,
        (of, name): (Of, Option<&str>),
        bound: HashMap<NodeId, Bound>,
        type_args: TypeList,
    ) -> Result<InstanceId, TreeError> {
        if self.list.len() >= MAX_INSTANCES {
            return Err(TreeError::TooMany);
        }
        let depth = within.map_or(0, |id| self.get(id).depth + 1);
        if depth > MAX_NESTING {
            return Err(TreeError::TooDeep);
        }
        let typed = self.typed;
        let id = InstanceId(self.list.len() as u32);
        let block = match of {
            Of::Block(block) => Some(block),
            _ => None,
        };
        let vars: Vec<(TypeVar, TypeId)> = block.map_or_else(Vec::new, |block| {
            let args = type_args.iter().map(|&ty| self.type_in(within, ty));
            typed.blocks[block.index()].vars.iter().copied().zip(args).collect()
        });
        let own = || external_name(decl.map_or(&[], |decl| &decl.annotations), name.unwrap_or_default());
        let prefix = match (block, within) {
            // A control at the top level gives its own name, whatever its instance is called; what is made for arguments is a
            // control of its own, with a name of its own.
            (Some(block), None) => {
                let info = &typed.blocks[block.index()];
                if info.constructor.is_empty() && info.vars.is_empty() {
                    info.name.to_string()
                } else {
                    self.fresh(&info.name)
                }
            }
            (Some(block), Some(_)) if name.is_none() => typed.blocks[block.index()].name.to_string(),
            _ => own(),
        };
        self.list.push(Instance {
            of,
            prefix,
            parent: within,
            depth,
            node,
            decl,
            bound,
            vars,
            inside: HashMap::new(),
        });
        if let Some(block) = block {
            self.fill(id, block)?;
        }
        if within.is_none() {
            self.top.push(id);
        }
        Ok(id)
    }

    /// `name_0`, or with the next number that is free.
    fn fresh(&mut self, name: &str) -> String {
        let mut at = 0u32;
        loop {
            let candidate = format!("{name}_{at}");
            if self.names.insert(candidate.clone()) {
                return candidate;
            }
            at += 1;
        }
    }

    /// The declarations of a parser or control, and its body or states.
    fn parts(&self, block: BlockId) -> (&'a [Decl], Body<'a>) {
        match &self.typed.blocks[block.index()].decl.kind {
            DeclKind::Parser(it) => (&it.locals, Body::States(&it.states)),
            DeclKind::Control(it) => (&it.locals, Body::Apply(&it.apply)),
            _ => (&[], Body::States(&[])),
        }
    }

    fn fill(&mut self, id: InstanceId, block: BlockId) -> Result<(), TreeError> {
        let (locals, body) = self.parts(block);
        for decl in locals {
            match &decl.kind {
                DeclKind::Instance(it) => {
                    if let Some(made) = self.make(Some(id), decl.id, Some(decl), &it.args)? {
                        self.list[id.index()].inside.insert(decl.id, made);
                    }
                }
                DeclKind::Table(it) => {
                    for property in &it.properties {
                        if let PropertyKind::Value(value) = &property.kind
                            && let ExprKind::Call(call) = &value.kind
                            && matches!(
                                self.typed.calls.get(&value.id).map(|call| call.callee),
                                Some(Callee::Constructor(_))
                            )
                            && let Some(made) = self.make(Some(id), value.id, None, &call.args)?
                        {
                            self.list[id.index()].inside.insert(value.id, made);
                        }
                    }
                }
                _ => {}
            }
        }
        let mut sites: VecDeque<CallSite<'a>> = VecDeque::new();
        self.walk(Some(id), body, &mut |site| sites.push_back(site));
        while let Some(site) = sites.pop_front() {
            match site {
                CallSite::Direct(stmt) => {
                    let Some(Callee::ApplyType(of)) = self.typed.calls.get(&stmt.id).map(|call| call.callee)
                    else {
                        continue;
                    };
                    let made =
                        self.put(Some(id), stmt.id, None, (Of::Block(of), None), HashMap::new(), [].into())?;
                    self.list[id.index()].inside.insert(stmt.id, made);
                    self.applied.insert((id, stmt.id));
                }
                CallSite::Call(expr) => {
                    let ExprKind::Call(call) = &expr.kind else { continue };
                    let of = match &call.callee.kind {
                        ExprKind::Member(of, _) => of,
                        _ => continue,
                    };
                    match self.typed.calls.get(&expr.id).map(|call| call.callee) {
                        Some(Callee::ApplyTable(_)) => {
                            // A key may apply another table.
                            if let Some(symbol) = self.typed.refers_to(of.id)
                                && self.applied.insert((id, symbol.node))
                            {
                                let of = locals.iter().find(|decl| decl.id == symbol.node);
                                if let Some(Decl { kind: DeclKind::Table(it), .. }) = of {
                                    keys(it, &mut |site| sites.push_back(site));
                                }
                            }
                        }
                        Some(Callee::ApplyBlock(_)) => {
                            if let Some(found) = self.find(Some(id), of) {
                                let around = self.get(found).parent.unwrap_or(id);
                                self.applied.insert((around, self.get(found).node));
                            }
                        }
                        Some(Callee::ApplyType(block)) => {
                            let made = self.put(
                                Some(id),
                                expr.id,
                                None,
                                (Of::Block(block), None),
                                HashMap::new(),
                                [].into(),
                            )?;
                            self.list[id.index()].inside.insert(expr.id, made);
                            self.applied.insert((id, expr.id));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn walk(&self, within: Option<InstanceId>, body: Body<'a>, call: &mut dyn FnMut(CallSite<'a>)) {
        let known = |expr: &'a Expr| self.value(within, expr)?.as_bool();
        let mut walk = Walk { known: &known, call };
        match body {
            Body::Apply(block) => walk.block(block),
            Body::States(states) => {
                for state in states {
                    walk.state(state);
                }
            }
        }
    }

    /// What stands in an instance of a parser or control, in the order of the text, with what stands in the instances that it
    /// applies, each with the instance it is declared in. Tables that nothing applies are left out.
    #[must_use]
    pub fn objects(&self, id: InstanceId) -> Vec<(InstanceId, Object<'a>)> {
        let mut found = Vec::new();
        self.objects_into(id, &mut found);
        found
    }

    fn objects_into(&self, id: InstanceId, found: &mut Vec<(InstanceId, Object<'a>)>) {
        let instance = self.get(id);
        let Of::Block(block) = instance.of else { return };
        for decl in self.parts(block).0 {
            match &decl.kind {
                DeclKind::Action(_) => {
                    if let Some(&action) = self.actions.get(&decl.id) {
                        found.push((id, Object::Action(action, decl)));
                    }
                }
                DeclKind::Table(_) if self.applied.contains(&(id, decl.id)) => {
                    if let Some(&table) = self.tables.get(&decl.id) {
                        found.push((id, Object::Table(table, decl)));
                    }
                }
                DeclKind::ValueSet(_) => found.push((id, Object::ValueSet(decl))),
                DeclKind::Instance(_) => {
                    let Some(&made) = instance.inside.get(&decl.id) else { continue };
                    match self.get(made).of {
                        Of::Extern(..) => found.push((id, Object::Extern(made))),
                        Of::Block(_) if self.applied.contains(&(id, decl.id)) => {
                            self.objects_into(made, found)
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        // `T.apply(…)`: behind everything that has a declaration, in the order of the text.
        let mut direct: Vec<InstanceId> = instance
            .inside
            .values()
            .copied()
            .filter(|&made| {
                let made = self.get(made);
                made.decl.is_none() && self.applied.contains(&(id, made.node))
            })
            .collect();
        direct.sort();
        for made in direct {
            self.objects_into(made, found);
        }
    }

    /// The calls in the body of an instance, where it applies another one with the calls of that one, each with the instance it
    /// stands in. An instance that is applied more than once is told where it is applied first.
    #[must_use]
    pub fn calls(&self, id: InstanceId) -> Vec<(InstanceId, &'a Expr)> {
        let mut found = Vec::new();
        self.calls_into(id, &mut HashSet::new(), &mut found);
        found
    }

    fn calls_into(
        &self,
        id: InstanceId,
        seen: &mut HashSet<InstanceId>,
        found: &mut Vec<(InstanceId, &'a Expr)>,
    ) {
        if !seen.insert(id) {
            return;
        }
        let Of::Block(block) = self.get(id).of else { return };
        let mut sites = Vec::new();
        self.walk(Some(id), self.parts(block).1, &mut |site| sites.push(site));
        for site in sites {
            let node = match site {
                CallSite::Call(expr) => {
                    found.push((id, expr));
                    match &expr.kind {
                        ExprKind::Call(call) => match &call.callee.kind {
                            ExprKind::Member(of, _) => self.find(Some(id), of),
                            _ => None,
                        },
                        _ => None,
                    }
                    .or_else(|| self.get(id).inside.get(&expr.id).copied())
                }
                CallSite::Direct(stmt) => self.get(id).inside.get(&stmt.id).copied(),
            };
            if let Some(applied) = node
                && matches!(self.get(applied).of, Of::Block(_))
            {
                self.calls_into(applied, seen, found);
            }
        }
    }

    /// The declaration of an action of the top level.
    #[must_use]
    pub fn global_action(&self, action: FnId) -> Option<&'a Decl> {
        self.global_actions.get(&self.typed.functions[action.index()].node).copied()
    }

    /// The calls in the body of an action.
    #[must_use]
    pub fn calls_of_action(&self, within: InstanceId, action: &'a Decl) -> Vec<&'a Expr> {
        let mut found = Vec::new();
        if let DeclKind::Action(it) = &action.kind {
            self.walk(Some(within), Body::Apply(&it.body), &mut |site| {
                if let CallSite::Call(expr) = site {
                    found.push(expr);
                }
            });
        }
        found
    }

    /// Is it a parser?
    #[must_use]
    pub fn is_parser(&self, id: InstanceId) -> bool {
        match self.get(id).of {
            Of::Block(block) => self.typed.blocks[block.index()].kind == BlockKind::Parser,
            _ => false,
        }
    }

    /// Annotations of its declaration.
    #[must_use]
    pub fn annotations(&self, id: InstanceId) -> &'a [Annotation] {
        self.get(id).decl.map_or(&[], |decl| &decl.annotations)
    }

    /// What a control plane calls an instance.
    #[must_use]
    pub fn name(&self, id: InstanceId) -> String {
        let instance = self.get(id);
        let name = instance.decl.and_then(Decl::name).map_or("", ast::Ident::as_str);
        self.qualify(instance.parent, self.annotations(id), name)
    }
}

/// The calls in the keys of a table.
fn keys<'a>(table: &'a ast::Table, call: &mut dyn FnMut(CallSite<'a>)) {
    let mut walk = Walk { known: &|_| None, call };
    for property in &table.properties {
        if let PropertyKind::Key(elements) = &property.kind {
            elements.iter().for_each(|element| walk.expr(&element.expr));
        }
    }
}

/// Where statements stand.
#[derive(Clone, Copy)]
enum Body<'a> {
    Apply(&'a ast::Block),
    States(&'a [ast::State]),
}
