//! Small programs about the corners of the language, each decided by the clause of the specification in its first line: accepted,
//! or refused first at the line that ends in `//! KIND`.

mod common;

use barewire_p4_source::diag::{Severity, Style, render_all};
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use std::path::Path;

#[test]
fn corners_are_judged_by_the_specification() {
    let folder = common::Folder(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corners"));
    let only = std::env::var("ONLY").ok();
    let mut files = Vec::new();
    common::files(&folder.0, &mut files);
    let (mut accepted, mut refused, mut wrong) = (0, 0, Vec::new());
    for path in files {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("it is readable");
        let expected = text
            .lines()
            .enumerate()
            .find_map(|(at, line)| Some((at as u32 + 1, line.split_once("//! ")?.1.trim())));
        let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
        let program = parse(&mut map, &folder, &Options::default(), name, &mut found);
        if found.error_count() == 0 {
            types::check(&program, &map, &mut found);
        }
        let drawn = render_all(&map, &found, Style::Plain);
        let first = found.iter().find(|d| d.severity == Severity::Error);
        let first = first.map(|d| (map.place(d.span()).map_or(0, |place| place.at.line), d.code));
        let right = match (expected, first) {
            (None, None) => true,
            (Some((line, kind)), Some((at, code))) => line == at && (kind == "*" || kind == code),
            _ => false,
        };
        match expected {
            None => accepted += 1,
            Some(_) => refused += 1,
        }
        if !right {
            wrong.push(format!("{name}: expected {expected:?}, found {first:?}\n{drawn}"));
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(only.is_some() || accepted + refused >= 180, "{accepted} and {refused}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
