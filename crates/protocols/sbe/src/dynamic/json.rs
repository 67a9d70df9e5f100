//! A message as one line of JSON.

use super::{Value, Visitor, template, visit};
use crate::layout::{Data, Field, Group, Schema};
use crate::value::fmt_decimal;
use crate::{DecodeError, Message};
use std::fmt::{self, Write};

/// Appends `message` to `out` as one JSON object, without a line's end:
///
/// ```json
/// {"template":46,"name":"MDIncrementalRefreshBook46","version":13,"fields":{"TransactTime":1,…,
///  "NoMDEntries":[{"MDEntryPx":2768.25,"MDEntrySize":5,…},…]}}
/// ```
/// Numbers and decimals are exact JSON numbers; enums are names, or the number (the character) where they have none; sets
/// are arrays of names, bits without a name as `0x…`; no value is `null`. Bytes that the schema does not know at the end
/// of the message are counted in `"trailing"`. A message that cannot be read leaves `out` as it was.
///
/// Returns how many bytes the schema did not know.
pub fn json(schema: &Schema, message: &Message<'_>, out: &mut String) -> Result<usize, DecodeError> {
    let start = out.len();
    let template = template(schema, message)?;
    let _ = write!(out, "{{\"template\":{},\"name\":", template.id);
    string(out, &template.name);
    let _ = write!(out, ",\"version\":{},\"fields\":{{", message.version);
    let mut writer = Writer { out, first: true };
    match visit(schema, message, &mut writer) {
        Ok(trailing) => {
            out.push('}');
            if !trailing.is_empty() {
                let _ = write!(out, ",\"trailing\":{}", trailing.len());
            }
            out.push('}');
            Ok(trailing.len())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

struct Writer<'o> {
    out: &'o mut String,
    /// Nothing is written yet in the object or array that is open.
    first: bool,
}

impl Writer<'_> {
    fn comma(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    fn key(&mut self, name: &str) {
        self.comma();
        string(self.out, name);
        self.out.push(':');
    }
}

impl Visitor for Writer<'_> {
    fn field(&mut self, field: &Field, value: Value<'_>) {
        self.key(&field.name);
        write_value(self.out, value);
    }

    fn begin_group(&mut self, group: &Group, _count: usize) {
        self.key(&group.name);
        self.out.push('[');
        self.first = true;
    }

    fn begin_entry(&mut self, _group: &Group, _index: usize) {
        self.comma();
        self.out.push('{');
        self.first = true;
    }

    fn end_entry(&mut self, _group: &Group) {
        self.out.push('}');
        self.first = false;
    }

    fn end_group(&mut self, _group: &Group) {
        self.out.push(']');
        self.first = false;
    }

    fn data(&mut self, data: &Data, text: &[u8]) {
        self.key(&data.name);
        bytes(self.out, text);
    }
}

/// An exact decimal number.
struct Exact(i64, i8);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_decimal(f, self.0, self.1)
    }
}

fn write_value(out: &mut String, value: Value<'_>) {
    let _ = match value {
        Value::Null => write!(out, "null"),
        Value::Int(value) => write!(out, "{value}"),
        Value::Uint(value) => write!(out, "{value}"),
        // JSON has no number for what is not finite.
        Value::Float(value) if !value.is_finite() => write!(out, "\"{value}\""),
        Value::Float(value) => write!(out, "{value}"),
        Value::Array(array) => {
            out.push('[');
            for (i, value) in array.values().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                write_value(out, value);
            }
            write!(out, "]")
        }
        Value::Char(byte) => return bytes(out, &[byte]),
        Value::Text(text) => return bytes(out, text.as_bytes()),
        Value::Decimal { mantissa, exponent } => write!(out, "{}", Exact(mantissa, exponent)),
        Value::Month(month) => write!(out, "\"{month}\""),
        Value::Enum(value) => match value.name() {
            Some(name) => return string(out, name),
            None if value.is_char() => return bytes(out, &[value.raw as u8]),
            None => write!(out, "{}", value.raw),
        },
        Value::Set(set) => {
            out.push('[');
            let mut between = "";
            for name in set.names() {
                out.push_str(between);
                string(out, name);
                between = ",";
            }
            if set.unnamed() != 0 {
                let _ = write!(out, "{between}\"{:#x}\"", set.unnamed());
            }
            write!(out, "]")
        }
        Value::Composite(composite) => {
            let mut between = '{';
            for (name, value) in composite.parts() {
                out.push(between);
                string(out, name);
                out.push(':');
                write_value(out, value);
                between = ',';
            }
            write!(out, "{}", if between == '{' { "{}" } else { "}" })
        }
    };
}

/// Text that may be anything: each byte a character, as in Latin-1, where it is no UTF-8.
fn bytes(out: &mut String, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(text) => string(out, text),
        Err(_) => string(out, &text.iter().map(|&byte| char::from(byte)).collect::<String>()),
    }
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        let _ = match c {
            '"' => write!(out, "\\\""),
            '\\' => write!(out, "\\\\"),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
}
