//! What came back, in words (the shapes that scripts written for p4lang's command line look for) and as JSON.

use super::names::shortest;
use crate::thrift::codec::Value;
use crate::thrift::types::{action_type, match_type};
use barewire_p4::ir::{Action, KeyField, Table, TableKind};
use serde_json::{Value as Json, json};
use std::fmt::{Display, Write};

/// A command's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Its words, each line ended.
    pub text: String,
    /// Advice that is no part of the answer.
    pub note: Option<String>,
    /// The same for programs.
    pub json: Json,
}

impl Answer {
    /// Nothing to say.
    pub fn silent() -> Answer {
        Answer::default()
    }

    /// One line, and its meaning for programs.
    pub fn line(line: impl Display, json: Json) -> Answer {
        Answer { text: format!("{line}\n"), note: None, json }
    }
}

/// Text line by line.
#[derive(Debug, Default)]
pub struct Lines(pub String);

impl Lines {
    /// One more line.
    pub fn say(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("strings take what is written");
    }

    /// With its meaning for programs.
    pub fn answer(self, json: Json) -> Answer {
        Answer { text: self.0, note: None, json }
    }
}

/// Bytes as two digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take what is written");
        text
    })
}

/// Bytes as two digits each, with colons.
pub fn colons(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn bytes_of(body: Option<&Value>, id: i16) -> &[u8] {
    body.and_then(|body| body.field(id)).map_or(&[], Value::bytes)
}

/// A field of a key with its match type's name, as shown before an entry is added.
pub fn param(param: &Value) -> String {
    let kind = param.field(1).map_or(-1, Value::int) as i32;
    let body = param.field(kind as i16 + 2);
    let (a, b) = (colons(bytes_of(body, 1)), colons(bytes_of(body, 2)));
    match kind {
        match_type::EXACT => format!("EXACT-{a}"),
        match_type::LPM => {
            format!("LPM-{a}/{}", body.and_then(|body| body.field(2)).map_or(0, Value::int))
        }
        match_type::TERNARY => format!("TERNARY-{a} &&& {b}"),
        match_type::VALID => "VALID-".to_owned(),
        match_type::RANGE => format!("RANGE-{a} -> {b}"),
        other => format!("type {other}"),
    }
}

/// A field of an entry's key: its value in a dump, and for programs.
fn shown_param(field: &KeyField, param: &Value) -> (String, Json) {
    let kind = param.field(1).map_or(-1, Value::int) as i32;
    let body = param.field(kind as i16 + 2);
    let (a, b) = (hex(bytes_of(body, 1)), hex(bytes_of(body, 2)));
    let named = |mut json: Json| {
        json["field"] = field.name.clone().into();
        json["kind"] = field.kind.name().into();
        json
    };
    match kind {
        match_type::LPM => {
            let length = body.and_then(|body| body.field(2)).map_or(0, Value::int);
            (format!("{a}/{length}"), named(json!({"value": format!("0x{a}"), "prefix_length": length})))
        }
        match_type::TERNARY => {
            (format!("{a} &&& {b}"), named(json!({"value": format!("0x{a}"), "mask": format!("0x{b}")})))
        }
        match_type::VALID => {
            let valid = body.and_then(|body| body.field(1)).map_or(0, Value::int) != 0;
            ((if valid { "01" } else { "00" }).to_owned(), named(json!({"value": valid})))
        }
        match_type::RANGE => {
            (format!("{a} -> {b}"), named(json!({"low": format!("0x{a}"), "high": format!("0x{b}")})))
        }
        _ => (a.clone(), named(json!({"value": format!("0x{a}")}))),
    }
}

/// An action and its arguments.
pub fn action_and_data(lines: &mut Lines, name: &Value, data: &Value) -> Json {
    let args: Vec<String> = data.items().iter().map(|arg| hex(arg.bytes())).collect();
    lines.say(format!("Action entry: {} - {}", name.lossy(), args.join(", ")));
    let args: Vec<String> = args.iter().map(|arg| format!("0x{arg}")).collect();
    json!({"action": name.lossy(), "args": args})
}

/// What an entry does.
pub fn action_entry(lines: &mut Lines, entry: &Value) -> Json {
    let part = |id| entry.field(id).cloned().unwrap_or(Value::Bytes(Vec::new()));
    match entry.field(1).map_or(0, Value::int) as i32 {
        action_type::ACTION_DATA => action_and_data(lines, &part(2), &part(3)),
        action_type::MEMBER => {
            lines.say(format!("Index: member({})", part(4).int()));
            json!({"member": part(4).int()})
        }
        action_type::GROUP => {
            lines.say(format!("Index: group({})", part(5).int()));
            json!({"group": part(5).int()})
        }
        _ => {
            lines.say("EMPTY");
            Json::Null
        }
    }
}

/// A whole entry.
pub fn entry(lines: &mut Lines, table: &Table, entry: &Value) -> Json {
    let mut all = json!({});
    if let Some(handle) = entry.field(3) {
        lines.say(format!("Dumping entry {}", hex_signed(handle.int())));
        all["handle"] = handle.int().into();
    }
    lines.say("Match key:");
    let width = table.key.iter().map(|field| field.name.len()).max().unwrap_or(0).max(20);
    let mut key = Vec::new();
    for (field, param) in table.key.iter().zip(entry.field(1).map_or(&[][..], Value::items)) {
        let (text, json) = shown_param(field, param);
        lines.say(format!(
            "* {:width$}: {:10}{text}",
            field.name,
            field.kind.name().to_uppercase(),
            width = width
        ));
        key.push(json);
    }
    all["key"] = key.into();
    let priority = entry.field(2).and_then(|options| options.field(1)).map(Value::int);
    if let Some(priority) = priority.filter(|priority| *priority >= 0) {
        lines.say(format!("Priority: {priority}"));
        all["priority"] = priority.into();
    }
    if let Some(action) = entry.field(4) {
        all["action"] = action_entry(lines, action);
    }
    if let Some(life) = entry.field(5) {
        let part = |id| life.field(id).map_or(0, Value::int);
        lines.say(format!("Life: {}ms since hit, timeout is {}ms", part(2), part(1)));
        all["since_hit_ms"] = part(2).into();
        all["timeout_ms"] = part(1).into();
    }
    all
}

/// A number in hexadecimal, its sign in front (as p4lang's shows the upper half of handles).
fn hex_signed(number: i64) -> String {
    if number < 0 { format!("-{:#x}", number.unsigned_abs()) } else { format!("{number:#x}") }
}

/// A member of an action profile.
pub fn member(lines: &mut Lines, member: &Value) -> Json {
    let part = |id| member.field(id).cloned().unwrap_or(Value::Bytes(Vec::new()));
    lines.say(format!("Dumping member {}", part(1).int()));
    let mut json = action_and_data(lines, &part(2), &part(3));
    json["member"] = part(1).int().into();
    json
}

/// A group of an action profile.
pub fn group(lines: &mut Lines, group: &Value) -> Json {
    let handle = group.field(1).map_or(0, Value::int);
    let members: Vec<i64> = group.field(2).map_or(&[][..], Value::items).iter().map(Value::int).collect();
    let list = members.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    lines.say(format!("Dumping group {handle}"));
    lines.say(format!("Members: [{list}]"));
    json!({"group": handle, "members": members})
}

/// A table's kind.
pub fn table_kind(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Exact => "exact",
        TableKind::Lpm => "lpm",
        TableKind::Ternary => "ternary",
        TableKind::Range => "range",
    }
}

/// A table's line in lists.
pub fn table_line(table: &Table, profile: Option<&str>) -> String {
    let key: Vec<String> = table
        .key
        .iter()
        .map(|field| format!("{}({}, {})", field.name, field.kind.name(), field.width))
        .collect();
    format!("{:30} [implementation={}, mk={}]", table.name, profile.unwrap_or("None"), key.join(",\t"))
}

/// A table for programs.
pub fn table_json(table: &Table, profile: Option<&str>) -> Json {
    let key: Vec<Json> = table
        .key
        .iter()
        .map(|field| json!({"field": field.name, "kind": field.kind.name(), "width": field.width}))
        .collect();
    json!({
        "table": table.name,
        "kind": table_kind(table.kind),
        "key": key,
        "size": table.max_size,
        "action_profile": profile,
        "timeouts": table.support_timeout,
    })
}

/// An action's line in lists.
pub fn action_line(action: &Action) -> String {
    let params: Vec<String> =
        action.params.iter().map(|param| format!("{}({})", param.name, param.width)).collect();
    format!("{:30} [{}]", action.name, params.join(",\t"))
}

/// An action for programs.
pub fn action_json(action: &Action) -> Json {
    let params: Vec<Json> =
        action.params.iter().map(|param| json!({"name": param.name, "width": param.width})).collect();
    json!({"action": action.name, "short": shortest(&action.name), "params": params})
}
