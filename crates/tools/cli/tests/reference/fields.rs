//! Fields of a struct that a configuration file is read into, from its source.

use std::collections::BTreeSet;

/// The names of the fields of `name` in this source: what TOML may have as keys, as nothing renames them.
pub fn of(source: &str, name: &str, file: &str) -> BTreeSet<String> {
    let begins = format!("struct {name} {{");
    let (before, rest) = source.split_once(&begins).unwrap_or_else(|| panic!("{file} has no `{begins}`"));
    let line = before.rsplit('\n').next().unwrap_or_default();
    let indent = &line[..line.len() - line.trim_start().len()];
    let (body, _) = rest.split_once(&format!("\n{indent}}}")).expect("an end");
    assert!(!body.contains("serde(rename"), "{file}: {name} renames fields, which this does not read");
    let fields: BTreeSet<String> = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with(['/', '#']))
        .filter_map(|line| line.split_once(": "))
        .map(|(field, _)| field.rsplit(' ').next().expect("a word").to_owned())
        .collect();
    assert!(!fields.is_empty(), "{file}: {name} has no fields");
    fields
}

#[test]
fn fields_are_found_without_what_stands_around_them() {
    let source = "struct A {\n    /// b: c\n    #[serde(default)]\n    pub(super) d: Option<u8>,\n    e: Vec<F>,\n}\nstruct G {}\n";
    assert_eq!(of(source, "A", "x.rs"), BTreeSet::from(["d".to_owned(), "e".to_owned()]));
}
