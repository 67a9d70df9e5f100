//! Annotations of the source, as P4Info carries them.

use barewire_p4_source::ast::{self, Annotation, AnnotationBody, AnnotationTokenKind, Expr};
use barewire_p4_source::instances::Instances;
use barewire_p4_source::types::value::Value;
use num_traits::ToPrimitive as _;

use crate::message::{Documentation, Preamble};
use crate::types::{
    AnnotationBody as Body, Expression, ExpressionList, ExpressionValue, KeyValuePair, KeyValuePairList,
    StructuredAnnotation,
};

/// The annotations of an object: those of any words as text, those with a structure, and what is said for people.
#[derive(Default)]
pub struct Notes {
    pub texts: Vec<String>,
    pub structured: Vec<StructuredAnnotation>,
    pub doc: Option<Documentation>,
}

/// The number in `@id(7)`.
pub fn id(annotations: &[Annotation]) -> Option<u32> {
    number(ast::annotation(annotations, "id")?)
}

/// The only number of an annotation.
pub fn number(note: &Annotation) -> Option<u32> {
    match &note.body {
        AnnotationBody::Unstructured(tokens) => match &tokens[..] {
            [token] if token.kind == AnnotationTokenKind::Integer => integer(&token.text),
            _ => None,
        },
        _ => None,
    }
}

/// An integer as the source writes it, without a width.
pub fn integer(text: &str) -> Option<u32> {
    let text = text.replace('_', "");
    let digits = text.split_once(['w', 's']).map_or(&*text, |(_, digits)| digits);
    match digits.get(..2) {
        Some("0x" | "0X") => u32::from_str_radix(&digits[2..], 16).ok(),
        Some("0b" | "0B") => u32::from_str_radix(&digits[2..], 2).ok(),
        Some("0o" | "0O") => u32::from_str_radix(&digits[2..], 8).ok(),
        Some("0d" | "0D") => digits[2..].parse().ok(),
        _ => digits.parse().ok(),
    }
}

/// `@p4runtime_translation("uri", bit<W>)`: the address, and the width; none for `string`.
pub fn translation(annotations: &[Annotation]) -> Option<(String, Option<u32>)> {
    let note = ast::annotation(annotations, "p4runtime_translation")?;
    let AnnotationBody::Unstructured(tokens) = &note.body else { return None };
    let uri = tokens.first().filter(|token| token.kind == AnnotationTokenKind::String)?;
    let width = tokens
        .iter()
        .skip(1)
        .find(|token| token.kind == AnnotationTokenKind::Integer)
        .and_then(|token| integer(&token.text));
    Some((uri.text.to_string(), width))
}

/// Without brackets where there is nothing in them; between tokens a space.
fn text(note: &Annotation) -> String {
    let AnnotationBody::Unstructured(tokens) = &note.body else { return format!("@{}", note.name) };
    if tokens.is_empty() {
        return format!("@{}", note.name);
    }
    let tokens: Vec<String> = tokens
        .iter()
        .map(|token| match token.kind {
            AnnotationTokenKind::String => format!("\"{}\"", token.text),
            _ => token.text.to_string(),
        })
        .collect();
    format!("@{}({})", note.name, tokens.join(" "))
}

fn expression<'a>(instances: &Instances<'a, '_>, expr: &'a Expr) -> Expression {
    let value = instances.value(None, expr).and_then(|value| match value {
        Value::Str(text) => Some(ExpressionValue::StringValue(text.to_string())),
        Value::Bool(value) => Some(ExpressionValue::BoolValue(value)),
        Value::Int(value) => value.to_i64().map(ExpressionValue::Int64Value),
        _ => None,
    });
    Expression { value }
}

/// All annotations but those that P4Info has fields for, and those that `except` names.
pub fn notes<'a>(
    instances: &Instances<'a, '_>,
    annotations: &'a [Annotation],
    except: &dyn Fn(&str) -> bool,
) -> Notes {
    let mut notes = Notes::default();
    for note in annotations {
        let name = note.name.as_str();
        match &note.body {
            AnnotationBody::Expressions(list) => {
                let expressions: Vec<Expression> =
                    list.iter().map(|expr| expression(instances, expr)).collect();
                let body =
                    (!expressions.is_empty()).then_some(Body::ExpressionList(ExpressionList { expressions }));
                notes.structured.push(StructuredAnnotation {
                    name: name.to_owned(),
                    body,
                    source_location: None,
                });
            }
            AnnotationBody::KeyValues(list) => {
                let kv_pairs = list
                    .iter()
                    .map(|pair| KeyValuePair {
                        key: pair.key.to_string(),
                        value: Some(expression(instances, &pair.value)),
                    })
                    .collect();
                notes.structured.push(StructuredAnnotation {
                    name: name.to_owned(),
                    body: Some(Body::KvPairList(KeyValuePairList { kv_pairs })),
                    source_location: None,
                });
            }
            AnnotationBody::None | AnnotationBody::Unstructured(_) => match name {
                "name" | "id" => {}
                "brief" => {
                    notes.doc.get_or_insert_default().brief = note.string().unwrap_or_default();
                }
                "description" => {
                    notes.doc.get_or_insert_default().description = note.string().unwrap_or_default();
                }
                _ if except(name) => {}
                _ => notes.texts.push(text(note)),
            },
        }
    }
    notes
}

/// Id, names and annotations of an object.
pub fn preamble(id: u32, name: String, alias: String, notes: Notes) -> Preamble {
    Preamble {
        id,
        name,
        alias,
        annotations: notes.texts,
        annotation_locations: Vec::new(),
        doc: notes.doc,
        structured_annotations: notes.structured,
    }
}

/// Ids of the parts of an object: those of `@id`, for the others their places, as far as they are free.
pub fn part_ids<'a>(parts: impl Iterator<Item = &'a [Annotation]>) -> Vec<u32> {
    let given: Vec<Option<u32>> = parts.map(id).collect();
    let mut taken: std::collections::HashSet<u32> = given.iter().flatten().copied().collect();
    let mut next = 1u32;
    given
        .into_iter()
        .map(|given| {
            if let Some(id) = given {
                next += 1;
                return id;
            }
            while !taken.insert(next) {
                next += 1;
            }
            next
        })
        .collect()
}
