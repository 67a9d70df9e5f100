//! The fields of a block: what is written, and their null values.

use super::block::Block;
use super::types::{Ty, body_of};
use super::{Context, literal, rust};
use crate::layout::{Body, Kind};
use std::fmt::Write;

/// Setters of all fields of a block; `e` is the lifetime of what composites are written with.
pub(super) fn setters(out: &mut String, context: &Context<'_>, block: &Block<'_>, e: &str) {
    let put = context.word("put");
    for (field, name) in block.settable() {
        let (at, late) = (field.offset, block.is_late(field));
        let known = if late { format!("self.0.version() >= {}", field.since) } else { String::new() };
        let mut doc = format!("Sets `{}`, at byte {at}.", field.name);
        let number = |value: &str| format!("rt::Word::{put}({value}, self.0.block(), {at});");
        let (ty, line) = match context.types.of(&field.ty, block.within) {
            Ty::Constant(..) => continue,
            // What an older version has not got reads as `None`.
            Ty::Number(p, None) if late => {
                (format!("impl Into<Option<{}>>", rust(p)), number("value.into().unwrap_or_default()"))
            }
            Ty::Number(p, None) => (rust(p).to_owned(), number("value")),
            Ty::Number(p, Some(null)) => (
                format!("impl Into<Option<{}>>", rust(p)),
                number(&format!("value.into().unwrap_or({})", literal(p, null))),
            ),
            Ty::Word { path, nullable: false, .. } => (path, number("value.0")),
            Ty::Word { path, nullable: true, .. } => (
                format!("impl Into<Option<{path}>>"),
                number(&format!("value.into().unwrap_or({path}::NULL).0")),
            ),
            Ty::Text(len) => {
                doc =
                    format!("Sets `{}`, at byte {at}: at most {len} bytes, the rest is cut off.", field.name);
                let line = format!("rt::put_text(self.0.block(), {at}, {len}, value.as_ref());");
                ("impl AsRef<[u8]>".to_owned(), line)
            }
            Ty::Array(p, len) => {
                let (ty, size) = (rust(p), p.size());
                let value =
                    if late { format!("impl Into<Option<[{ty}; {len}]>>") } else { format!("[{ty}; {len}]") };
                let value_of = if late { "value.into().unwrap_or_default()" } else { "value" };
                let line = format!(
                    "for (i, value) in {value_of}.into_iter().enumerate() {{\nrt::Word::{put}(value, self.0.block(), {at} + i * {size});\n}}"
                );
                // `Default` of arrays ends at 32.
                let line =
                    line.replace("unwrap_or_default()", &format!("unwrap_or([Default::default(); {len}])"));
                (value, line)
            }
            Ty::Month => {
                let value = if late { "value.into().unwrap_or(rt::MonthYear::NULL)" } else { "value" };
                let ty = if late { "impl Into<Option<rt::MonthYear>>" } else { "rt::MonthYear" };
                (ty.to_owned(), format!("rt::put(self.0.block(), {at}, {value}.to_bytes());"))
            }
            Ty::View(path, len) => {
                let at = if late {
                    format!("if {known} {{ {at} }} else {{ usize::MAX }}")
                } else {
                    at.to_string()
                };
                let _ = writeln!(
                    out,
                    "/// Writes `{}`.\n#[inline]\npub fn {name}(&mut self) -> {path}Encoder<{e}> {{\n{path}Encoder(self.0.part({at}, {len}))\n}}\n",
                    field.name
                );
                continue;
            }
        };
        let line = if late { format!("if {known} {{\n{line}\n}}") } else { line };
        let _ = writeln!(
            out,
            "/// {doc}\n#[inline]\npub fn {name}(&mut self, value: {ty}) -> &mut Self {{\n{line}\nself\n}}\n"
        );
    }
}

/// The lines that copy the fields of a block from a view to an encoder.
pub(super) fn copy_fields(out: &mut String, context: &Context<'_>, block: &Block<'_>, to: &str, from: &str) {
    for (field, name) in block.settable() {
        let _ = match context.types.of(&field.ty, block.within) {
            Ty::View(..) if block.is_late(field) => {
                writeln!(out, "if let Some(part) = {from}.{name}() {{\n{to}.{name}().copy(part);\n}}")
            }
            Ty::View(..) => writeln!(out, "{to}.{name}().copy({from}.{name}());"),
            Ty::Text(_) => writeln!(out, "{to}.{name}({from}.{name}().raw());"),
            _ => writeln!(out, "{to}.{name}({from}.{name}());"),
        };
    }
}

/// The function that sets the null values of a block.
pub(super) fn clear(context: &Context<'_>, block: &Block<'_>) -> String {
    let lines = nulls(context, block, 0, block.within);
    let first = if lines.is_empty() { "_" } else { "block" };
    let version = if lines.contains("version >=") { "version" } else { "_" };
    format!("|{first}, {version}| {{\n{lines}}}")
}

fn nulls(context: &Context<'_>, block: &Block<'_>, shift: usize, within: &str) -> String {
    let (mut out, put) = (String::new(), context.word("put"));
    for (field, _) in block.settable() {
        let at = shift + field.offset;
        let word = |value: String| format!("rt::Word::{put}({value}, block, {at});\n");
        let lines = match (context.types.of(&field.ty, within), &field.ty.kind) {
            (Ty::Number(primitive, Some(null)), _) => word(literal(primitive, null)),
            (Ty::Word { path, .. }, Kind::Enum { null: Some(_), .. }) => word(format!("{path}::NULL.0")),
            (Ty::Word { path, nullable: true, .. }, _) => word(format!("{path}::NULL.0")),
            (Ty::Month, _) => format!("rt::put(block, {at}, rt::MonthYear::NULL.to_bytes());\n"),
            (Ty::View(..), Kind::Composite { members }) => {
                let body: Body = body_of(members);
                nulls(context, &Block::composite(&body), at, within)
            }
            _ => continue,
        };
        if block.is_late(field) && !lines.is_empty() {
            let _ = writeln!(out, "if version >= {} {{\n{lines}}}", field.since);
        } else {
            out.push_str(&lines);
        }
    }
    out
}

/// Block lengths by version.
pub(super) fn lengths(body: &Body) -> String {
    let list: Vec<String> =
        body.block_lengths.iter().map(|(since, len)| format!("({since}, {len})")).collect();
    format!("&[{}]", list.join(", "))
}
