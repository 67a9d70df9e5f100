//! A P4Info's text form, as protobuf's own printer lays it out.
//!
//! One pass over the wire bytes by the names in `schema`: the way of [`crate::text::parse`] backwards.

use std::fmt::Write as _;

use prost::Message as _;

use crate::message::P4Info;
use crate::schema::{Field, P4_INFO, Schema, Type};

/// The text form (`.p4info.txtpb`).
#[must_use]
pub fn to_text(info: &P4Info) -> String {
    let mut out =
        "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n".to_owned();
    message(&P4_INFO, &info.encode_to_vec(), 0, &mut out);
    out
}

enum Item<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message in the order of their numbers. Our own encoder wrote the bytes: what does not follow its form ends them.
fn fields<'a>(mut bytes: &'a [u8]) -> Vec<(u32, Item<'a>)> {
    let mut list = Vec::new();
    while let Some(tag) = varint(&mut bytes) {
        let number = (tag >> 3) as u32;
        let item = match tag & 7 {
            0 => varint(&mut bytes).map(Item::Number),
            2 => varint(&mut bytes).and_then(|length| {
                let (part, rest) = bytes.split_at_checked(length as usize)?;
                bytes = rest;
                Some(Item::Bytes(part))
            }),
            _ => None,
        };
        let Some(item) = item else { break };
        list.push((number, item));
    }
    list.sort_by_key(|(number, _)| *number);
    list
}

fn message(schema: &Schema, bytes: &[u8], depth: usize, out: &mut String) {
    for (number, item) in fields(bytes) {
        let Some(field) = schema.fields.iter().find(|field| field.number == number) else { continue };
        match item {
            Item::Number(value) => scalar(field, value, depth, out),
            Item::Bytes(bytes) => match &field.ty {
                Type::Message(inner) => {
                    indent(depth, out);
                    let _ = writeln!(out, "{} {{", field.name);
                    message(inner, bytes, depth + 1, out);
                    indent(depth, out);
                    out.push_str("}\n");
                }
                Type::String | Type::Bytes => {
                    indent(depth, out);
                    let _ = writeln!(out, "{}: \"{}\"", field.name, escaped(bytes));
                }
                // Numbers that repeat come packed.
                _ => {
                    let mut rest = bytes;
                    while let Some(value) = varint(&mut rest) {
                        scalar(field, value, depth, out);
                    }
                }
            },
        }
    }
}

fn scalar(field: &Field, value: u64, depth: usize, out: &mut String) {
    indent(depth, out);
    let name = field.name;
    let _ = match &field.ty {
        Type::Bool => writeln!(out, "{name}: {}", value != 0),
        Type::Enum(values) => match values.iter().find(|(_, number)| *number == value as i32) {
            Some((word, _)) => writeln!(out, "{name}: {word}"),
            None => writeln!(out, "{name}: {}", value as i32),
        },
        Type::Int32 | Type::Int64 => writeln!(out, "{name}: {}", value as i64),
        _ => writeln!(out, "{name}: {value}"),
    };
}

fn indent(depth: usize, out: &mut String) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => {
                out.push('\\');
                out.push(byte as char);
            }
            0x20..=0x7e => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let text = "pkg_info {\n  arch: \"v1model\"\n}\ntables {\n  preamble {\n    id: 33554433\n    name: \"a\\\"\\\\\\303\\251\\000\"\n  }\n  \
                    match_fields {\n    id: 1\n    bitwidth: 32\n    match_type: LPM\n  }\n  direct_resource_ids: 1\n  \
                    direct_resource_ids: 300\n  size: -1\n  is_const_table: true\n}\ntype_info {\n}\n";
        let info = crate::text::parse(text).unwrap();
        let (head, body) =
            to_text(&info).split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert!(head.lines().all(|line| line.starts_with('#')));
        assert_eq!(body, text);
        assert_eq!(crate::text::parse(&body).unwrap(), info);
    }
}
