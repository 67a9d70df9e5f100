//! Every sample of the shared sources parses, or has its first syntax error where the reference compiler has it.

mod common;

use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse};

#[test]
fn every_sample_parses_or_fails_where_it_must() {
    let Some((folder, samples)) = common::samples() else { return };
    assert!(samples.len() > 1_000, "{} samples", samples.len());
    let (mut good, mut refused, mut wrong) = (0, 0, Vec::new());
    for sample in &samples {
        let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
        let program = parse(&mut map, &folder, &Options::default(), &sample.path, &mut diags);
        let place = diags.first_error().and_then(|e| map.place(e.span()));
        let found = place.as_ref().map(|p| (&*p.file, p.line));
        if found != sample.syntax_error() {
            let drawn = render_all(&map, &diags, Style::Plain);
            let drawn: String = drawn.lines().take(16).map(|l| format!("    {l}\n")).collect();
            wrong.push(format!("{}: expected {:?} ({})\n{drawn}", sample.path, sample.syntax_error(), sample.error));
        } else if found.is_some() {
            refused += 1;
        } else {
            assert!(!program.decls.is_empty(), "{}", sample.path);
            good += 1;
        }
    }
    println!("{good} parse, {refused} are refused for their syntax");
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
