//! Paths through bodies: functions that do not return, states nobody reaches, names nobody uses.

use std::collections::{HashMap, HashSet};

use super::ty::TypeId;
use super::{Checker, Stage, SymbolKind, code, warn};
use crate::ast::{self, Block, KeysetKind, Name, Stmt, StmtKind, SwitchLabel, TransitionKind};
use crate::diag::Diagnostic;
use crate::source::Span;

/// What comes after a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// The next one.
    Next,
    /// Nothing: it returns or exits.
    Nothing,
}

impl<'a> Checker<'a> {
    /// A function with a result returns on every path.
    pub(super) fn check_returns(&mut self, name: &str, span: Span, result: TypeId, body: &'a Block) {
        let after = self.after_block(body);
        if after == After::Next && result != TypeId::VOID && result != TypeId::ERROR {
            self.report_at(
                Stage::Flow,
                Diagnostic::error(
                    code::INSUFFICIENT,
                    span,
                    format!("function `{name}` does not return a value on every path"),
                )
                .label(
                    Span { start: body.span.end.saturating_sub(1), ..body.span },
                    "this end can be reached",
                ),
            );
        }
    }

    fn after_block(&mut self, block: &'a Block) -> After {
        let mut after = After::Next;
        for stmt in &block.stmts {
            if after == After::Nothing {
                if !matches!(stmt.kind, StmtKind::Empty) {
                    self.warn(Diagnostic::warning(warn::UNREACHABLE, stmt.span, "this is never executed"));
                }
                return After::Nothing;
            }
            after = self.after(stmt);
        }
        after
    }

    fn after(&mut self, stmt: &'a Stmt) -> After {
        match &stmt.kind {
            StmtKind::Return(_) | StmtKind::Exit | StmtKind::Break | StmtKind::Continue => After::Nothing,
            StmtKind::Block(block) => self.after_block(block),
            StmtKind::If(it) => {
                let mut all = true;
                for arm in &it.arms {
                    all &= self.after(&arm.body) == After::Nothing;
                }
                match &it.otherwise {
                    Some(otherwise) => {
                        if self.after(otherwise) == After::Nothing && all {
                            After::Nothing
                        } else {
                            After::Next
                        }
                    }
                    None => After::Next,
                }
            }
            StmtKind::Switch(it) => {
                let mut all = it.cases.iter().any(|case| matches!(case.label, SwitchLabel::Default(_)));
                for case in &it.cases {
                    if let Some(body) = &case.body {
                        all &= self.after_block(body) == After::Nothing;
                    }
                }
                if all { After::Nothing } else { After::Next }
            }
            StmtKind::For(it) => {
                self.after(&it.body);
                After::Next
            }
            StmtKind::ForIn(it) => {
                self.after(&it.body);
                After::Next
            }
            _ => After::Next,
        }
    }

    /// Warns of what stands behind a `return`, an `exit` and the like.
    pub(super) fn check_ends(&mut self, body: &'a Block) {
        self.after_block(body);
    }

    /// States that the first one does not reach, and parsers that never end.
    pub(super) fn check_reach(&mut self, parser: &'a ast::Parser) {
        let states: HashMap<&Name, &'a ast::State> =
            parser.states.iter().map(|state| (&state.name.name, state)).collect();
        let Some(start) = parser.states.iter().find(|state| state.name.as_str() == "start") else { return };
        let mut seen: HashSet<&Name> = HashSet::new();
        let mut ends = false;
        let mut work = vec![start];
        seen.insert(&start.name.name);
        while let Some(state) = work.pop() {
            let mut go = |name: &'a ast::Ident, work: &mut Vec<&'a ast::State>| {
                if matches!(name.as_str(), "accept" | "reject") {
                    ends = true;
                } else if let Some(next) = states.get(&name.name)
                    && seen.insert(&next.name.name)
                {
                    work.push(next);
                }
            };
            match &state.transition {
                None => ends = true,
                Some(transition) => match &transition.kind {
                    TransitionKind::Direct(target) => go(target, &mut work),
                    TransitionKind::Select(select) => {
                        let mut total = false;
                        for case in &select.cases {
                            total |= matches!(case.keyset.kind, KeysetKind::Default | KeysetKind::DontCare);
                            go(&case.state, &mut work);
                        }
                        ends |= !total;
                    }
                },
            }
        }
        for state in &parser.states {
            if !seen.contains(&state.name.name) {
                self.warn(Diagnostic::warning(
                    warn::UNREACHABLE,
                    state.name.span,
                    format!("state `{}` is never reached", state.name),
                ));
            }
        }
        if !ends {
            self.report_at(
                Stage::Flow,
                Diagnostic::error(
                    code::UNREACHABLE,
                    parser.head.name.span,
                    format!("parser `{}` reaches neither `accept` nor `reject`", parser.head.name),
                ),
            );
        }
    }

    /// Names that nothing uses. A file without `main` is there for others to include: its global names are for them.
    pub(super) fn warn_unused(&mut self) {
        let mut list = Vec::new();
        let library = self.out.main.is_none();
        for symbol in &self.out.symbols {
            if symbol.used
                || (library && symbol.global)
                || self.is_builtin(symbol.span)
                || silenced(symbol.annotations, warn::UNUSED)
            {
                continue;
            }
            let what = match symbol.kind {
                SymbolKind::Variable => "variable",
                SymbolKind::Instance => "instance",
                SymbolKind::Function(id) => match self.out.functions[id.index()].kind {
                    super::FnKind::Action => "action",
                    super::FnKind::Function => "function",
                    _ => continue,
                },
                SymbolKind::Table(_) => "table",
                SymbolKind::ValueSet => "value set",
                SymbolKind::Const if !symbol.global => "constant",
                SymbolKind::Block(id) if self.out.blocks[id.index()].has_body => {
                    self.out.blocks[id.index()].kind.word()
                }
                _ => continue,
            };
            if what == "function" && symbol.annotations.iter().any(|note| &note.name == "hidden") {
                continue;
            }
            list.push(Diagnostic::warning(
                warn::UNUSED,
                symbol.span,
                format!("{what} `{}` is not used", symbol.name),
            ));
        }
        for problem in list {
            self.report_at(Stage::Flow, problem);
        }
    }
}

/// `@noWarn("…")`
pub(super) fn silenced(annotations: &[ast::Annotation], code: &str) -> bool {
    annotations.iter().any(|note| &note.name == "noWarn" && note.string().as_deref() == Some(code))
}
