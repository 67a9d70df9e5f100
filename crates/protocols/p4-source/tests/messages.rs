//! What common slips are told: the place, and the help that names the way out.

use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};

/// Everything that is said of a text.
fn said(text: &str) -> String {
    let files = MemoryFiles::one("a.p4", text);
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let program = parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
    if diags.error_count() == 0 {
        types::check(&program, &map, &mut diags);
    }
    render_all(&map, &diags, Style::Plain)
}

/// One with these declarations and statements in a control.
fn control(declarations: &str, body: &str) -> String {
    format!(
        "#include <core.p4>\nheader h_t {{ bit<8> ttl; }}\n\
         control c(inout h_t h, inout bit<8> a) {{\n{declarations}\napply {{\n{body}\n}}\n}}\n"
    )
}

#[test]
fn slips_of_other_languages_are_named() {
    for (text, help) in [
        (control("", "if (a = 1) { }"), "`==` compares, `=` assigns"),
        (control("", "if (a == 1) { } elif (a == 2) { }"), "in two words: `else if`"),
        (control("", "while (a == 1) { a = 2; }"), "P4 has `for (init; condition; update)`"),
        (control("", "a--;"), "P4 has no `--`: write `x = x - 1`"),
        (control("", "a++;"), "P4 has no `++`: write `x = x + 1`"),
        (control("", "int x = 3;"), "give it a width, such as `bit<32>`"),
        (control("", "if (h.valid) { }"), "headers have a method `isValid()`"),
        (
            control("table t { key = { a: longest; } actions = { NoAction; } }", "t.apply();"),
            "there are `exact`,",
        ),
    ] {
        let said = said(&text);
        assert!(said.contains(help), "{help}: {said}");
        assert_eq!(said.matches("error[").count(), 1, "{said}");
    }
}

#[test]
fn a_key_by_the_name_that_it_had_in_p4_14_is_one_error() {
    let table = "table t {\nreads = {\na: exact;\n}\nactions = { NoAction; }\nsize = 5;\n}";
    let said = said(&control(table, "t.apply();"));
    // Where the syntax ends to be right, and where the slip is.
    assert!(said.contains("a.p4:6:2"), "{said}");
    assert!(said.contains("is this property `key`?"), "{said}");
    assert_eq!(said.matches("error[").count(), 1, "{said}");
    let other = said.replace("reads", "actoins");
    assert!(!other.contains("`actions`?"), "{other}");
}

#[test]
fn a_value_in_braces_is_a_property_like_others() {
    let table = "table t { key = { a: exact; } actions = { NoAction; } entres = { 1, 2 }; }";
    let said = said(&control(table, "t.apply();"));
    assert!(!said.contains("error["), "{said}");
}

#[test]
fn what_is_declared_further_down_is_shown() {
    let locals = "action f() { t.apply(); }\ntable t { key = { a: exact; } actions = { NoAction; } }";
    let told = said(&control(locals, "f(); t.apply();"));
    assert!(told.contains("`t` is not declared") && told.contains("a.p4:4:14"), "{told}");
    assert!(told.contains("declared here") && told.contains("known behind its declaration"), "{told}");
    // Not the name itself, and nothing of another control.
    let told = said("control d() { action g() { } apply { } }\ncontrol c() { apply { g(); } }\n");
    assert!(told.contains("`g` is not declared") && !told.contains("declared here"), "{told}");
    let told = said("struct s { t_t t; }\nheader t_t { bit<8> a; }\n");
    assert!(told.contains("expected a type, found `t_t`") && told.contains("declared here"), "{told}");
}

#[test]
fn a_string_without_its_end_is_one_error_on_one_line() {
    let text = control("", "log(\"abc);\na = 1;").replace("control", "extern void log(string s);\ncontrol");
    let told = said(&text);
    assert_eq!(told.matches("error[").count(), 1, "{told}");
    assert!(told.contains("a `\"` is missing") && !told.contains("a = 1"), "{told}");
}

#[test]
fn a_transition_without_a_state_is_one_error() {
    let told = said(
        "#include <core.p4>\nparser p(packet_in b) {\nstate start { transition }\nstate other { transition accept; }\n}\n",
    );
    assert_eq!(told.matches("error[").count(), 1, "{told}");
    assert!(told.contains("expected the name of a state, or `select`"), "{told}");
}

#[test]
fn numbers_that_do_not_fit_where_they_go_are_told() {
    for (body, warning) in [
        ("a = 256;", "warning[overflow]: 256 does not fit `bit<8>`"),
        ("a = a - 300;", "warning[overflow]: 300 does not fit `bit<8>`"),
        ("if (a == 300) { a = 1; }", "warning[overflow]: 300 does not fit `bit<8>`"),
        ("a = -1;", "warning[mismatch]: -1 does not fit `bit<8>`"),
        ("a = 1 << 9;", "warning[overflow]: 512 does not fit `bit<8>`"),
    ] {
        let told = said(&control("", body));
        assert!(told.contains(warning), "{body}: {told}");
        assert_eq!(told.matches("warning[").count(), 1, "{body}: {told}");
    }
    for body in ["a = 255;", "a = a + 1;", "int<8> x = -1; a = (bit<8>) x;", "a = (bit<8>) (16w300)[7:0];"] {
        let told = said(&control("", body));
        assert!(!told.contains("does not fit"), "{body}: {told}");
    }
}
