//! `template.toml`: passes by role, and values to fill in, one of which is swept.

use super::commands::{CommandPieces, Piece, Value, fill_dollars, place};
use super::run::{Global, Pass, Read, appended, check_order, copied};
use super::{MitosisError, MitosisOptions, Source};
use barewire_text::{Quote, hint, nearest};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// A name that stands for a host's number in its pass, from 1.
const INCREMENT: &str = "@incr";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateFile {
    #[serde(default)]
    global: Global,
    template: Tables,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    pass: Vec<Spanned<PassTable>>,
    #[serde(default)]
    placeholder: BTreeMap<String, Spanned<toml::Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassTable {
    role: Spanned<String>,
    #[serde(default)]
    path: String,
    cmd: Spanned<String>,
    /// Its hosts, when the command line names none.
    #[serde(default)]
    host: Vec<String>,
    order: Option<Spanned<i64>>,
    #[serde(rename = "loop")]
    copies: Option<Spanned<u32>>,
}

/// Reads a `template.toml`.
pub(super) fn read(source: Source<'_>, options: &MitosisOptions) -> Result<Read, MitosisError> {
    let text = with_quoted_increment(source.text);
    let source = Source { text: &text, path: source.path };
    let file: TemplateFile = toml::from_str(source.text).map_err(|e| source.syntax(&e))?;
    let roles: Vec<&str> =
        file.template.pass.iter().map(|pass| pass.get_ref().role.get_ref().as_str()).collect();
    if let Some(role) = options.roles.keys().find(|role| !roles.contains(&role.as_str())) {
        let near = hint(", ", nearest(role, roles.iter().copied()), Quote::Back);
        return Err(MitosisError::Options(format!("{} has no role {role:?}{near}", source.path)));
    }
    let (values, axis) = values(source, &file.template.placeholder, options)?;
    let first = file
        .template
        .pass
        .iter()
        .filter_map(|pass| pass.get_ref().order.as_ref())
        .map(|order| *order.get_ref())
        .next();
    let mut passes = Vec::new();
    for pass in &file.template.pass {
        let PassTable { role, path, cmd, host, order, copies } = pass.get_ref();
        check_order(source, order.as_ref(), first)?;
        let hosts = options.roles.get(role.get_ref()).unwrap_or(host);
        if hosts.is_empty() {
            let why = format!("no hosts are assigned to it: name them, as in `{}=h1,h2`", role.get_ref());
            return Err(source.at(role.span().start, format!("role {:?}", role.get_ref()), why));
        }
        let path = options.path.as_ref().map_or_else(|| path.clone(), |prefix| format!("{prefix}/{path}"));
        for (at, host) in hosts.iter().enumerate() {
            for text in copied(source, appended(cmd.get_ref(), &file.global.global_configs), copies.as_ref())?
            {
                let value = |name: &str| match values.get(name) {
                    _ if name == INCREMENT => Ok(Value::Text((at + 1).to_string())),
                    _ if axis.as_ref().is_some_and(|(axis, _)| axis == name) => Ok(Value::Axis),
                    Some(text) => Ok(Value::Text(text.clone())),
                    None => Err(no_value(name, values.keys().chain(axis.iter().map(|(axis, _)| axis)))),
                };
                let words: CommandPieces = fill_dollars(&text, value).map_err(|(byte, why)| {
                    source.at(place(source, &cmd.span(), cmd.get_ref(), byte), "cmd", why)
                })?;
                passes.push(Pass {
                    host: host.clone(),
                    path: path.clone(),
                    words,
                    local: false,
                    at: pass.span().start,
                });
            }
        }
    }
    let used = |name: &str| passes.iter().any(|pass| pass.words.contains(&Piece::Axis(name.to_owned())));
    // A list of one value that no command uses only names the file.
    let axis = axis.filter(|(name, values)| values.len() > 1 || used(name));
    Ok(Read { global: file.global, passes, axis })
}

fn no_value<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let near = nearest(name, known.map(String::as_str).chain([INCREMENT]));
    let near = near.map(|near| format!("${{{near}}}"));
    let near = hint(", ", near.as_deref(), Quote::Back);
    format!("`${{{name}}}` is not in [template.placeholder]{near}")
}

type Axis = Option<(String, Vec<toml::Value>)>;

/// Values of the placeholders, and the one that is swept.
fn values(
    source: Source<'_>,
    table: &BTreeMap<String, Spanned<toml::Value>>,
    options: &MitosisOptions,
) -> Result<(BTreeMap<String, String>, Axis), MitosisError> {
    let mut values = BTreeMap::new();
    let mut axis: Axis = None;
    for (name, given) in &options.placeholders {
        match given.as_slice() {
            [] => return Err(MitosisError::Options(format!("placeholder {name}: no value"))),
            [one] => drop(values.insert(name.clone(), one.clone())),
            several if axis.is_none() => {
                axis = Some((name.clone(), several.iter().cloned().map(toml::Value::String).collect()));
            }
            _ => {
                return Err(MitosisError::Options(format!(
                    "placeholder {name}: only one list can be swept, and there is another"
                )));
            }
        }
    }
    for (name, given) in table.iter().filter(|(name, _)| !options.placeholders.contains_key(*name)) {
        let wrong = |why: &str| Err(source.at(given.span().start, format!("placeholder {name}"), why));
        match given.get_ref() {
            toml::Value::Array(list) if list.is_empty() => return wrong("an empty list: nothing would run"),
            toml::Value::Array(list) if list.iter().any(|value| text_of(value).is_none()) => {
                return wrong("a list of texts and numbers");
            }
            toml::Value::Array(list) => match &axis {
                None => axis = Some((name.clone(), list.clone())),
                Some((other, _)) => {
                    return wrong(&format!("only one list can be swept, and `{other}` already is"));
                }
            },
            value => match text_of(value) {
                Some(text) => drop(values.insert(name.clone(), text)),
                None => return wrong("a text, a number or a list of these"),
            },
        }
    }
    Ok((values, axis))
}

/// A value as a command has it: what Python prints, as these files were written for it.
pub(super) fn text_of(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(format!("{number:?}")),
        toml::Value::Boolean(true) => Some("True".into()),
        toml::Value::Boolean(false) => Some("False".into()),
        _ => None,
    }
}

/// `@incr = 0` is no TOML, though the reader that these files were written for takes it. Only the columns behind it move.
fn with_quoted_increment(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix(INCREMENT) {
        Some(rest) if rest.trim_start().starts_with('=') => format!("\"{INCREMENT}\"{rest}"),
        _ => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
