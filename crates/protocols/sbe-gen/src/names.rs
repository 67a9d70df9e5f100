//! A schema's names as Rust's.

use std::collections::HashSet;

/// Words that no item or method may be called, and methods that views, encoders, enums and sets have of their own.
const TAKEN: &[&str] = &[
    "abstract",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "Self",
    "NULL",
    "NAMES",
    "bytes",
    "clone",
    "contains",
    "copy",
    "decode",
    "encode",
    "finish",
    "is_empty",
    "is_null",
    "name",
    "new",
    "push",
    "rt",
    "template",
    "trailing",
    "with_version",
];

/// `name`, or with `_` behind it where Rust or we have another use for it.
fn usable(mut name: String) -> String {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if TAKEN.contains(&name.as_str()) || name == "_" {
        name.push('_');
    }
    name
}

/// `MDEntryPx` to `md_entry_px`, whatever is no letter or digit to `_`.
fn words(name: &str) -> String {
    let chars: Vec<char> = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut out = String::new();
    for (i, &c) in chars.iter().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            let before = chars[i - 1];
            let starts_word = chars.get(i + 1).is_some_and(|next| next.is_ascii_lowercase());
            if before != '_' && (!before.is_ascii_uppercase() || starts_word) {
                out.push('_');
            }
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A field or a module.
pub(crate) fn snake(name: &str) -> String {
    usable(words(name))
}

/// A type.
pub(crate) fn pascal(name: &str) -> String {
    let mut out = String::new();
    for word in words(name).split('_') {
        let mut chars = word.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.extend(chars);
    }
    usable(out)
}

/// A constant.
pub(crate) fn screaming(name: &str) -> String {
    usable(words(name).to_ascii_uppercase())
}

/// A group's name without `No`, as FIX begins the names of counts.
fn plural(name: &str) -> &str {
    match name.strip_prefix("No") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_uppercase()) => rest,
        _ => name,
    }
}

/// A group's accessor: `NoMDEntries` to `md_entries`.
pub(crate) fn group(name: &str) -> String {
    snake(plural(name))
}

/// An entry's type: `NoMDEntries` to `MdEntry`.
pub(crate) fn entry(name: &str) -> String {
    let plural = pascal(plural(name));
    if let Some(stem) = plural.strip_suffix("ies") {
        return format!("{stem}y");
    }
    plural.strip_suffix('s').map_or(plural.clone(), str::to_owned)
}

/// Names of one scope; a name that comes again gets a number.
#[derive(Default)]
pub(crate) struct Scope(HashSet<String>);

impl Scope {
    pub(crate) fn unique(&mut self, name: String) -> String {
        let mut unique = name.clone();
        let mut n = 2;
        let is_type = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.contains(|c: char| c.is_ascii_lowercase());
        let between = if is_type { "" } else { "_" };
        while !self.0.insert(unique.clone()) {
            unique = format!("{name}{between}{n}");
            n += 1;
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_rust() {
        assert_eq!(snake("MDEntryPx"), "md_entry_px");
        assert_eq!(snake("type"), "type_");
        assert_eq!(snake("some-thing"), "some_thing");
        assert_eq!(snake("2nd"), "_2nd");
        assert_eq!(pascal("MDEntryPx"), "MdEntryPx");
        assert_eq!(pascal("self"), "Self_");
        assert_eq!(screaming("NoMDEntries"), "NO_MD_ENTRIES");
        assert_eq!((group("NoMDEntries"), entry("NoMDEntries")), ("md_entries".into(), "MdEntry".into()));
        assert_eq!((group("Notes"), entry("Notes")), ("notes".into(), "Note".into()));
        let mut scope = Scope::default();
        assert_eq!(scope.unique("a".into()), "a");
        assert_eq!(scope.unique("a".into()), "a_2");
        assert_eq!(scope.unique("a".into()), "a_3");
        assert_eq!([0; 2].map(|_| scope.unique("LegEncoder".into())), ["LegEncoder", "LegEncoder2"]);
    }
}
