//! Rules that need no names: what may stand where, what may not stand twice.

use super::{Checker, Stage, code};
use crate::ast::{
    self, Block, Decl, DeclKind, Direction, Expr, ExprKind, Param, PropertyKind, Stmt, StmtKind, SwitchLabel,
    annotation,
};
use crate::diag::Diagnostic;

/// What surrounds a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Top,
    Function,
    Action,
    State,
    Apply,
    Locals,
}

/// What parameters belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// A type or an extern: `@optional` is possible.
    Prototype,
    /// Something with a body.
    Body,
    /// A constructor or package: no directions.
    Constructor { optional: bool },
}

impl<'a> Checker<'a> {
    pub(super) fn check_shape(&mut self, program: &'a ast::Program) {
        let mut tables = false;
        for decl in &program.decls {
            self.shape_decl(decl, In::Top, &mut tables);
        }
        if tables {
            self.check_no_action(program);
        }
    }

    fn shape(&mut self, problem: Diagnostic) {
        self.report_at(Stage::Shape, problem);
    }

    /// A table without a default action needs `NoAction`.
    fn check_no_action(&mut self, program: &'a ast::Program) {
        let found =
            program.decls.iter().find(|decl| decl.name().is_some_and(|name| name.as_str() == "NoAction"));
        match found {
            Some(Decl { kind: DeclKind::Action(it), .. }) if it.params.is_empty() => {}
            Some(Decl { kind: DeclKind::Action(it), .. }) => self.report_at(
                Stage::Builtin,
                Diagnostic::error(code::MODEL, it.name.span, "`NoAction` has parameters")
                    .note("a table without `default_action` has it as its default")
                    .help("`#include <core.p4>` declares it without any"),
            ),
            Some(decl) => {
                let span = decl.name().map_or(decl.span, |name| name.span);
                self.report_at(
                    Stage::Builtin,
                    Diagnostic::error(code::MODEL, span, "`NoAction` is no action")
                        .help("`#include <core.p4>` declares it"),
                );
            }
            None => self.report_at(
                Stage::Builtin,
                Diagnostic::error(
                    code::MODEL,
                    crate::source::Span::NONE,
                    "action `NoAction` is not declared",
                )
                .note("a table without `default_action` has it as its default")
                .help("`#include <core.p4>` declares it"),
            ),
        }
    }

    fn shape_decl(&mut self, decl: &'a Decl, place: In, tables: &mut bool) {
        self.structured_once(&decl.annotations);
        match &decl.kind {
            DeclKind::Extern(it) => self.shape_extern(it),
            DeclKind::ExternFunction(it) => self.shape_params(&it.params, Of::Prototype),
            DeclKind::Function(it) => {
                self.shape_params(&it.proto.params, Of::Body);
                self.shape_block(&it.body, In::Function, tables);
            }
            DeclKind::Action(it) => {
                self.shape_params(&it.params, Of::Body);
                self.shape_block(&it.body, In::Action, tables);
            }
            DeclKind::ParserType(it) | DeclKind::ControlType(it) => {
                self.shape_params(&it.params, Of::Prototype)
            }
            DeclKind::PackageType(it) => self.shape_params(&it.params, Of::Constructor { optional: true }),
            DeclKind::Parser(it) => {
                self.shape_params(&it.head.params, Of::Prototype);
                self.shape_params(&it.constructor_params, Of::Constructor { optional: false });
                for local in &it.locals {
                    self.shape_decl(local, In::Locals, tables);
                }
                for state in &it.states {
                    if matches!(state.name.as_str(), "accept" | "reject") {
                        self.shape(Diagnostic::error(
                            code::INVALID,
                            state.name.span,
                            format!("state `{}` is there by itself and cannot be declared", state.name),
                        ));
                    }
                    for stmt in &state.stmts {
                        self.shape_stmt(stmt, In::State, tables);
                    }
                }
                if !it.states.iter().any(|state| state.name.as_str() == "start") {
                    self.shape(Diagnostic::error(
                        code::INVALID,
                        it.head.name.span,
                        format!("parser `{}` has no state `start`", it.head.name),
                    ));
                }
            }
            DeclKind::Control(it) => {
                self.shape_params(&it.head.params, Of::Prototype);
                self.shape_params(&it.constructor_params, Of::Constructor { optional: false });
                for local in &it.locals {
                    self.shape_decl(local, In::Locals, tables);
                }
                self.shape_block(&it.apply, In::Apply, tables);
            }
            DeclKind::Instance(it) => {
                self.shape_instance(it, place);
                for inner in it.body.iter().flatten() {
                    self.shape_decl(inner, In::Locals, tables);
                }
            }
            DeclKind::Table(it) => self.shape_table(it, tables),
            _ => {}
        }
    }

    fn shape_extern(&mut self, it: &'a ast::Extern) {
        for method in &it.methods {
            let named_so = method.proto.name.name == it.name.name;
            if named_so && !method.is_constructor() {
                self.shape(
                    Diagnostic::error(
                        code::INVALID,
                        method.proto.name.span,
                        format!("constructor `{}` has no result", it.name),
                    )
                    .label(it.name.span, "the extern"),
                );
            } else if !named_so && method.is_constructor() {
                self.shape(
                    Diagnostic::error(
                        code::INVALID,
                        method.proto.name.span,
                        format!("method `{}` needs the type of its result", method.proto.name),
                    )
                    .help(format!("a constructor is called `{}`, like the extern", it.name)),
                );
            }
            let of = if method.is_constructor() { Of::Constructor { optional: true } } else { Of::Prototype };
            self.shape_params(&method.proto.params, of);
        }
    }

    fn shape_instance(&mut self, it: &'a ast::Instance, place: In) {
        if let Some(base) = base_type(&it.ty) {
            self.shape(
                Diagnostic::error(code::INVALID, base, "this type has no instances")
                    .help("externs, parsers, controls and packages have"),
            );
        }
        let place = match place {
            In::Action => "an action",
            In::State => "the state of a parser",
            In::Apply => "an `apply` block",
            In::Function => "a function or method",
            _ => return,
        };
        self.shape(
            Diagnostic::error(code::INVALID, it.name.span, format!("{place} has no instances"))
                .help("declare it outside"),
        );
    }

    /// `tables` becomes true where a table has no `default_action`.
    fn shape_table(&mut self, it: &'a ast::Table, tables: &mut bool) {
        if !it.properties.iter().any(|property| property.name.as_str() == "actions") {
            self.shape(Diagnostic::error(
                code::EXPECTED,
                it.name.span,
                format!("table `{}` has no `actions`", it.name),
            ));
        }
        if !it.properties.iter().any(|property| property.name.as_str() == "default_action") {
            *tables = true;
        }
        for property in &it.properties {
            self.structured_once(&property.annotations);
            if let (PropertyKind::Value(Expr { kind, span, .. }), "default_action") =
                (&property.kind, property.name.as_str())
                && matches!(kind, ExprKind::DontCare)
            {
                self.shape(Diagnostic::error(code::INVALID, *span, "the default action is an action"));
            }
        }
    }

    /// An annotation with brackets stands once, and not beside one with parentheses.
    pub(super) fn structured_once(&mut self, annotations: &'a [ast::Annotation]) {
        for (at, note) in annotations.iter().enumerate() {
            let structured = |note: &ast::Annotation| {
                matches!(note.body, ast::AnnotationBody::Expressions(_) | ast::AnnotationBody::KeyValues(_))
            };
            if let Some(other) = annotations[..at]
                .iter()
                .find(|other| other.name.name == note.name.name && (structured(note) || structured(other)))
            {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        note.span,
                        format!("annotation `@{}` stands twice", note.name),
                    )
                    .label(other.span, "here before"),
                );
            }
            if let ast::AnnotationBody::KeyValues(list) = &note.body {
                for (at, pair) in list.iter().enumerate() {
                    if let Some(other) = list[..at].iter().find(|other| other.key.name == pair.key.name) {
                        self.report_at(
                            Stage::List,
                            Diagnostic::error(
                                code::DUPLICATE,
                                pair.key.span,
                                format!("key `{}` stands twice", pair.key),
                            )
                            .label(other.key.span, "here before"),
                        );
                    }
                }
            }
        }
    }

    fn shape_params(&mut self, params: &'a [Param], of: Of) {
        for param in params {
            let optional = annotation(&param.annotations, "optional");
            if let Of::Constructor { .. } = of
                && param.direction != Direction::None
            {
                self.shape(Diagnostic::error(
                    code::INVALID,
                    param.span,
                    format!("parameter `{}` of a constructor has no direction", param.name),
                ));
            }
            if let Some(default) = &param.default {
                if matches!(param.direction, Direction::Out | Direction::InOut) {
                    let word = if param.direction == Direction::Out { "out" } else { "inout" };
                    self.shape(Diagnostic::error(
                        code::INVALID,
                        default.span,
                        format!("`{word}` parameter `{}` has no default value", param.name),
                    ));
                }
                if let Some(note) = optional {
                    self.shape(Diagnostic::error(
                        code::INVALID,
                        note.span,
                        format!("parameter `{}` is optional or has a default value, not both", param.name),
                    ));
                }
            }
            if let Some(note) = optional
                && matches!(of, Of::Body | Of::Constructor { optional: false })
            {
                self.shape(
                    Diagnostic::error(
                        code::INVALID,
                        param.span,
                        format!("parameter `{}` cannot be optional", param.name),
                    )
                    .label(note.span, "only those of types, packages and externs can"),
                );
            }
        }
    }

    fn shape_block(&mut self, block: &'a Block, place: In, tables: &mut bool) {
        for stmt in &block.stmts {
            self.shape_stmt(stmt, place, tables);
        }
    }

    fn shape_stmt(&mut self, stmt: &'a Stmt, place: In, tables: &mut bool) {
        match &stmt.kind {
            StmtKind::Decl(decl) => self.shape_decl(decl, place, tables),
            StmtKind::If(it) => {
                for arm in &it.arms {
                    self.shape_stmt(&arm.body, place, tables);
                }
                if let Some(otherwise) = &it.otherwise {
                    self.shape_stmt(otherwise, place, tables);
                }
            }
            StmtKind::Switch(it) => self.shape_switch(stmt.span, it, place, tables),
            StmtKind::For(it) => self.shape_stmt(&it.body, place, tables),
            StmtKind::ForIn(it) => self.shape_stmt(&it.body, place, tables),
            StmtKind::Block(block) => self.shape_block(block, place, tables),
            StmtKind::Return(_) if place == In::State => {
                self.shape(Diagnostic::error(code::INVALID, stmt.span, "`return` cannot stand in a parser"));
            }
            StmtKind::Exit if matches!(place, In::State | In::Function) => {
                let what = if place == In::State { "a parser" } else { "a function" };
                self.shape(Diagnostic::error(
                    code::INVALID,
                    stmt.span,
                    format!("`exit` cannot stand in {what}"),
                ));
            }
            _ => {}
        }
    }

    fn shape_switch(
        &mut self,
        whole: crate::source::Span,
        it: &'a ast::Switch,
        place: In,
        tables: &mut bool,
    ) {
        let head = crate::source::Span { end: it.subject.span.end, ..whole };
        let mut default = None;
        for case in &it.cases {
            match &case.label {
                SwitchLabel::Default(span) => {
                    if let Some(first) = default {
                        self.shape(
                            Diagnostic::error(code::INVALID, head, "`default` stands twice in this `switch`")
                                .label(first, "here")
                                .label(*span, "and here"),
                        );
                    }
                    default = Some(*span);
                }
                SwitchLabel::Value(label) => {
                    if let Some(first) = default {
                        self.shape(
                            Diagnostic::error(
                                code::INVALID,
                                head,
                                "a label of this `switch` stands behind `default`",
                            )
                            .label(first, "`default` is the last")
                            .label(label.span, "this label is never looked at"),
                        );
                    }
                }
            }
            if let Some(body) = &case.body {
                self.shape_block(body, place, tables);
            }
        }
    }
}

/// The place of a type that has no constructor, whatever is declared.
fn base_type(ty: &ast::Type) -> Option<crate::source::Span> {
    match &ty.kind {
        ast::TypeKind::Name(_) | ast::TypeKind::Specialized(..) => None,
        ast::TypeKind::Stack(of, _) => base_type(of),
        _ => Some(ty.span),
    }
}
