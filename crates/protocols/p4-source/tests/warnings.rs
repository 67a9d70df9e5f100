//! Warnings: each kind where it belongs and nowhere else, and how the source switches it off.

use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};

/// Code and line of each warning; there are no errors.
fn warnings(text: &str) -> Vec<(&'static str, u32)> {
    let files = MemoryFiles::one("a.p4", text);
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let program = parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
    types::check(&program, &map, &mut diags);
    assert_eq!(diags.error_count(), 0, "{:?}", diags.iter().map(|d| &d.message).collect::<Vec<_>>());
    let line = |d: &barewire_p4_source::Diagnostic| map.place(d.span()).map_or(0, |place| place.at.line);
    diags.iter().map(|d| (d.code, line(d))).collect()
}

fn uninitialized(body: &str) -> usize {
    let text = format!(
        "extern void fill(out bit<8> x);\nextern bool both(inout bit<8> x);\n\
         bit<8> f(in bit<8> a, in bool c) {{ bit<8> x; {body} return a; }}\n"
    );
    warnings(&text).into_iter().filter(|(code, _)| *code == "uninitialized_use").count()
}

#[test]
fn variables_that_are_read_first() {
    for (told, body) in [
        (1, "bit<8> y = x;"),
        (1, "x = x + 1;"),
        (1, "x += 1;"),
        (1, "if (c) { x = 1; } bit<8> y = x;"),
        (1, "bool b = c && both(x);"),
        (1, "for (bit<8> i in 8w0 .. 3) { x = 1; } bit<8> y = x;"),
        (1, "switch (a) { 1: { x = 1; } } bit<8> y = x; y = x;"),
        (0, "x = 1; bit<8> y = x;"),
        (0, "fill(x); bit<8> y = x;"),
        (0, "if (c) { x = 1; } else { x = 2; } bit<8> y = x;"),
        (0, "if (c) { x = 1; } else { return a; } bit<8> y = x;"),
        (0, "switch (a) { 1: { x = 1; } default: { x = 2; } } bit<8> y = x;"),
        (0, "x[3:0] = 1; bit<8> y = x;"),
        (0, "x = c ? a : 1;"),
    ] {
        assert_eq!(uninitialized(body), told, "{body}");
    }
}

#[test]
fn what_is_behind_the_end_is_never_executed() {
    let text = "control c(inout bit<8> a) {\naction x() {\nreturn;\na = 1;\n}\napply {\nx();\n\
                if (a == 1) { exit; } else { return; }\na = 2;\n}\n}\n";
    assert_eq!(warnings(text), [("unreachable", 4), ("unreachable", 9)]);
    let text = "control c(inout bit<8> a) {\napply {\nif (a == 1) { exit; }\na = 2;\nexit;\n}\n}\n";
    assert_eq!(warnings(text), []);
    let text = "control c(inout bit<8> a) {\napply {\nfor (bit<8> i in 8w0 .. 3) {\nif (a == i) { break; a = 3; }\n}\na = 2;\n}\n}\n";
    assert_eq!(warnings(text), [("unreachable", 4)]);
}

#[test]
fn no_warn_silences_what_it_names() {
    let text = "control c(inout bit<8> a) {\n    @noWarn(\"uninitialized_use\") action x() { bit<8> v; a = v; }\n    \
                action y() { bit<8> v; a = v; }\n    apply { x(); y(); }\n}\n";
    assert_eq!(warnings(text), [("uninitialized_use", 3)]);
    assert_eq!(warnings(&format!("@noWarn(\"uninitialized_use\")\n{text}")), []);
    assert_eq!(warnings(&format!("@noWarn(\"shadow\")\n{text}")), [("uninitialized_use", 4)]);
}
