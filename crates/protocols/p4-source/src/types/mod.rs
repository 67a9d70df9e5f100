//! Names, types and static rules of P4-16 (specification 1.2.5): from a syntax tree to a [`Typed`] program.
//!
//! ```text
//! shape        rules that need no names: what may stand where, what may not stand twice
//! annotations  the arguments of annotations that the language or P4Runtime define
//! declare      (declare_types) declarations in their order: each name into its scope, each body when it comes
//! resolve      types as written -> types; which type may hold which
//! infer        unification, type arguments of generic calls
//! convert      implicit and explicit casts
//! expr, operators, member, call      expressions, from the inside out; args, core, construct belong to call
//! constant     values known when the program is compiled
//! stmt, parser, table, entries, instance      bodies
//! flow         paths: returns, states nobody reaches, names nobody uses; initial: variables nobody wrote; silence: `@noWarn`
//! ```
//! Nothing is changed in the tree: the result is tables by node. Type parameters stay what they are in the body of a
//! generic declaration; a use has its arguments in its type or its [`CallInfo`].
//!
//! Messages come in stages, as the rules build on each other: shape, names, types, flow. What a broken declaration
//! leaves behind is [`ty::Type::Error`], which is compatible with everything, so one mistake is one message.

mod annotations;
mod args;
mod call;
mod constant;
mod construct;
mod convert;
mod core;
mod declare;
mod declare_types;
mod entries;
mod expr;
mod flow;
mod infer;
mod initial;
mod instance;
mod member;
mod operators;
mod parser;
mod program;
mod resolve;
mod shape;
mod silence;
mod stmt;
mod table;
pub mod ty;
pub mod value;

use std::collections::{HashMap, HashSet};

pub use program::{
    ArgSource, BlockInfo, BlockKind, CallInfo, Callee, EntryInfo, EnumInfo, ExternInfo, FieldInfo, FnInfo,
    FnKind, KeyInfo, MemberRef, NewtypeInfo, PackageInfo, ParamInfo, StructInfo, Symbol, SymbolId,
    SymbolKind, TableAction, TableInfo, Typed,
};
use ty::{ExternId, TableId, TypeId, TypeList};

use crate::ast::{self, Decl, Ident, Name, NodeId};
use crate::diag::{Diagnostic, Diagnostics, Severity};
use crate::source::{SourceMap, Span};
use barewire_text::nearest;

/// The kinds of errors, by the code of their messages.
pub mod code {
    /// A name that is not declared.
    pub const NOT_FOUND: &str = "not-found";
    /// A name that is declared twice.
    pub const DUPLICATE: &str = "duplicate";
    /// Types that do not go together.
    pub const TYPE: &str = "type-error";
    /// Something where it may not stand.
    pub const INVALID: &str = "invalid";
    /// Something that is missing.
    pub const EXPECTED: &str = "expected";
    /// Something the language has, but no compiler can do.
    pub const UNSUPPORTED: &str = "unsupported";
    /// More than a limit.
    pub const OVERLIMIT: &str = "overlimit";
    /// Entries of a table that have the same key.
    pub const KEYS: &str = "keys";
    /// Something the language has, and the target cannot do.
    pub const TARGET: &str = "target-error";
    /// The architecture does not fit.
    pub const MODEL: &str = "Target model error";
    /// Something without a value.
    pub const UNINITIALIZED: &str = "uninitialized";
    /// A function that does not return on every path.
    pub const INSUFFICIENT: &str = "insufficient";
    /// A declaration that hides a parameter.
    pub const SHADOW: &str = "shadow";
    /// A parser that never ends.
    pub const UNREACHABLE: &str = "unreachable";
    /// An annotation that is not what its name says.
    pub const SYNTAX: &str = "syntax";
}

/// The kinds of warnings, by the code of their messages.
pub mod warn {
    /// Declared and not used.
    pub const UNUSED: &str = "unused";
    /// Hides another declaration.
    pub const SHADOW: &str = "shadow";
    /// Read before it is written.
    pub const UNINITIALIZED_USE: &str = "uninitialized_use";
    /// Never executed.
    pub const UNREACHABLE: &str = "unreachable";
    /// A constant that is too large for its type.
    pub const OVERFLOW: &str = "overflow";
    /// A comparison, shift or cast whose widths do not fit.
    pub const MISMATCH: &str = "mismatch";
    /// A parser state without a transition.
    pub const PARSER_TRANSITION: &str = "parser-transition";
    /// Marked `@deprecated`.
    pub const DEPRECATED: &str = "deprecated";
    /// Entries with the same priority.
    pub const DUPLICATE_PRIORITIES: &str = "duplicate-priorities";
    /// Entries that do not stand in the order of their priorities.
    pub const ENTRIES_ORDER: &str = "entries-out-of-priority-order";
    /// An annotation or property that nothing reads.
    pub const UNKNOWN: &str = "unknown";
    /// A program without a `main`.
    pub const MISSING: &str = "missing";

    /// All of them.
    pub const ALL: &[&str] = &[
        UNUSED,
        SHADOW,
        UNINITIALIZED_USE,
        UNREACHABLE,
        OVERFLOW,
        MISMATCH,
        PARSER_TRANSITION,
        DEPRECATED,
        DUPLICATE_PRIORITIES,
        ENTRIES_ORDER,
        UNKNOWN,
        MISSING,
    ];
}

/// When a rule is looked at: messages of an earlier stage come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Names that stand twice in one list.
    List,
    /// What may stand where.
    Shape,
    /// What the language adds by itself.
    Builtin,
    /// Names that are not declared.
    Names,
    /// Types.
    Types,
    /// What only whole bodies show.
    Flow,
}

/// Checks a program. It is well-formed if no error comes out.
pub fn check<'a>(program: &'a ast::Program, map: &'a SourceMap, diagnostics: &mut Diagnostics) -> Typed<'a> {
    let mut checker = Checker::new(program, map);
    checker.check_shape(program);
    checker.program(program);
    checker.warn_uninitialized(program);
    let before = diagnostics.error_count();
    let typed = checker.finish(&silence::Silence::of(program), diagnostics);
    if diagnostics.error_count() == before {
        crate::instances::check_names(program, &typed, diagnostics);
    }
    typed
}

/// The name of the architecture that a program is for, by the package of its `main`.
#[must_use]
pub fn architecture(typed: &Typed<'_>) -> Option<&'static str> {
    let main = typed.symbol(typed.main?);
    let ty::Type::Package(package, _) = typed.types.get(main.ty) else { return None };
    Some(match &*typed.packages[package.index()].name {
        "V1Switch" => "v1model",
        "PSA_Switch" => "psa",
        "PNA_NIC" => "pna",
        "ebpfFilter" => "ebpf",
        "ubpf" => "ubpf",
        "xdp" => "xdp",
        _ => "other",
    })
}

/// Says so if a program is not for the architecture that is wanted.
pub fn require_architecture(typed: &Typed<'_>, wanted: &str, diagnostics: &mut Diagnostics) {
    let found = architecture(typed);
    if found == Some(wanted) {
        return;
    }
    let span = typed.main.map_or(Span::NONE, |main| typed.symbol(main).span);
    let text = match found {
        Some("other") => format!("the package of `main` is not that of {wanted}"),
        Some(found) => format!("the program is for {found}, not for {wanted}"),
        None => format!("the program has no `main`, so it is not for {wanted}"),
    };
    diagnostics.push(
        Diagnostic::error(code::MODEL, span, text)
            .help(format!("`#include <{wanted}.p4>` declares the package of {wanted}")),
    );
}

/// Messages after which unknown names come without a name that is near.
const SUGGESTIONS: usize = 100;

/// Where the checker is, as far as a rule cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Top level.
    Top,
    /// Declarations of a parser.
    ParserLocals,
    /// A state of a parser.
    State,
    /// Declarations of a control.
    ControlLocals,
    /// The `apply` block of a control.
    Apply,
    /// The body of an action.
    Action,
    /// The body of a function.
    Function,
    /// The body of a method that an instance implements.
    Method,
    /// Properties of a table.
    Table,
}

/// What surrounds an expression or statement.
#[derive(Clone, Copy, Debug)]
struct Context {
    place: Place,
    /// What `return` has to give; `None` where there is nothing to return from.
    result: Option<TypeId>,
    /// Depth of loops.
    loops: u32,
}

#[derive(Default)]
struct Scope {
    names: HashMap<Name, Vec<SymbolId>>,
    /// The parameters of something whose outermost block is the next scope.
    params: bool,
}

struct Checker<'a> {
    out: Typed<'a>,
    map: &'a SourceMap,
    scopes: Vec<Scope>,
    problems: Vec<(Stage, Diagnostic)>,
    /// Types of inference variables, as far as they are known.
    bindings: Vec<Option<TypeId>>,
    context: Context,
    /// The extern of `this`.
    this: Option<(ExternId, TypeList)>,
    /// Declarations that are not finished: to use one inside itself is an error.
    open: HashSet<SymbolId>,
    /// The expression in `switch (…)`: only there may `action_run` stand.
    switch_subject: Option<NodeId>,
    /// The table whose properties are at hand.
    current_table: Option<TableId>,
    /// Expressions whose value is being computed.
    folding: HashSet<NodeId>,
    /// All declarations of the top level, and those of the block at hand: some are named too early.
    top: &'a [Decl],
    locals: &'a [Decl],
    facts: Facts,
}

/// What else the checker keeps.
#[derive(Default)]
struct Facts {
    /// `error { … }` stands somewhere before.
    error_declared: bool,
    /// Tables that are applied, to warn of those that are not.
    applied: HashSet<TableId>,
    /// How many fields each struct has, those of structs in it one by one.
    weights: Vec<u64>,
    /// The same of types with type arguments, as far as it was asked.
    counts: HashMap<TypeId, u64>,
    /// The expression of a key is at hand: it may apply another table.
    in_key: bool,
    /// Where the value goes whose parts are at hand: a constant, an assignment, a call.
    site: Option<Span>,
}

impl<'a> Checker<'a> {
    fn new(program: &'a ast::Program, map: &'a SourceMap) -> Self {
        let out = Typed { type_of: vec![None; program.node_count as usize], ..Typed::default() };
        Self {
            out,
            map,
            scopes: vec![Scope::default()],
            problems: Vec::new(),
            bindings: Vec::new(),
            context: Context { place: Place::Top, result: None, loops: 0 },
            this: None,
            open: HashSet::new(),
            switch_subject: None,
            current_table: None,
            folding: HashSet::new(),
            top: &program.decls,
            locals: &[],
            facts: Facts::default(),
        }
    }

    fn finish(mut self, silence: &silence::Silence, diagnostics: &mut Diagnostics) -> Typed<'a> {
        self.warn_unused();
        self.problems.sort_by_key(|(stage, problem)| (problem.severity != Severity::Error, *stage));
        for (_, problem) in self.problems {
            if !silence.covers(&problem) {
                diagnostics.push(problem);
            }
        }
        let bindings = self.bindings;
        let mut out = self.out;
        // What is still open was reported: it becomes the type that fits everything.
        for at in 0..out.type_of.len() {
            if let Some(ty) = out.type_of[at]
                && out.types.has_infer(ty)
            {
                out.type_of[at] = Some(infer::close(&mut out.types, &bindings, ty));
            }
        }
        out
    }

    // ---- messages -------------------------------------------------------------------------------------------------

    fn report_at(&mut self, stage: Stage, problem: Diagnostic) {
        self.problems.push((stage, problem));
    }

    fn report(&mut self, problem: Diagnostic) {
        self.problems.push((Stage::Types, problem));
    }

    /// A type error with a text at its place.
    fn type_error(&mut self, span: Span, message: impl Into<String>) -> TypeId {
        self.report(Diagnostic::error(code::TYPE, span, message));
        TypeId::ERROR
    }

    fn show(&mut self, ty: TypeId) -> String {
        let ty = self.deep(ty);
        self.out.show(ty)
    }

    fn warn(&mut self, problem: Diagnostic) {
        if !self.is_builtin(problem.span()) {
            self.problems.push((Stage::Types, problem));
        }
    }

    fn is_builtin(&self, span: Span) -> bool {
        self.map.file(span.file).is_none_or(crate::source::SourceFile::is_builtin)
    }

    // ---- scopes ---------------------------------------------------------------------------------------------------

    fn push_scope(&mut self) {
        self.scopes.push(Scope::default());
    }

    fn pop_scope(&mut self) {
        self.scopes.pop();
    }

    fn symbol(&self, id: SymbolId) -> &Symbol<'a> {
        &self.out.symbols[id.index()]
    }

    /// All that a name stands for in the innermost scope that has it.
    fn lookup(&self, name: &str, absolute: bool) -> &[SymbolId] {
        let scopes = if absolute { &self.scopes[..1] } else { &self.scopes[..] };
        scopes.iter().rev().find_map(|scope| scope.names.get(name)).map_or(&[], Vec::as_slice)
    }

    /// Puts a name into the innermost scope.
    fn declare(
        &mut self,
        name: &Ident,
        kind: SymbolKind,
        ty: TypeId,
        node: NodeId,
        annotations: &'a [ast::Annotation],
    ) -> SymbolId {
        let id = SymbolId(u32::try_from(self.out.symbols.len()).unwrap_or(u32::MAX));
        let global = self.scopes.len() == 1;
        self.warn_shadow(name, kind);
        self.out.symbols.push(Symbol {
            name: name.name.clone(),
            span: name.span,
            kind,
            ty,
            node,
            annotations,
            global,
            used: false,
        });
        let here = self.scopes.last_mut().expect("the top level is always there");
        let others = here.names.entry(name.name.clone()).or_default();
        // Functions, and parsers, controls and packages by the names of their constructors' parameters (section 7.2.9.2).
        let overloads = |kind: SymbolKind, out: &Typed<'_>| match kind {
            SymbolKind::Function(of) if out.functions[of.index()].kind != FnKind::Action => 1,
            SymbolKind::Block(_) => 2,
            SymbolKind::Package(_) => 3,
            _ => 0,
        };
        let mine = overloads(kind, &self.out);
        let clash = others
            .iter()
            .copied()
            .find(|&other| mine == 0 || mine != overloads(self.out.symbols[other.index()].kind, &self.out));
        others.push(id);
        if let Some(other) = clash {
            others.retain(|&kept| kept != other);
            let first = self.out.symbols[other.index()].span;
            self.report_at(
                Stage::List,
                Diagnostic::error(code::DUPLICATE, name.span, format!("`{name}` is declared twice"))
                    .label(first, "declared here before"),
            );
        }
        if node.index() < self.out.type_of.len() {
            self.out.type_of[node.index()] = Some(ty);
        }
        id
    }

    /// A declaration that hides another one. A parameter may not be hidden by the outermost block of its own body.
    fn warn_shadow(&mut self, name: &Ident, kind: SymbolKind) {
        let depth = self.scopes.len();
        if depth == 1 || matches!(kind, SymbolKind::State | SymbolKind::TypeParam(_)) {
            return;
        }
        let found = self.scopes[..depth - 1].iter().enumerate().rev().find_map(|(at, scope)| {
            scope.names.get(&name.name).and_then(|ids| ids.first()).map(|&id| (at, id))
        });
        let Some((at, id)) = found else { return };
        let hidden = self.symbol(id);
        let span = hidden.span;
        // The outermost block of a body: behind the parameters, and behind the declarations of a control.
        let outermost = at + 2 == depth
            && self.context.place != Place::ControlLocals
            && self.context.place != Place::ParserLocals
            || at + 3 == depth && self.context.place == Place::Apply;
        if outermost && self.scopes[at].params && !matches!(hidden.kind, SymbolKind::TypeParam(_)) {
            self.report_at(
                Stage::Shape,
                Diagnostic::error(code::SHADOW, name.span, format!("`{name}` hides the parameter `{name}`"))
                    .label(span, "the parameter")
                    .help("give one of them another name"),
            );
        } else if !self.is_builtin(span) {
            self.warn(
                Diagnostic::warning(warn::SHADOW, name.span, format!("`{name}` hides another `{name}`"))
                    .label(span, "hidden here"),
            );
        }
    }

    /// Reports a name that is not declared.
    fn not_found(&mut self, name: &Ident) -> TypeId {
        let mut problem = Diagnostic::error(code::NOT_FOUND, name.span, format!("`{name}` is not declared"));
        // Who has so many unknown names needs no advice for each.
        let few = self.problems.len() < SUGGESTIONS;
        let names = self.scopes.iter().flat_map(|scope| scope.names.keys()).map(|name| &**name);
        let named = |decl: &&'a Decl| decl.name().is_some_and(|other| other.name == name.name);
        let later = self.locals.iter().chain(self.top).find(named).and_then(Decl::name);
        if let Some(later) = later.filter(|later| later.span != name.span) {
            problem = problem
                .label(later.span, "declared here")
                .help("a name is known behind its declaration only: move that up, where it can be");
        } else if let Some(near) = nearest(&name.name, names.filter(|_| few)) {
            problem = problem.help(format!("there is a `{near}`"));
        } else if let Some(file) = declare::architecture_of(&name.name) {
            problem = problem.help(format!("`#include <{file}>` declares it"));
        }
        self.report_at(Stage::Names, problem);
        TypeId::ERROR
    }

    /// Notes that a node refers to a symbol.
    fn refer(&mut self, node: NodeId, id: SymbolId, span: Span) {
        self.out.symbols[id.index()].used = true;
        self.out.refers.insert(node, id);
        let symbol = self.symbol(id);
        if let Some(note) = ast::annotation(symbol.annotations, "deprecated")
            && !self.is_builtin(span)
        {
            let name = symbol.name.clone();
            let text = note.string().unwrap_or_default();
            self.warn(
                Diagnostic::warning(warn::DEPRECATED, span, format!("`{name}` is deprecated")).note(text),
            );
        }
        if self.open.contains(&id) {
            let (name, first) = (self.symbol(id).name.clone(), self.symbol(id).span);
            // A function is known behind itself; a type is known in itself, and cannot be used there.
            let (stage, kind) = match self.symbol(id).kind {
                SymbolKind::Table(_) => (Stage::Types, code::TYPE),
                SymbolKind::Function(of) if self.out.functions[of.index()].kind == FnKind::Function => {
                    (Stage::Names, code::NOT_FOUND)
                }
                _ => (Stage::Types, code::UNSUPPORTED),
            };
            self.report_at(
                stage,
                Diagnostic::error(kind, span, format!("`{name}` is used inside itself"))
                    .label(first, "declared here")
                    .note("P4 has no recursion"),
            );
        }
    }

    fn set_type(&mut self, node: NodeId, ty: TypeId) -> TypeId {
        if let Some(slot) = self.out.type_of.get_mut(node.index()) {
            *slot = Some(ty);
        }
        ty
    }

    fn type_of(&self, node: NodeId) -> TypeId {
        self.out.ty(node).unwrap_or(TypeId::ERROR)
    }

    fn inside<T>(&mut self, context: Context, then: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.context, context);
        let result = then(self);
        self.context = before;
        result
    }
}
