//! Conversions: which type becomes which without a word, and which by a cast (specification, section 8.11).

use num_bigint::{BigInt, Sign};
use num_traits::{One as _, Zero as _};

use super::ty::{Type, TypeId};
use super::value::{self, Value};
use super::{Checker, code, warn};
use crate::ast::{Expr, ExprKind, KeyValue, Name};
use crate::diag::{Diagnostic, Label};
use crate::source::Span;
use barewire_text::nearest;

impl<'a> Checker<'a> {
    /// Looks at a value that goes to `site`: types that do not fit are told there, if the value's part is on another line.
    pub(super) fn at_site<R>(&mut self, site: Span, then: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.facts.site.replace(site);
        let result = then(self);
        self.facts.site = outer;
        result
    }

    /// A value that does not fit where it goes: the statement is the place, the part of it a second one.
    pub(super) fn misfit(&mut self, mut problem: Diagnostic) {
        let line = |span: Span| self.map.place(span).map(|place| place.at.line);
        if let Some(site) = self.facts.site
            && site.file == problem.span().file
            && line(site) != line(problem.span())
            && let Some(part) = problem.labels.first_mut()
        {
            part.primary = false;
            problem.labels.insert(0, Label { span: site, text: String::new(), primary: true });
        }
        self.report(problem);
    }

    /// The expression's type, which must be or become `to`. Says so if it does not.
    pub(super) fn expect(&mut self, expr: &'a Expr, to: TypeId) -> bool {
        self.expect_as(expr, to, &|shown, wanted| format!("expected `{wanted}`, found `{shown}`"))
    }

    /// Like [`Checker::expect`], with the message for two types.
    pub(super) fn expect_as(
        &mut self,
        expr: &'a Expr,
        to: TypeId,
        message: &dyn Fn(&str, &str) -> String,
    ) -> bool {
        let to = self.resolve(to);
        match &expr.kind {
            ExprKind::List { .. } | ExprKind::Struct { .. } | ExprKind::Invalid | ExprKind::Default
                if !matches!(self.out.types.get(to), Type::Infer(_)) =>
            {
                return self.expect_literal(expr, to);
            }
            ExprKind::Conditional(condition, then, otherwise)
                if self.has_literal(then) || self.has_literal(otherwise) =>
            {
                let good = self.expect(condition, TypeId::BOOL);
                let first = self.expect(then, to);
                let second = self.expect(otherwise, to);
                self.set_type(expr.id, to);
                return good && first && second;
            }
            _ => {}
        }
        let from = self.expr(expr);
        self.convert(expr, from, to, message)
    }

    fn has_literal(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::List { .. } | ExprKind::Struct { .. } | ExprKind::Invalid | ExprKind::Default => true,
            ExprKind::Conditional(_, then, otherwise) => {
                self.has_literal(then) || self.has_literal(otherwise)
            }
            _ => false,
        }
    }

    /// Converts an expression of type `from`, or says why not.
    pub(super) fn convert(
        &mut self,
        expr: &'a Expr,
        from: TypeId,
        to: TypeId,
        message: &dyn Fn(&str, &str) -> String,
    ) -> bool {
        let (from, to) = (self.resolve(from), self.resolve(to));
        if self.out.types.has_error(from) || self.out.types.has_error(to) {
            return true;
        }
        if self.implicit(from, to) {
            let to = self.deep(to);
            if from != to && !matches!(self.out.types.get(to), Type::Infer(_)) {
                self.out.converted.insert(expr.id, to);
            }
            if from == TypeId::INT {
                self.warn_overflow(expr, to);
            }
            return true;
        }
        let (shown, wanted) = (self.show(from), self.show(to));
        let mut problem = Diagnostic::error(code::TYPE, expr.span, message(&shown, &wanted))
            .here(format!("this is `{shown}`"));
        if self.can_cast(from, to, Some(expr)) {
            problem = problem.help(format!("write `({}) …` to cast it", self.cast_name(to)));
        } else if from == TypeId::BOOL && matches!(self.kind(to), Type::Bit(_)) {
            problem = problem.help("`b ? 1w1 : 1w0` makes a number of a `bool`");
        } else if to == TypeId::BOOL && matches!(self.kind(from), Type::Bit(_) | Type::Signed(_) | Type::Int)
        {
            problem = problem.help("compare it with something, such as `!= 0`");
        }
        self.misfit(problem);
        false
    }

    fn cast_name(&mut self, to: TypeId) -> String {
        let shown = self.show(to);
        shown.rsplit_once(' ').map_or(shown.clone(), |(_, name)| name.to_owned())
    }

    /// Is there a conversion without a word? Binds what is to be inferred.
    pub(super) fn implicit(&mut self, from: TypeId, to: TypeId) -> bool {
        let (from, to) = (self.resolve(from), self.resolve(to));
        if from == to {
            return true;
        }
        let (a, b) = (self.out.types.get(from).clone(), self.out.types.get(to).clone());
        match (&a, &b) {
            (Type::Error, _) | (_, Type::Error) => true,
            (Type::Int, Type::Bit(_) | Type::Signed(_)) | (Type::Bit(_) | Type::Signed(_), Type::Int) => true,
            (Type::Int, Type::Newtype(_)) => {
                let plain = self.plain(to);
                matches!(self.out.types.get(plain), Type::Bit(_) | Type::Signed(_))
            }
            (Type::Enum(id), Type::Bit(_) | Type::Signed(_)) => {
                self.out.enums[id.index()].repr.is_some_and(|repr| self.resolve(repr) == to)
            }
            (Type::Sequence(..), Type::Struct(..)) if self.is_union(to) => false,
            (Type::Sequence(parts, rest), _) => {
                let parts = parts.clone();
                match self.members_of(to) {
                    Some(members) => {
                        (parts.len() == members.len() || (*rest && parts.len() < members.len()))
                            && parts
                                .iter()
                                .zip(&members)
                                .all(|(&part, (_, member))| self.implicit(part, *member))
                    }
                    None => match b {
                        Type::List(of) => parts.iter().all(|&part| self.implicit(part, of)),
                        Type::Infer(_) => !rest && self.unify(from, to),
                        _ => false,
                    },
                }
            }
            (Type::Record(fields, rest), Type::Struct(id, args)) => {
                let (fields, rest) = (fields.clone(), *rest);
                let members = self.fields_of(*id, args);
                (rest || fields.len() == members.len())
                    && fields.iter().all(|(name, ty)| {
                        members
                            .iter()
                            .find(|(other, _)| other == name)
                            .is_some_and(|(_, member)| self.implicit(*ty, *member))
                    })
            }
            (Type::Invalid, _) => self.is_header(to) || self.is_union(to),
            (Type::Default, _) => self.has_default(to),
            _ => self.unify(from, to),
        }
    }

    /// Names and types of what a `{ … }` of this type lists.
    fn members_of(&mut self, ty: TypeId) -> Option<Vec<(Option<Name>, TypeId)>> {
        match self.kind(ty).clone() {
            Type::Struct(id, args) => {
                Some(self.fields_of(id, &args).into_iter().map(|(name, ty)| (Some(name), ty)).collect())
            }
            Type::Tuple(parts) => Some(parts.iter().map(|&part| (None, part)).collect()),
            Type::Stack(of, size) => Some(vec![(None, of); size as usize]),
            _ => None,
        }
    }

    /// `{ … }`, `{#}` and `...` where a type is wanted.
    fn expect_literal(&mut self, expr: &'a Expr, to: TypeId) -> bool {
        if self.out.types.has_error(to) {
            self.expr(expr);
            return true;
        }
        self.set_type(expr.id, to);
        let shown = self.show(to);
        match &expr.kind {
            ExprKind::Invalid => {
                if self.is_header(to) || self.is_union(to) {
                    return true;
                }
                self.misfit(Diagnostic::error(
                    code::TYPE,
                    expr.span,
                    format!("`{{#}}` is an invalid header or union, but `{shown}` is wanted"),
                ));
                false
            }
            ExprKind::Default => {
                if self.has_default(to) {
                    return true;
                }
                self.type_error(expr.span, format!("`{shown}` has no default value"));
                false
            }
            ExprKind::List { items, rest } => self.expect_list(expr.span, items, *rest, to),
            ExprKind::Struct { fields, rest } => self.expect_struct(expr.span, fields, *rest, to),
            _ => false,
        }
    }

    /// `{ a, b, … }` where a type is wanted.
    fn expect_list(&mut self, span: Span, items: &'a [Expr], rest: Option<Span>, to: TypeId) -> bool {
        self.dots_last(items);
        if let Type::List(of) = self.kind(to).clone() {
            let bad = items.iter().filter(|item| !self.expect(item, of)).count();
            return bad == 0;
        }
        let shown = self.show(to);
        let Some(members) = self.members_of(to).filter(|_| !self.is_union(to)) else {
            for item in items {
                self.expr(item);
            }
            self.misfit(Diagnostic::error(code::TYPE, span, format!("`{{ … }}` cannot be `{shown}`")));
            return false;
        };
        if items.len() > members.len() || (items.len() < members.len() && rest.is_none()) {
            for item in items {
                self.expr(item);
            }
            let mut problem = Diagnostic::error(
                code::TYPE,
                span,
                format!("`{shown}` has {} members, here are {}", members.len(), items.len()),
            );
            if items.len() < members.len() {
                problem = problem.help("`...` at the end stands for the default values of the rest");
            }
            self.misfit(problem);
            return false;
        }
        let good = items
            .iter()
            .zip(&members)
            .fold(true, |good, (item, (_, member))| self.expect(item, *member) && good);
        good && self.rest_default(rest, members.iter().skip(items.len()).map(|(_, ty)| *ty).collect())
    }

    /// `{ name = a, … }` where a type is wanted.
    fn expect_struct(&mut self, span: Span, fields: &'a [KeyValue], rest: Option<Span>, to: TypeId) -> bool {
        let shown = self.show(to);
        let Type::Struct(id, args) = self.kind(to).clone() else {
            for field in fields {
                self.expr(&field.value);
            }
            let text = format!("`{{ name = … }}` cannot be `{shown}`");
            self.misfit(Diagnostic::error(code::TYPE, span, text));
            return false;
        };
        self.fields_once(fields);
        let members = self.fields_of(id, &args);
        let mut good = true;
        // What is wrong inside comes before what is wrong with the whole.
        let mut unknown = Vec::new();
        for field in fields {
            match members.iter().find(|(name, _)| *name == field.key.name) {
                Some(&(_, ty)) => good &= self.expect(&field.value, ty),
                None => {
                    self.expr(&field.value);
                    let near = nearest(&field.key.name, members.iter().map(|(name, _)| &**name));
                    let mut problem = Diagnostic::error(
                        code::TYPE,
                        field.key.span,
                        format!("`{shown}` has no field `{}`", field.key),
                    );
                    if let Some(near) = near {
                        problem = problem.help(format!("there is a `{near}`"));
                    }
                    unknown.push(problem);
                    good = false;
                }
            }
        }
        unknown.into_iter().for_each(|problem| self.misfit(problem));
        let missing: Vec<(Name, TypeId)> = members
            .into_iter()
            .filter(|(name, _)| !fields.iter().any(|field| field.key.name == *name))
            .collect();
        if rest.is_none() && !missing.is_empty() {
            if good {
                self.misfit(
                    Diagnostic::error(
                        code::TYPE,
                        span,
                        format!("field `{}` of `{shown}` has no value here", missing[0].0),
                    )
                    .help("`...` at the end stands for the default values of the rest"),
                );
            }
            return false;
        }
        good && self.rest_default(rest, missing.into_iter().map(|(_, ty)| ty).collect())
    }

    fn rest_default(&mut self, rest: Option<Span>, types: Vec<TypeId>) -> bool {
        let Some(span) = rest else { return true };
        for ty in types {
            if !self.has_default(ty) {
                let shown = self.show(ty);
                self.type_error(span, format!("`{shown}` has no default value"));
                return false;
            }
        }
        true
    }

    /// Is there a default value (section 8.27)?
    pub(super) fn has_default(&mut self, ty: TypeId) -> bool {
        match self.kind(ty).clone() {
            Type::Error
            | Type::Bool
            | Type::Str
            | Type::ErrorCode
            | Type::Int
            | Type::Bit(_)
            | Type::Signed(_)
            | Type::Varbit(_)
            | Type::Var(_)
            | Type::Enum(_) => true,
            Type::Newtype(id) => {
                let of = self.out.newtypes[id.index()].of;
                self.has_default(of)
            }
            Type::Struct(id, args) => {
                if self.is_header(ty) || self.is_union(ty) {
                    return true;
                }
                self.fields_of(id, &args).into_iter().all(|(_, ty)| self.has_default(ty))
            }
            Type::Tuple(parts) => parts.iter().all(|&part| self.has_default(part)),
            Type::Stack(of, _) => self.has_default(of),
            _ => false,
        }
    }

    /// Is there a cast? `expr` is what is cast, for the values that only some of may be.
    pub(super) fn can_cast(&mut self, from: TypeId, to: TypeId, expr: Option<&'a Expr>) -> bool {
        let (from, to) = (self.resolve(from), self.resolve(to));
        if from == to {
            return true;
        }
        let (a, b) = (self.out.types.get(from).clone(), self.out.types.get(to).clone());
        match (&a, &b) {
            (Type::Error, _) | (_, Type::Error) => true,
            (Type::Bit(_), Type::Bit(_)) | (Type::Signed(_), Type::Signed(_)) => true,
            (Type::Bit(x), Type::Signed(y)) | (Type::Signed(x), Type::Bit(y)) => x == y,
            (Type::Bool, Type::Bit(1)) | (Type::Bit(1), Type::Bool) => true,
            (Type::Bit(_) | Type::Signed(_), Type::Int) => true,
            (Type::Int, Type::Bit(_) | Type::Signed(_)) => true,
            (Type::Int, Type::Bool) => expr.is_some_and(|expr| {
                self.fold(expr)
                    .as_ref()
                    .and_then(Value::as_int)
                    .is_some_and(|value| value.is_zero() || *value == BigInt::one())
            }),
            (_, Type::Newtype(id)) => {
                let of = self.out.newtypes[id.index()].of;
                let of = self.resolve(of);
                of == from
                    || (from == TypeId::INT && self.can_cast(from, of, expr))
                    || self.newtype_of(from, to)
            }
            (Type::Newtype(id), _) => {
                let of = self.out.newtypes[id.index()].of;
                self.resolve(of) == to
            }
            (_, Type::Enum(id)) => match self.out.enums[id.index()].repr {
                Some(repr) => self.can_cast(from, repr, expr),
                None => false,
            },
            (Type::Enum(id), _) => match self.out.enums[id.index()].repr {
                Some(repr) => self.can_cast(repr, to, None),
                None => false,
            },
            (Type::Sequence(..) | Type::Record(..) | Type::Invalid | Type::Default, _) => {
                self.implicit(from, to)
            }
            (Type::Tuple(parts), Type::Struct(..)) => {
                let parts = parts.clone();
                self.members_of(to).is_some_and(|members| {
                    members.len() == parts.len()
                        && parts.iter().zip(&members).all(|(&part, (_, member))| self.unify(part, *member))
                })
            }
            _ => self.unify(from, to),
        }
    }

    /// A newtype made of `from`, perhaps through others.
    fn newtype_of(&self, from: TypeId, to: TypeId) -> bool {
        let mut ty = to;
        while let Type::Newtype(id) = self.out.types.get(ty) {
            ty = self.resolve(self.out.newtypes[id.index()].of);
            if ty == from {
                return true;
            }
        }
        false
    }

    /// A constant without a width that does not fit the width it gets.
    pub(super) fn warn_overflow(&mut self, expr: &'a Expr, to: TypeId) {
        let (width, signed) = match self.kind(to) {
            Type::Bit(width) => (*width, false),
            Type::Signed(width) => (*width, true),
            _ => return,
        };
        // The value as it was written: what it is converted to always fits.
        if let Some(Value::Int(number)) = self.fold_plain(expr)
            && !value::fits(&number, width, signed)
        {
            let shown = self.show(to);
            let kept = value::wrap(&number, width, signed);
            let negative = number.sign() == Sign::Minus && !signed;
            let code = if negative { warn::MISMATCH } else { warn::OVERFLOW };
            self.warn(
                Diagnostic::warning(code, expr.span, format!("{number} does not fit `{shown}`"))
                    .here(format!("becomes {kept}")),
            );
        }
    }
}
