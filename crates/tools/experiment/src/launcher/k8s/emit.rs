//! Values as YAML (1.2, block style), for people to read and tools to take.

use serde_json::Value;
use std::fmt::Write;

/// Writes documents, each after `---`.
pub fn yaml(documents: &[Value]) -> String {
    let mut text = String::new();
    for document in documents {
        text.push_str("---\n");
        block(&mut text, document, 0);
    }
    text
}

/// A value that stands in lines of its own.
fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                indent(text, depth);
                text.push_str(&scalar_text(key));
                text.push(':');
                after(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text, depth);
                text.push('-');
                match item {
                    // The first key stands beside the dash.
                    Value::Object(map) if !map.is_empty() => {
                        let mut inner = String::new();
                        block(&mut inner, item, depth + 1);
                        let _ = write!(text, " {}", inner.trim_start());
                    }
                    _ => after(text, item, depth),
                }
            }
        }
        other => {
            indent(text, depth);
            text.push_str(&scalar(other));
            text.push('\n');
        }
    }
}

/// What stands behind a key or a dash.
fn after(text: &mut String, value: &Value, depth: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        text.push('\n');
        // Lists under a key are indented too: both readers and people see where they end.
        block(text, value, depth + 1);
    } else {
        let _ = writeln!(text, " {}", scalar(value));
    }
}

fn indent(text: &mut String, depth: usize) {
    (0..depth).for_each(|_| text.push_str("  "));
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(string) => scalar_text(string),
        // `{}`, `[]`, `null`, `true` and numbers are the same in both.
        other => other.to_string(),
    }
}

/// Plain where no reader of any YAML takes it for something else; else in double quotes, whose escapes are those of JSON.
fn scalar_text(text: &str) -> String {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    const WORDS: [&str; 11] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan"];
    if starts && text.chars().all(plain) && !WORDS.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    Value::String(text.to_owned()).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nesting_lists_and_words_that_look_like_others() {
        let value = json!({
            "a": { "b": [1, "two", { "c": true, "d": [] }, ["x", []]], "e": {} },
            "k/x": "1.0",
            "on": "yes",
            "s": "a: b # c\n\"q\"",
            "v": null,
        });
        let want = "---\na:\n  b:\n    - 1\n    - two\n    - c: true\n      d: []\n    -\n      - x\n      - []\n  e: {}\n\
                    k/x: \"1.0\"\n\"on\": \"yes\"\ns: \"a: b # c\\n\\\"q\\\"\"\nv: null\n";
        assert_eq!(yaml(&[value]), want);
        assert_eq!(yaml(&[json!({}), json!(1)]), "---\n{}\n---\n1\n");
    }
}
