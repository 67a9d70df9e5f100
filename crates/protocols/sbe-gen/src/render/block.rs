//! The fields of a block: what is read.

use super::types::Ty;
use super::{Context, literal, rust, since_note};
use crate::layout::{Body, Field, Primitive};
use crate::names::{Scope, snake};
use std::fmt::Write;

/// A block as the generator sees it.
pub(super) struct Block<'a> {
    pub(super) body: &'a Body,
    /// The version that its first fields have.
    pub(super) base: u16,
    /// Bytes that those take.
    pub(super) min: usize,
    /// What a field is called, in the order of fields.
    names: Vec<String>,
    /// From where it is written to the schema's module.
    pub(super) within: &'static str,
}

impl<'a> Block<'a> {
    /// A root block or an entry's. `scope` has the names that are taken beside it.
    pub(super) fn new(body: &'a Body, base: u16, scope: &mut Scope) -> Self {
        let ends = body.fields.iter().filter(|f| f.since <= base).map(|f| f.offset + f.ty.kind.size());
        let names = body.fields.iter().map(|field| scope.unique(snake(&field.name))).collect();
        Block { body, base, min: ends.max().unwrap_or_default(), names, within: "super::" }
    }

    pub(super) fn composite(body: &'a Body) -> Self {
        Block::new(body, 0, &mut Scope::default())
    }

    /// Whether the field came with a later version.
    pub(super) fn is_late(&self, field: &Field) -> bool {
        field.since > self.base && !field.ty.kind.is_constant()
    }

    /// Whether some fields came with later versions.
    pub(super) fn has_late(&self) -> bool {
        self.body.fields.iter().any(|field| self.is_late(field))
    }

    pub(super) fn has_base(&self) -> bool {
        self.min > 0
    }

    /// Fields with their names.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'a Field, &str)> {
        self.body.fields.iter().zip(self.names.iter().map(String::as_str))
    }

    /// Fields that take bytes.
    pub(super) fn settable(&self) -> impl Iterator<Item = (&'a Field, &str)> {
        self.fields().filter(|(field, _)| !field.ty.kind.is_constant())
    }
}

/// The test for a null value, of a variable `value`.
fn is_value(primitive: Primitive, null: i128) -> String {
    let is_nan = match primitive {
        Primitive::F32 => f32::from_bits(null as u32).is_nan(),
        Primitive::F64 => f64::from_bits(null as u64).is_nan(),
        _ => false,
    };
    if is_nan { "!value.is_nan()".to_owned() } else { format!("value != {}", literal(primitive, null)) }
}

/// One accessor.
fn method(out: &mut String, doc: &str, name: &str, ty: &str, value: &str) {
    let _ = writeln!(out, "/// {doc}\n#[inline(always)]\npub fn {name}(&self) -> {ty} {{\n{value}\n}}\n");
}

/// Accessors of all fields of a block.
pub(super) fn getters(out: &mut String, context: &Context<'_>, block: &Block<'_>) {
    for (field, name) in block.fields() {
        let tag = if field.tag == 0 { String::new() } else { format!(", tag {}", field.tag) };
        let of = if field.ty.name.is_empty() { String::new() } else { format!(", `{}`", field.ty.name) };
        let doc = format!("`{}`{tag}{of}", field.name);
        getter(out, context, block, field, name, &doc);
    }
}

fn getter(out: &mut String, context: &Context<'_>, block: &Block<'_>, field: &Field, name: &str, doc: &str) {
    let (at, late, since) = (field.offset, block.is_late(field), since_note(field.since));
    let known = format!("self.version >= {}", field.since);
    let (load, tail) = (context.word("load"), context.word("tail"));
    let load = |of: &str| format!("<{of} as rt::Word>::{load}(self.block, {at})");
    let tail = |of: &str| format!("<{of} as rt::Word>::{tail}(self.whole, {at}, {known})");
    match context.types.of(&field.ty, block.within) {
        Ty::Constant(ty, value) => {
            let _ = writeln!(
                out,
                "/// {doc}; constant.\n#[inline(always)]\npub const fn {name}(&self) -> {ty} {{\n{value}\n}}\n"
            );
        }
        Ty::Number(primitive, None) if late => {
            let ty = rust(primitive);
            method(out, &format!("{doc}{since}, `None` before."), name, &format!("Option<{ty}>"), &tail(ty));
        }
        Ty::Number(primitive, None) => {
            method(out, &format!("{doc}."), name, rust(primitive), &load(rust(primitive)));
        }
        Ty::Number(primitive, Some(null)) => {
            let (ty, said, test) = (rust(primitive), literal(primitive, null), is_value(primitive, null));
            let (note, before) = if late { (since.as_str(), " and before") } else { ("", "") };
            let value = format!("Some(self.{name}_raw()).filter(|&value| {test})");
            method(
                out,
                &format!("{doc}{note}; `None` for no value{before}."),
                name,
                &format!("Option<{ty}>"),
                &value,
            );
            let value = if late { format!("{}.unwrap_or({said})", tail(ty)) } else { load(ty) };
            method(
                out,
                &format!("{doc}{note}; `{said}` for no value{before}."),
                &format!("{name}_raw"),
                ty,
                &value,
            );
        }
        Ty::Word { path, repr, nullable } => {
            let value = if late {
                format!("{}.map_or({path}::NULL, {path})", tail(rust(repr)))
            } else {
                format!("{path}({})", load(rust(repr)))
            };
            let short = path.rsplit(':').next().unwrap_or(&path);
            let note = if late { since.as_str() } else { "" };
            if nullable {
                let before = if late { " and before" } else { "" };
                let some = format!("self.{name}_raw().some()");
                method(
                    out,
                    &format!("{doc}{note}; `None` for no value{before}."),
                    name,
                    &format!("Option<{path}>"),
                    &some,
                );
                let raw = format!("{doc}{note}; `{short}::NULL` for no value{before}.");
                method(out, &raw, &format!("{name}_raw"), &path, &value);
            } else {
                let before = if late { ", null before" } else { "" };
                method(out, &format!("{doc}{note}{before}."), name, &path, &value);
            }
        }
        Ty::Text(len) => {
            let from = if late {
                format!("if {known} {{ self.whole }} else {{ &[] }}")
            } else {
                "self.block".to_owned()
            };
            let before = if late { format!("{since}, empty before") } else { String::new() };
            method(
                out,
                &format!("{doc}{before}."),
                name,
                "rt::Text<'a>",
                &format!("rt::Text::new(rt::slice({from}, {at}, {len}))"),
            );
        }
        Ty::Array(primitive, len) => {
            let (ty, size) = (rust(primitive), primitive.size());
            let each = format!("<{ty} as rt::Word>::{}(block, i * {size})", context.word("load"));
            array(
                out,
                block,
                (doc, name),
                (at, len * size, late.then_some(field.since)),
                &format!("[{ty}; {len}]"),
                &format!("std::array::from_fn(|i| {each})"),
            );
        }
        Ty::Month => {
            array(
                out,
                block,
                (doc, name),
                (at, 5, late.then_some(field.since)),
                "rt::MonthYear",
                "rt::MonthYear::from_bytes(*block)",
            );
        }
        Ty::View(path, len) => {
            array(
                out,
                block,
                (doc, name),
                (at, len, late.then_some(field.since)),
                &format!("{path}<'a>"),
                &format!("{path} {{ block }}"),
            );
        }
    }
}

/// An accessor that makes its value of several bytes, `block`; of a field that came later, an `Option`.
fn array(
    out: &mut String,
    _: &Block<'_>,
    (doc, name): (&str, &str),
    (at, len, since): (usize, usize, Option<u16>),
    ty: &str,
    make: &str,
) {
    match since {
        None => {
            let value = format!("let block: &'a [u8; {len}] = rt::array_ref(self.block, {at});\n{make}");
            method(out, &format!("{doc}."), name, ty, &value);
        }
        Some(since) => {
            let value = format!(
                "let block: &'a [u8; {len}] = rt::tail_ref(self.whole, {at}, self.version >= {since})?;\nSome({make})"
            );
            method(
                out,
                &format!("{doc}; since version {since}, `None` before."),
                name,
                &format!("Option<{ty}>"),
                &value,
            );
        }
    }
}
