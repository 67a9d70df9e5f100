//! Names that a control plane sees: `@name`, names of what stands in instances, names of table keys.

use super::{InstanceId, Instances};
use crate::ast::{self, Annotation, BinaryOp, Expr, ExprKind, KeyElement};
use crate::types::ty::Type;
use crate::types::value::wrap;
use crate::types::{Callee, MemberRef, Typed};

/// What a declaration is called outside: its `@name`, or its own name. With a dot in front it is a name of the top level.
#[must_use]
pub fn external_name(annotations: &[Annotation], name: &str) -> String {
    ast::annotation(annotations, "name").and_then(Annotation::string).unwrap_or_else(|| name.to_owned())
}

impl<'a> Instances<'a, '_> {
    /// The whole name of something declared in an instance: the names of the instances around it, dots between them, up to a name
    /// that begins with a dot.
    #[must_use]
    pub fn qualify(&self, within: Option<InstanceId>, annotations: &[Annotation], name: &str) -> String {
        let mut whole = external_name(annotations, name);
        let mut around = within;
        while let Some(id) = around {
            if whole.starts_with('.') {
                break;
            }
            let instance = self.get(id);
            whole = format!("{}.{whole}", instance.prefix);
            around = instance.parent;
        }
        match whole.strip_prefix('.') {
            Some(rest) => rest.to_owned(),
            None => whole,
        }
    }

    /// The name of a table's key: its `@name`, or the text of its expression where that has a usual form.
    #[must_use]
    pub fn key_name(&self, key: &'a KeyElement) -> Option<String> {
        key_name(self.typed, key)
    }
}

/// The name of a table's key: its `@name`, or the text of its expression where that has a usual form.
#[must_use]
pub fn key_name(typed: &Typed<'_>, key: &KeyElement) -> Option<String> {
    match ast::annotation(&key.annotations, "name").and_then(Annotation::string) {
        Some(name) => Some(name),
        None => expr_name(typed, &key.expr),
    }
}

fn expr_name(typed: &Typed<'_>, expr: &Expr) -> Option<String> {
    let inner = |expr: &Expr| {
        // A constant by name is its value.
        match (&expr.kind, typed.refers_to(expr.id)) {
            (ExprKind::Path { .. }, Some(symbol)) if typed.constants.contains_key(&symbol.node) => {
                typed.constants[&symbol.node].as_int().map(ToString::to_string)
            }
            _ => expr_name(typed, expr),
        }
    };
    match &expr.kind {
        ExprKind::Path { absolute, name } => Some(format!("{}{name}", if *absolute { "." } else { "" })),
        ExprKind::Member(base, member) => {
            let field = match typed.members.get(&expr.id) {
                Some(MemberRef::Field(at)) => match typed.ty(base.id).map(|ty| typed.types.get(ty)) {
                    Some(Type::Struct(of, _)) => {
                        typed.structs[of.index()].fields.get(*at as usize).map(|field| field.decl)
                    }
                    _ => None,
                },
                _ => None,
            };
            let name = field.map_or_else(
                || member.to_string(),
                |field| external_name(&field.annotations, field.name.as_str()),
            );
            if let Some(global) = name.strip_prefix('.') {
                return Some(global.to_owned());
            }
            Some(format!("{}.{name}", expr_name(typed, base)?))
        }
        ExprKind::Index(base, index) => Some(format!("{}[{}]", expr_name(typed, base)?, inner(index)?)),
        ExprKind::Slice { base, high, low } => {
            Some(format!("{}[{}:{}]", expr_name(typed, base)?, inner(high)?, inner(low)?))
        }
        ExprKind::Binary(BinaryOp::BitAnd, a, b) => Some(format!("{} & {}", inner(a)?, inner(b)?)),
        ExprKind::Int(literal) => {
            let value = match literal.width {
                Some(width) => wrap(&literal.value, width.bits, width.signed),
                None => literal.value.clone(),
            };
            Some(match literal.base {
                2 => format!("0b{value:b}"),
                8 => format!("0o{value:o}"),
                16 => format!("0x{value:x}"),
                _ => value.to_string(),
            })
        }
        ExprKind::Call(call) => match (&call.callee.kind, typed.calls.get(&expr.id)) {
            (ExprKind::Member(base, _), Some(info)) if info.callee == Callee::IsValid => {
                Some(format!("{}.$valid$", expr_name(typed, base)?))
            }
            _ => None,
        },
        _ => None,
    }
}
