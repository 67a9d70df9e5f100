//! Messages for editors.
use serde_json::{Value, json};

use super::{Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span};

/// All messages as one JSON array. Lines and columns count from 1, columns in characters, offsets in bytes from 0.
pub fn to_json(map: &SourceMap, diagnostics: &Diagnostics) -> Value {
    diagnostics.iter().map(|d| one(map, d)).collect()
}

fn one(map: &SourceMap, diagnostic: &Diagnostic) -> Value {
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|l| {
            let mut value = place(map, l.span);
            value["text"] = json!(l.text);
            value["primary"] = json!(l.primary);
            value
        })
        .collect();
    let mut value = place(map, diagnostic.span());
    value["severity"] = json!(diagnostic.severity.text());
    value["code"] = json!(diagnostic.code);
    value["message"] = json!(diagnostic.message);
    value["labels"] = json!(labels);
    value["notes"] = json!(diagnostic.notes);
    value["help"] = json!(diagnostic.help);
    if let Some(expansion) = map.expansion(diagnostic.span()) {
        value["macro"] = json!(&*expansion.name);
    }
    value
}

fn place(map: &SourceMap, span: Span) -> Value {
    let (Some(start), Some(end)) = (map.place(span), map.place(span.after())) else { return json!({}) };
    json!({
        "file": &*start.file, "line": start.at.line, "column": start.at.column,
        "end_line": end.at.line, "end_column": end.at.column, "start": span.start, "end": span.end,
    })
}
