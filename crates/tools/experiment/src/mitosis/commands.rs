//! Commands with things to fill in, in the two notations of these files.

use super::Source;
use crate::plan::Template;

/// A piece of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// As it stands.
    Text(String),
    /// A value of the sweep.
    Axis(String),
}

/// A command whose values are all known but those of the sweep.
pub(super) type CommandPieces = Vec<Piece>;

/// What stands for a brace in [`Template`]s.
fn braces_doubled(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// `prefix`, as it stands, and the command behind it. `None` when a name of the sweep cannot be a placeholder.
pub(super) fn template(prefix: &str, words: &CommandPieces) -> Option<Template> {
    let mut text = braces_doubled(prefix);
    for piece in words {
        match piece {
            Piece::Text(plain) => text.push_str(&braces_doubled(plain)),
            Piece::Axis(name) => text.push_str(&format!("{{{name}}}")),
        }
    }
    Template::parse(&text).ok()
}

/// What is wrong, and at which byte of the command.
pub(super) type Wrong = (usize, String);

/// `{}` (also `{0}`) is `global`, a doubled brace is one, and a brace that stands alone is a mistake.
pub(super) fn format_braces(command: &str, global: &str) -> Result<String, Wrong> {
    let mut done = String::new();
    let mut rest = command;
    while let Some(at) = rest.find(['{', '}']) {
        let here = command.len() - rest.len() + at;
        let (before, from) = rest.split_at(at);
        done.push_str(before);
        let (text, length) = match from {
            _ if from.starts_with("{{") => ("{", 2),
            _ if from.starts_with("}}") => ("}", 2),
            _ if from.starts_with("{}") => (global, 2),
            _ if from.starts_with("{0}") => (global, 3),
            _ => {
                let why = "write a literal brace twice, `{{` or `}}`; `{}` is global_configs";
                return Err((here, why.into()));
            }
        };
        done.push_str(text);
        rest = &from[length..];
    }
    done.push_str(rest);
    Ok(done)
}

/// What a name in `${name}` stands for.
pub(super) enum Value {
    Text(String),
    Axis,
}

/// Fills in `${name}`; every other brace stands for itself.
pub(super) fn fill_dollars(
    command: &str,
    mut value: impl FnMut(&str) -> Result<Value, String>,
) -> Result<CommandPieces, Wrong> {
    let mut words = CommandPieces::new();
    let mut text = String::new();
    let mut rest = command;
    while let Some(at) = rest.find("${") {
        let here = command.len() - rest.len() + at;
        text.push_str(&rest[..at]);
        let Some((name, after)) = rest[at + 2..].split_once('}') else {
            return Err((here, "`${` without its `}`".into()));
        };
        match value(name).map_err(|why| (here, why))? {
            Value::Text(value) => text.push_str(&value),
            Value::Axis => {
                words.push(Piece::Text(std::mem::take(&mut text)));
                words.push(Piece::Axis(name.to_owned()));
            }
        }
        rest = after;
    }
    text.push_str(rest);
    words.push(Piece::Text(text));
    Ok(words)
}

/// The place of byte `at` of a value in the file: exact when it stands there as it is, else the value's beginning.
pub(super) fn place(source: Source<'_>, span: &std::ops::Range<usize>, value: &str, at: usize) -> usize {
    let raw = source.text.get(span.clone()).unwrap_or_default();
    raw.find(value).map_or(span.start, |from| span.start + from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn braces_are_filled_as_python_fills_them() {
        let format = |command| format_braces(command, "a={x}");
        assert_eq!(
            format("insmod m.ko {} & awk '{{print $1}}' {0}"),
            Ok("insmod m.ko a={x} & awk '{print $1}' a={x}".into())
        );
        assert_eq!(format("${{HOME}}"), Ok("${HOME}".into()));
        for (command, at) in [("awk '{print}'", 5), ("x }", 2), ("{1}", 0), ("ü{", 2), ("{}{", 2)] {
            assert_eq!(format(command).unwrap_err().0, at, "{command}");
        }
    }

    #[test]
    fn dollars_are_filled_and_other_braces_are_left() {
        let value = |name: &str| match name {
            "t" => Ok(Value::Axis),
            "n" => Ok(Value::Text("7".into())),
            _ => Err("unknown".to_owned()),
        };
        let words = fill_dollars("awk '{print $1}' -n ${n} -t ${t}", value).unwrap();
        assert_eq!(words[1], Piece::Axis("t".into()));
        let template = template("cd {x}\n", &words).unwrap();
        let filled = template.fill(|name| Ok::<_, ()>(format!("<{name}>"))).unwrap();
        assert_eq!(filled, "cd {x}\nawk '{print $1}' -n 7 -t <t>");
        assert_eq!(fill_dollars("ab${x}", value).unwrap_err().0, 2);
        assert_eq!(fill_dollars("ab${x", value).unwrap_err().0, 2);
    }

    proptest! {
        #[test]
        fn no_command_panics(command in "[a{}$0ü]{0,12}") {
            let _ = format_braces(&command, "{g}");
            let _ = fill_dollars(&command, |_| Ok(Value::Axis));
        }

        #[test]
        fn doubling_is_undone(command in ".{0,20}") {
            prop_assert_eq!(format_braces(&braces_doubled(&command), ""), Ok(command));
        }
    }
}
