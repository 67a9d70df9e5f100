//! Texts with placeholders: `{name}`; `{{` and `}}` are braces.

use std::fmt;

/// A text with placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(String),
}

/// Why a text is no template, with the byte at which it goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Byte of the text.
    pub at: usize,
    /// What is wrong.
    pub why: &'static str,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

impl Template {
    /// `text` as it stands, whatever braces it has.
    pub fn literal(text: impl Into<String>) -> Template {
        Template { parts: vec![Part::Text(text.into())] }
    }

    /// Reads a text with placeholders.
    ///
    /// # Errors
    /// [`TemplateError`] for a brace that stands alone.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        const ALONE: &str = "write a literal brace twice: `{{` or `}}`";
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let here = text.len() - rest.len() + at;
            plain.push_str(&rest[..at]);
            let from = &rest[at..];
            if from.starts_with("{{") || from.starts_with("}}") {
                plain.push_str(&from[..1]);
                rest = &from[2..];
                continue;
            }
            let name = from.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let Some((name, after)) = name.filter(|(name, _)| is_name(name)) else {
                return Err(TemplateError { at: here, why: ALONE });
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Name(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template { parts })
    }

    /// The placeholders' names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Whether it is one placeholder and nothing else.
    pub fn is_one_placeholder(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Name(_)])
    }

    /// The text, placeholders filled in.
    ///
    /// # Errors
    /// What `value` says of a name.
    pub fn fill<E>(&self, mut value: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Name(name) => text.push_str(&value(name)?),
            }
        }
        Ok(text)
    }
}

impl fmt::Display for Template {
    /// As it is written in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(plain) => f.write_str(&plain.replace('{', "{{").replace('}', "}}")),
            Part::Name(name) => write!(f, "{{{name}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(text: &str) -> String {
        let template = Template::parse(text).unwrap();
        template.fill(|name| Ok::<_, ()>(format!("<{name}>"))).unwrap()
    }

    #[test]
    fn placeholders_are_filled_and_doubled_braces_are_braces() {
        assert_eq!(filled("a{host.port}b{seconds}"), "a<host.port>b<seconds>");
        assert_eq!(filled("awk '{{ print }}' }}{x}{{"), "awk '{ print }' }<x>{");
        assert_eq!(filled(""), "");
        assert!(Template::parse("{x}").unwrap().is_one_placeholder());
        assert!(!Template::parse("{x}{y}").unwrap().is_one_placeholder());
        for (text, at) in [("ab{", 2), ("{}", 0), ("x}", 1), ("{ a }", 0), ("{a{b}}", 0), ("ü{", 2)] {
            assert_eq!(Template::parse(text).unwrap_err().at, at, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(text in "[a-z{}. -]{0,20}") {
            if let Ok(template) = Template::parse(&text) {
                prop_assert_eq!(Template::parse(&template.to_string()), Ok(template));
            }
        }

        #[test]
        fn a_literal_is_itself(text in ".{0,20}") {
            let template = Template::literal(text.clone());
            prop_assert_eq!(template.fill(|_| Err(())), Ok(text));
        }
    }
}
