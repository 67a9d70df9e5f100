//! Every sample of the shared sources parses, or has its first syntax error where the reference compiler has it.

mod common;

use std::collections::BTreeMap;

use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse};

/// Where the specification decides otherwise than the reference compiler: file, and the line of our first error.
const EXCEPTIONS: &[(&str, u32)] = &[
    // `{2, f2 = 5}` is neither an expression list nor a key-value list (appendix, `expression`); the reference compiler reads it
    // and refuses it later, after other errors.
    ("p4_16_errors/structure-valued-expr-errs-2.p4", 97),
    // There is no such edition of v1model, says its file.
    ("p4_16_errors/issue5296_invalid_version.p4", 11),
    // The IPsec accelerator is one device's, not part of the PNA specification, and not in our pna.p4.
    ("p4_16_samples/pna-example-ipsec.p4", 66),
];

#[test]
fn every_sample_parses_or_fails_where_it_must() {
    let Some((folder, samples)) = common::samples() else { return };
    assert!(samples.len() > 1_000, "{} samples", samples.len());
    let mut files = Vec::new();
    common::files(&folder.0, &mut files);
    let mut lacking: BTreeMap<String, u32> = BTreeMap::new();
    let (mut good, mut refused, mut decls, mut wrong) = (0, 0, 0, Vec::new());
    for sample in &samples {
        let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
        let program = parse(&mut map, &folder, &Options::default(), &sample.path, &mut diags);
        let place = diags.first_error().and_then(|e| map.place(e.span()));
        let found = place.as_ref().map(|p| (&*p.file, p.at.line));
        if EXCEPTIONS.contains(&(&*sample.path, found.map_or(0, |f| f.1))) {
            continue;
        }
        // Some samples include files that did not come with them.
        let missing =
            diags.first_error().filter(|e| e.code == "not-found").map(|e| map.text(e.span()).to_owned());
        if let Some(name) = missing.as_deref().and_then(|m| m.trim_matches('"').rsplit('/').next()) {
            let everywhere = files.iter().any(|f| f.ends_with(name));
            assert!(!everywhere, "{}: {name} is there", sample.path);
            *lacking.entry(name.to_owned()).or_default() += 1;
            continue;
        }
        if found != sample.syntax_error() {
            let drawn = render_all(&map, &diags, Style::Plain);
            let drawn: String = drawn.lines().take(16).map(|l| format!("    {l}\n")).collect();
            wrong.push(format!(
                "{}: expected {:?} ({})\n{drawn}",
                sample.path,
                sample.syntax_error(),
                sample.error
            ));
        } else if found.is_some() {
            refused += 1;
        } else {
            good += 1;
            decls += program.decls.len();
        }
    }
    println!(
        "{good} parse ({decls} declarations), {refused} are refused for their syntax; included files that are not there: {lacking:?}"
    );
    assert!(lacking.values().sum::<u32>() <= 30, "{lacking:?}");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), samples.len(), wrong.join("\n"));
    assert!(refused > 10);
}

/// Programs of this repository.
#[test]
fn our_own_files_parse() {
    let names: Vec<&str> = barewire_p4_source::builtin::names().collect();
    assert!(names.len() > 4);
    for name in names {
        let files = barewire_p4_source::resolve::MemoryFiles::one("a.p4", format!("#include <{name}>\n"));
        let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
        parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
        assert_eq!(diags.error_count(), 0, "{name}:\n{}", render_all(&map, &diags, Style::Plain));
    }
}
