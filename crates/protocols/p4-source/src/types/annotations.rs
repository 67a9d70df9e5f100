//! The arguments of annotations that the language (specification, section 20) or P4Runtime define. Others may say what
//! they like.

use super::ty::TypeId;
use super::{Checker, FieldInfo, Stage, code};
use crate::ast::{self, Annotation, AnnotationBody, AnnotationTokenKind};
use crate::diag::Diagnostic;

/// What stands in the parentheses of a known annotation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Nothing.
    Nothing,
    /// One string.
    String,
    /// `a = 1, b = 2`
    Pairs,
    /// One expression or more.
    Expressions,
}

fn known(name: &str) -> Option<Body> {
    Some(match name {
        "atomic" | "defaultonly" | "hidden" | "noSideEffects" | "optional" | "pure" | "tableonly" => {
            Body::Nothing
        }
        "brief" | "deprecated" | "description" | "name" | "noWarn" => Body::String,
        "pkginfo" | "platform_property" => Body::Pairs,
        "id" | "length" | "match" => Body::Expressions,
        _ => return None,
    })
}

impl<'a> Checker<'a> {
    pub(super) fn check_annotations(&mut self, annotations: &'a [Annotation]) {
        for note in annotations {
            self.structured(note);
            let Some(body) = known(&note.name.name) else { continue };
            if !matches!(note.body, AnnotationBody::None | AnnotationBody::Unstructured(_)) {
                continue;
            }
            let tokens: &[ast::AnnotationToken] = match &note.body {
                AnnotationBody::Unstructured(tokens) => tokens,
                _ => &[],
            };
            let wrong = match body {
                Body::Nothing if !tokens.is_empty() => Some("has no arguments"),
                Body::String if note.string().is_none() => Some("has one string as its argument"),
                Body::Pairs if tokens.is_empty() => Some("has arguments such as `name = \"…\"`"),
                Body::Expressions if tokens.is_empty() => Some("has an argument"),
                _ => None,
            };
            if let Some(wrong) = wrong {
                let kind = match (body, note.name.as_str()) {
                    (Body::String, "deprecated") => code::TYPE,
                    (Body::String, "name" | "noWarn") => code::INVALID,
                    _ => code::SYNTAX,
                };
                self.report_at(
                    Stage::List,
                    Diagnostic::error(kind, note.span, format!("annotation `@{}` {wrong}", note.name)),
                );
            }
        }
    }

    /// `@x[…]`: constants without a width, truth values and strings (section 20.2).
    fn structured(&mut self, note: &'a Annotation) {
        let values: Vec<&'a ast::Expr> = match &note.body {
            AnnotationBody::Expressions(list) => list.iter().collect(),
            AnnotationBody::KeyValues(list) => list.iter().map(|pair| &pair.value).collect(),
            _ => return,
        };
        for value in values {
            if self.out.ty(value.id).is_some() {
                continue;
            }
            let ty = self.expr(value);
            let ty = self.resolve(ty);
            if self.out.types.has_error(ty) {
                continue;
            }
            if !matches!(ty, TypeId::INT | TypeId::BOOL | TypeId::STRING) {
                let shown = self.show(ty);
                let text = format!(
                    "a value of `@{}[…]` is an `int`, a `bool` or a `string`, not `{shown}`",
                    note.name
                );
                self.type_error(value.span, text);
            } else if !self.is_known(value) {
                self.type_error(value.span, "a value in brackets of an annotation is a constant");
            }
        }
    }

    /// `@length` and `@match` of a field name other things.
    pub(super) fn check_field_annotations(&mut self, field: &'a ast::Field, before: &[FieldInfo<'a>]) {
        self.check_annotations(&field.annotations);
        for note in &field.annotations {
            let AnnotationBody::Unstructured(tokens) = &note.body else { continue };
            match note.name.as_str() {
                "length" => {
                    // Words that are not behind a dot are fields in front, or names in scope.
                    let mut behind_dot = false;
                    for token in tokens {
                        let word = token.kind == AnnotationTokenKind::Word;
                        let declared = before.iter().any(|field| field.name == token.text)
                            || !self.lookup(&token.text, false).is_empty()
                            || matches!(&*token.text, "bit" | "int" | "true" | "false" | "bool");
                        if word && !behind_dot && !declared {
                            self.report(Diagnostic::error(
                                code::NOT_FOUND,
                                token.span,
                                format!("`{}` is not declared", token.text),
                            ));
                        }
                        behind_dot = &*token.text == "." && token.kind == AnnotationTokenKind::Symbol;
                    }
                }
                "match" => {
                    let good = match &tokens[..] {
                        [token] if token.kind == AnnotationTokenKind::Word => self
                            .lookup(&token.text, false)
                            .first()
                            .is_some_and(|&id| self.symbol(id).ty == TypeId::MATCH_KIND),
                        _ => false,
                    };
                    if !good {
                        self.type_error(note.span, "`@match` names a match kind");
                    }
                }
                _ => {}
            }
        }
    }
}
