//! Every sample of the shared sources is accepted or refused as by the reference compiler's front end, and where that says
//! what was wrong first, for the same reason at the same line.

mod common;

use std::collections::BTreeMap;

use barewire_p4_source::diag::{Severity, Style, render_all};
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};

/// Samples that are judged otherwise, with the clause that decides.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "array4.p4",
        "8.18 indexes stacks by values known at run time only; how many is a limit of that compiler",
    ),
    (
        "issue1777-bmv2.p4",
        "7.2.5 and 12.1: a field of a struct that an extern wrote is a variable like others",
    ),
    (
        "issue2545.p4",
        "8.20: an `inout` argument of an extern function can be any l-value, also a struct of headers",
    ),
    ("issue3299.p4", "14.1: a body of statements, `switch` among them; it is that target that has none"),
    ("issue376-bmv2.p4", "the reference compiler points into its own v1model.p4, we to the argument: 16.2"),
    ("nested-headers-bmv2.p4", "as issue376-bmv2.p4: the file of the architecture is another one"),
    ("no-header1-bmv2.p4", "as issue376-bmv2.p4: the file of the architecture is another one"),
    (
        "structure-valued-expr-errs-2.p4",
        "the syntax error further down (8.13, a list or names, not both) is told alone",
    ),
    ("issue1803_same_table_name.p4", "20.3.3: a name outside is that of one thing; no P4Info was asked for"),
    ("issue1949-bmv2.p4", "20.3.3: as issue1803_same_table_name.p4"),
    ("multicast-bmv2.p4", "20.3.3: as issue1803_same_table_name.p4"),
    ("compound-assignment.p4", "8.6: refused at the division, not where its value was moved to"),
    (
        "init-entries-error1-bmv2.p4",
        "14.2.1.4.1: there is no reason for such priorities, and no rule against them",
    ),
    ("issue122.p4", "13.6: a key set is evaluated, and appendix F: functions can be called there"),
    ("issue3291.p4", "7.2.10: `h<h<bit>>` does not contain itself"),
    ("issue3613.p4", "12.7.2: a `switch` needs nothing of core.p4"),
    ("issue5296_invalid_version.p4", "17: v1model's own file refuses editions that there are not"),
    ("issue5296_unknown_version.p4", "17: as issue5296_invalid_version.p4"),
    ("issue532.p4", "14.1 and appendix F: action data of any type; P4Runtime has no way to give it"),
    ("type-in-expr.p4", "6.4.1: the scope of a type parameter begins behind the annotation"),
    ("opassign1.p4", "8.6: `bit<W>` is not divided; that compiler keeps the operator for a test"),
    ("precedence.p4", "8.6: `bit<W>` is not divided, used or not"),
    (
        "issue5703_header_union_stack.p4",
        "8.19 and 12.8.1: the header of a union in a stack is an l-value like others",
    ),
];

/// What the reference compiler says first, if it is an error with a place.
fn expected_error(text: &str) -> Option<(&str, &str, u32)> {
    let (place, rest) = text.split_once(": [--Werror=")?;
    let (kind, _) = rest.split_once(']')?;
    let (file, line) = place.strip_suffix(')')?.split_once('(')?;
    Some((kind, file, line.parse().ok()?))
}

#[test]
fn every_sample_is_judged_as_by_the_reference_compiler() {
    let Some((folder, samples)) = common::samples() else { return };
    let exceptions: BTreeMap<&str, &str> = EXCEPTIONS.iter().copied().collect();
    let only = std::env::var("ONLY").ok();
    let (mut accepted, mut refused, mut lines, mut judged_lines, mut excepted) = (0, 0, 0, 0, 0);
    let mut wrong = Vec::new();
    let mut incomplete = Vec::new();
    let mut other_line = Vec::new();
    for sample in &samples {
        let Some(code) = sample.code else { continue };
        if only.as_ref().is_some_and(|only| !sample.path.contains(only.as_str())) {
            continue;
        }
        let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
        let program = parse(&mut map, &folder, &Options::default(), &sample.path, &mut diags);
        if diags.error_count() == 0 {
            types::check(&program, &map, &mut diags);
        }
        let drawn = || {
            let all: String = render_all(&map, &diags, Style::Plain)
                .lines()
                .filter(|line| !line.starts_with("warning"))
                .take(14)
                .map(|line| format!("    {line}\n"))
                .collect();
            all
        };
        if only.is_some() {
            println!("{}\n{}", sample.path, render_all(&map, &diags, Style::Plain));
        }
        let name = sample.path.rsplit('/').next().unwrap_or_default();
        if exceptions.contains_key(name) {
            excepted += 1;
            continue;
        }
        if diags.iter().any(|d| d.message.starts_with("there is no file")) {
            incomplete.push(name.to_owned());
            continue;
        }
        let ours = diags.error_count() > 0;
        if ours != (code != 0) {
            let what = if ours { "is refused" } else { "is accepted" };
            wrong.push(format!("{} {what}: {}\n{}", sample.path, sample.error, drawn()));
            continue;
        }
        if !ours {
            accepted += 1;
            continue;
        }
        refused += 1;
        if let Some((kind, _, line)) = expected_error(&sample.error) {
            judged_lines += 1;
            let first = diags.iter().find(|d| d.severity == Severity::Error);
            let found = first.map(|d| (d.code, map.place(d.span()).map_or(0, |place| place.at.line)));
            if found == Some((kind, line)) {
                lines += 1;
            } else {
                other_line.push(format!(
                    "{}: expected {kind} at {line}, found {found:?}: {}\n{}",
                    sample.path,
                    sample.error,
                    drawn()
                ));
            }
        }
    }
    println!(
        "{accepted} accepted, {refused} refused, {excepted} exceptions, {} include files that are not there, {} wrong; \
         first error: {lines} of {judged_lines} equal",
        incomplete.len(),
        wrong.len()
    );
    let mut report = wrong.join("\n");
    report.push_str("\n======== other first error\n");
    report.push_str(&other_line.join("\n"));
    if let Ok(path) = std::env::var("REPORT") {
        std::fs::write(path, &report).unwrap();
    }
    assert!(wrong.is_empty() && other_line.is_empty(), "{report}");
}
