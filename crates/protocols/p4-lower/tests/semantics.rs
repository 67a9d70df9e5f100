//! What small programs do to a packet, worked out by hand from the specification: order of evaluation, copies in and out, `exit`,
//! slices as places, entries and keys, loops. Each runs on both engines.

mod packets;

use barewire_p4_lower::lower;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use packets::{program, sends, with_parser};

const INC: &str = "bit<8> inc(inout bit<8> z) { z = z + 1; return z; }";

#[test]
fn operands_go_from_left_to_right() {
    let text = program(INC, "", "hdr.h.c = hdr.h.a + inc(hdr.h.a) + hdr.h.a;");
    sends(&text, &[("05 00 00 00 0000", "06 00 11 00 0000")]);
    let text = program(INC, "", "hdr.h.e = hdr.h.a ++ inc(hdr.h.a);");
    sends(&text, &[("05 00 00 00 0000", "06 00 00 00 0506")]);
    let text = program(
        INC,
        "",
        "tuple<bit<8>, bit<8>, bit<8>> t = { hdr.h.a, inc(hdr.h.a), hdr.h.a }; hdr.h.b = t[0]; hdr.h.c = t[1]; hdr.h.d = t[2];",
    );
    sends(&text, &[("05 00 00 00 0000", "06 05 06 06 0000")]);
    let text = program(
        INC,
        "",
        "hdr.h.b = (bit<8>)(bit<1>)(hdr.h.a == 5 && inc(hdr.h.a) == 6 || inc(hdr.h.c) == 1); hdr.h.d = hdr.h.a == 9 ? inc(hdr.h.a) : inc(hdr.h.d);",
    );
    sends(&text, &[("05 00 00 00 0000", "06 01 00 01 0000"), ("04 00 00 00 0000", "04 01 01 01 0000")]);
    // What is compared with two sides that act.
    let text = program(INC, "", "if (inc(hdr.h.a) < inc(hdr.h.a)) { hdr.h.b = 1; }");
    sends(&text, &[("05 00 00 00 0000", "07 01 00 00 0000")]);
}

#[test]
fn parameters_are_copied_in_and_out_in_order() {
    let globals = format!(
        "{INC}\nvoid two(inout bit<8> x, inout bit<8> y) {{ x = 1; y = y + 2; }}\n\
         void f(inout bit<8> x, in bit<8> y) {{ x = x + y; }}\n\
         void three(inout bit<8> x, in bit<8> y, out bit<8> z) {{ x = 10; z = 20; }}\n\
         void back(out bit<8> z, in bit<8> y, inout bit<8> x) {{ x = 10; z = 20; }}"
    );
    sends(&program(&globals, "", "two(hdr.h.a, hdr.h.a);"), &[("05 00 00 00 0000", "07 00 00 00 0000")]);
    sends(&program(&globals, "", "f(hdr.h.a, inc(hdr.h.a));"), &[("05 00 00 00 0000", "0b 00 00 00 0000")]);
    sends(
        &program(&globals, "", "three(hdr.h.a, inc(hdr.h.a), hdr.h.a);"),
        &[("05 00 00 00 0000", "14 00 00 00 0000")],
    );
    sends(
        &program(&globals, "", "back(hdr.h.a, inc(hdr.h.a), hdr.h.a);"),
        &[("05 00 00 00 0000", "0a 00 00 00 0000")],
    );
    sends(
        &program(&globals, "", "f(y = inc(hdr.h.a), x = hdr.h.a);"),
        &[("05 00 00 00 0000", "0c 00 00 00 0000")],
    );
    // The place of an element is chosen once.
    let body = "hdr.s[0] = { 16 }; hdr.s[1] = { 32 }; f(hdr.s[hdr.h.a].z, inc(hdr.h.a)); hdr.s[inc(hdr.h.a) - 1].z = 7;";
    sends(&program(&globals, "", body), &[("00 00 00 00 0000", "02 00 00 00 0000 11 07")]);
    // An action in an action, with data.
    let locals = "action in_it(inout bit<8> x, bit<8> y) { x = x + y; hdr.h.b = x; }\naction all(inout bit<8> x) { in_it(x, 3); x = x + 1; hdr.h.c = hdr.h.a; }";
    sends(&program("", locals, "all(hdr.h.a);"), &[("05 00 00 00 0000", "09 08 05 00 0000")]);
    // A control whose arguments are one another's.
    let globals =
        "control K(inout bit<8> x, in bit<8> y, inout bit<8> z) { apply { x = 1; z = y + 1; x = x + z; } }";
    sends(
        &program(globals, "K() k;", "k.apply(hdr.h.a, hdr.h.a, hdr.h.a);"),
        &[("05 00 00 00 0000", "06 00 00 00 0000")],
    );
    // What an `out` parameter holds at first is nothing: headers are invalid.
    let globals = "control K(out x_t x, out bit<8> y) { apply { y = 0; if (x.isValid()) { y = 1; } } }";
    sends(
        &program(globals, "K() k;", "x_t x = { 3 }; k.apply(x, hdr.h.a); if (x.isValid()) { hdr.h.b = 9; }"),
        &[("05 00 00 00 0000", "00 00 00 00 0000")],
    );
}

#[test]
fn slices_are_places() {
    let globals = "void swap(inout bit<4> x, inout bit<4> y) { bit<4> t = x; x = y; y = t; }\nvoid set(inout bit<4> x, inout bit<4> y) { x = 0xf; y = 0; }";
    sends(
        &program(globals, "", "hdr.h.a[7:4] = hdr.h.b[3:0]; hdr.h.a[3:0][2:1] = 3;"),
        &[("00 0a 00 00 0000", "a6 0a 00 00 0000")],
    );
    sends(
        &program(globals, "", "swap(hdr.h.a[7:4], hdr.h.a[3:0]);"),
        &[("5a 00 00 00 0000", "a5 00 00 00 0000")],
    );
    sends(
        &program(globals, "", "set(hdr.h.a[7:4], hdr.h.a[5:2]);"),
        &[("00 00 00 00 0000", "c0 00 00 00 0000")],
    );
    sends(
        &program(
            globals,
            "",
            "hdr.h.a = (hdr.h.b ++ hdr.h.c)[11:4]; int<8> n = -1; n[7:7] = 0; hdr.h.d = (bit<8>) n;",
        ),
        &[("00 12 34 00 0000", "23 12 34 7f 0000")],
    );
    sends(
        &program(globals, "", "hdr.h.e[11:4] += hdr.h.a; hdr.h.b = hdr.h.e[hdr.h.c +: 8];"),
        &[("ff 00 03 00 1234", "ff 44 03 00 1224")],
    );
}

#[test]
fn numbers_wrap_shift_and_saturate() {
    let body = "int<8> x = (int<8>) hdr.h.a; hdr.h.b = (bit<8>) (x >> 2); hdr.h.c = hdr.h.a >> 2; hdr.h.d = (bit<8>) (x |+| 100); hdr.h.e = (bit<16>) (int<16>) x;";
    sends(
        &program("", "", body),
        &[("90 00 00 00 0000", "90 e4 24 f4 ff90"), ("70 00 00 00 0000", "70 1c 1c 7f 0070")],
    );
    // Farther than the number is wide.
    let body = "bit<32> far = hdr.h.d ++ hdr.h.e ++ hdr.h.d; int<8> x = (int<8>) hdr.h.a; hdr.h.b = hdr.h.a << far; hdr.h.c = (bit<8>) (x >> far); hdr.h.a = hdr.h.a >> far;";
    sends(
        &program("", "", body),
        &[("90 55 55 ff ffff", "00 00 ff ff ffff"), ("90 55 55 00 0001", "00 00 ff 00 0001")],
    );
    let body = "hdr.h.b = -hdr.h.a; hdr.h.c = ~hdr.h.a; hdr.h.d = hdr.h.a |-| 7; hdr.h.e = (bit<16>) hdr.h.a * 0x1001;";
    sends(&program("", "", body), &[("05 00 00 00 0000", "05 fb fa 00 5005")]);
    let body = "int<4> n = (int<4>) hdr.h.a[3:0]; hdr.h.e = (bit<16>) (int<16>) (n ++ (bit<4>) n); if (n < 0) { hdr.h.b = 1; } hdr.h.c = hdr.h.a / 4; hdr.h.d = hdr.h.a % 4;";
    sends(
        &program("", "", body),
        &[("0f 00 00 00 0000", "0f 01 03 03 ffff"), ("07 00 00 00 0000", "07 00 01 03 0077")],
    );
    // A number wider than any register.
    let body = "bit<200> n = 1; n = n << 199; n = n | (bit<200>) hdr.h.a; hdr.h.b = n[199:192]; hdr.h.c = n[7:0]; n = n - 1; hdr.h.d = n[198:191];";
    sends(&program("", "", body), &[("00 00 00 00 0000", "00 80 00 ff 0000")]);
}

#[test]
fn exit_leaves_everything_and_copies_out() {
    // The action of a table in a control that is applied twice.
    let inner = "control K(inout bit<8> x) {\naction ex() { x = 7; exit; }\naction go() { x = x + 1; }\n\
                 table t { key = { x: exact; } actions = { ex; go; } default_action = go; const entries = { 1: ex(); } }\n";
    for apply in [
        "t.apply(); x = x + 0x10;",
        "if (t.apply().hit) { x = 0x40; } x = x + 0x10;",
        "if (!t.apply().hit) { x = x + 0x10; }",
        "bool b = x == 9 || t.apply().miss; if (b) { x = x + 0x10; }",
        "switch (t.apply().action_run) { ex: { x = 0x50; } default: { x = x + 0x10; } }",
        "switch (t.apply().action_run) { go: { x = x + 0x10; } }",
    ] {
        let globals = format!("{inner}apply {{ {apply} }} }}");
        let text = program(&globals, "K() k;", "k.apply(hdr.h.a); k.apply(hdr.h.b); hdr.h.c = 1;");
        sends(
            &text,
            &[
                ("01 02 00 00 0000", "07 02 00 00 0000"),
                ("02 01 00 00 0000", "13 07 00 00 0000"),
                ("02 02 00 00 0000", "13 13 01 00 0000"),
            ],
        );
        // Two deep.
        let globals = format!(
            "{globals}\ncontrol L(inout bit<8> y) {{ K() k; apply {{ y = y - 1; k.apply(y); y = y + 0x20; }} }}"
        );
        let text = program(&globals, "L() l;", "l.apply(hdr.h.a); l.apply(hdr.h.b); hdr.h.c = 1;");
        sends(
            &text,
            &[
                ("02 03 00 00 0000", "07 03 00 00 0000"),
                ("03 02 00 00 0000", "33 07 00 00 0000"),
                ("03 03 00 00 0000", "33 33 01 00 0000"),
            ],
        );
    }
    // An action that is called, with a parameter of its own.
    let locals = "action ex(inout bit<8> x) { x = 3; if (hdr.h.b == 1) { exit; } x = 4; }\naction around(inout bit<8> x) { ex(x); x = x + 8; }";
    let text = program("", locals, "around(hdr.h.a); hdr.h.c = 1;");
    sends(&text, &[("00 01 00 00 0000", "03 01 00 00 0000"), ("00 02 00 00 0000", "0c 02 01 00 0000")]);
    // In the middle of an argument: the call does not take place, nor anything behind it.
    let globals = format!("{INC}\ncontrol K(inout bit<8> x, in bool hit) {{ apply {{ x = 9; }} }}");
    let locals =
        "action ex() { hdr.h.a = 5; exit; }\ntable t { actions = { ex; } default_action = ex; }\nK() k;";
    sends(
        &program(&globals, locals, "k.apply(hdr.h.a, t.apply().hit); hdr.h.b = 1;"),
        &[("01 00 00 00 0000", "05 00 00 00 0000")],
    );
    sends(
        &program(&globals, locals, "hdr.s[inc(hdr.h.b)].z = t.apply().hit ? 8w1 : 2; hdr.h.c = 1;"),
        &[("01 00 00 00 0000", "05 01 00 00 0000")],
    );
    // In a loop.
    let text = program(
        "",
        "",
        "for (bit<8> i in 8w1 .. hdr.h.b) { hdr.h.a = i; if (i == 3) { exit; } } hdr.h.c = 1;",
    );
    sends(&text, &[("00 05 00 00 0000", "03 05 00 00 0000"), ("00 02 00 00 0000", "02 02 01 00 0000")]);
}

#[test]
fn return_leaves_what_it_stands_in() {
    let locals = "action f(bit<8> n) { if (n == 1) { hdr.h.b = 1; return; } hdr.h.b = 2; }";
    sends(
        &program("", locals, "f(hdr.h.a); hdr.h.c = 1;"),
        &[("01 00 00 00 0000", "01 01 01 00 0000"), ("02 00 00 00 0000", "02 02 01 00 0000")],
    );
    let globals = "control K(inout bit<8> x) { apply { if (x == 1) { x = 9; return; } x = 8; } }\nbit<8> g(in bit<8> x) { for (bit<8> i in 8w0 .. 9) { if (i == x) { return i + 1; } } return 0; }";
    sends(
        &program(
            globals,
            "K() k; K() l;",
            "k.apply(hdr.h.a); l.apply(hdr.h.b); hdr.h.c = g(hdr.h.c); hdr.h.d = g(hdr.h.d);",
        ),
        &[("01 02 03 0a 0000", "09 08 04 00 0000")],
    );
}

#[test]
fn switches_fall_through_to_the_next_body() {
    let body = "switch (hdr.h.a) { 1: 2: { hdr.h.b = 1; } 3: { } 4: 5: default: { hdr.h.b = 2; } }";
    sends(
        &program("", "", body),
        &[
            ("01 00 00 00 0000", "01 01 00 00 0000"),
            ("02 00 00 00 0000", "02 01 00 00 0000"),
            ("03 00 00 00 0000", "03 00 00 00 0000"),
            ("04 00 00 00 0000", "04 02 00 00 0000"),
            ("09 00 00 00 0000", "09 02 00 00 0000"),
        ],
    );
    let body = "switch (hdr.h.a) { 1: { hdr.h.b = 1; } 2: }";
    sends(
        &program("", "", body),
        &[("02 00 00 00 0000", "02 00 00 00 0000"), ("07 00 00 00 0000", "07 00 00 00 0000")],
    );
    // What is looked at is evaluated once, in an action too.
    let locals = "action f() { switch (inc(hdr.h.a)) { 2: { hdr.h.a = 3; } 3: { hdr.h.a = 2; } default: { return; } } hdr.h.b = 1; }";
    sends(
        &program(INC, locals, "f();"),
        &[
            ("01 00 00 00 0000", "03 01 00 00 0000"),
            ("02 00 00 00 0000", "02 01 00 00 0000"),
            ("05 00 00 00 0000", "06 00 00 00 0000"),
        ],
    );
    let locals = "action p() { } action q() { } action r() { }\ntable t { key = { hdr.h.a: exact; } actions = { p; q; r; NoAction; } const default_action = r; const entries = { 1: p(); 2: q(); 3: NoAction(); } }";
    let body = "switch (t.apply().action_run) { p: q: { hdr.h.b = 1; } r: { hdr.h.b = 2; } default: { hdr.h.b = 3; } }";
    sends(
        &program("", locals, body),
        &[
            ("01 00 00 00 0000", "01 01 00 00 0000"),
            ("02 00 00 00 0000", "02 01 00 00 0000"),
            ("03 00 00 00 0000", "03 03 00 00 0000"),
            ("04 00 00 00 0000", "04 02 00 00 0000"),
        ],
    );
}

#[test]
fn keys_are_evaluated_in_their_order() {
    let locals = "action hit(bit<8> n) { hdr.h.d = n; }\n\
        table t { key = { hdr.h.a & 0x7: exact @name(\"k\"); hdr.h.a: exact; inc(hdr.h.a): exact @name(\"l\"); hdr.h.a: exact @name(\"m\"); }\n\
        actions = { hit; NoAction; } const entries = { (5, 0xd, 0xe, 0xe): hit(1); (6, 0xe, 0xe, 0xe): hit(2); } }";
    sends(&program(INC, locals, "t.apply();"), &[("0d 00 00 00 0000", "0e 00 00 01 0000")]);
    // Again, with what the first application left.
    sends(
        &program(INC, locals, "t.apply(); hdr.h.a = 0xd; t.apply(); hdr.h.c = hdr.h.a;"),
        &[("00 00 00 00 0000", "0e 00 0e 01 0000")],
    );
}

#[test]
fn entries_win_by_their_priority() {
    let table = |properties: &str, entries: &str| {
        let locals = format!(
            "action n(bit<8> x) {{ hdr.h.d = x; }}\ntable t {{ key = {{ hdr.h.a: ternary; }} actions = {{ n; NoAction; }}\n{properties}\n{entries} }}"
        );
        program("", &locals, "t.apply();")
    };
    let all = "0x10 &&& 0xf0: n(1); 0x11: n(2); _: n(3);";
    let sent = |n: &str| ("11 00 00 00 0000", format!("11 00 00 {n} 0000"));
    let check = |text: &str, n: &str| {
        let (packet, got) = sent(n);
        sends(text, &[(packet, &got)]);
    };
    check(&table("", &format!("const entries = {{ {all} }}")), "01");
    check(&table("", &format!("entries = {{ {all} }}")), "01");
    check(
        &table(
            "",
            "entries = { priority = 1: 0x10 &&& 0xf0: n(1); priority = 3: 0x11: n(2); priority = 2: _: n(3); }",
        ),
        "02",
    );
    check(
        &table(
            "largest_priority_wins = false;",
            "entries = { priority = 2: 0x10 &&& 0xf0: n(1); priority = 3: 0x11: n(2); priority = 1: _: n(3); }",
        ),
        "03",
    );
    check(
        &table(
            "priority_delta = 10;",
            "entries = { priority = 15: 0x10 &&& 0xf0: n(1); 0x11: n(2); priority = 30: _: n(3); }",
        ),
        "03",
    );
    check(
        &table(
            "priority_delta = 10; largest_priority_wins = false;",
            "entries = { priority = 15: 0x10 &&& 0xf0: n(1); 0x11: n(2); priority = 20: _: n(3); }",
        ),
        "01",
    );
    check(
        &table("", "const entries = { 0x10 &&& 0xf0: n(1) @priority(3); 0x11: n(2); _: n(3) @priority(1); }"),
        "03",
    );
    // A list as a key set, of one key and of two.
    let locals = "action n(bit<8> x) { hdr.h.d = x; }\ntable t { key = { hdr.h.a: exact; } actions = { n; NoAction; }\nconst entries = { {(8w1 << 4) + 1}: n(4); } }";
    sends(&program("", locals, "t.apply();"), &[("11 00 00 00 0000", "11 00 00 04 0000")]);
    let locals = "action n(bit<8> x) { hdr.h.d = x; }\ntable t { key = { hdr.h.a: exact; hdr.h.b: lpm; } actions = { n; NoAction; }\nconst entries = { {0x11, 2}: n(4); } }";
    sends(&program("", locals, "t.apply();"), &[("11 02 00 00 0000", "11 02 00 04 0000")]);
    // The longest prefix, in whatever order.
    let locals = "action n(bit<8> x) { hdr.h.d = x; }\ntable t { key = { hdr.h.a: lpm; } actions = { n; NoAction; }\nconst entries = { 0 &&& 0: n(1); 0x10 &&& 0xf0: n(2); 0x11: n(3); 0x18 &&& 0xf8: n(4); } }";
    sends(
        &program("", locals, "t.apply();"),
        &[
            ("11 00 00 00 0000", "11 00 00 03 0000"),
            ("19 00 00 00 0000", "19 00 00 04 0000"),
            ("12 00 00 00 0000", "12 00 00 02 0000"),
            ("20 00 00 00 0000", "20 00 00 01 0000"),
        ],
    );
}

#[test]
fn loops_run_over_what_there_was_at_first() {
    let body =
        "for (bit<8> x in (list<bit<8>>) { hdr.h.a, hdr.h.b, 3 }) { hdr.h.b = 9; hdr.h.c = hdr.h.c + x; }";
    sends(&program("", "", body), &[("01 02 00 00 0000", "01 09 06 00 0000")]);
    let body = "for (bit<8> i = 0, bit<8> n = hdr.h.a; i < n; i = i + 1) { if (i == 2) { continue; } if (i == 4) { break; } hdr.h.b = hdr.h.b + i; hdr.h.a = 0; }";
    sends(&program("", "", body), &[("09 00 00 00 0000", "00 04 00 00 0000")]);
    let body = "for (bit<8> i in hdr.h.a .. hdr.h.b) { x_t x; if (x.isValid()) { hdr.h.d = 1; } x.setValid(); hdr.h.b = 0; hdr.h.c = hdr.h.c + 1; }";
    sends(
        &program("", "", body),
        &[("fd ff 00 00 0000", "fd 00 03 00 0000"), ("05 04 00 00 0000", "05 04 00 00 0000")],
    );
    let body = "hdr.s[0] = { 1 }; hdr.s[2] = { 3 }; for (x_t x in hdr.s) { if (x.isValid()) { hdr.h.a = hdr.h.a + x.z; hdr.s[2].z = 9; } }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "04 00 00 00 0000 01 09")]);
}

#[test]
fn structs_and_headers_are_values() {
    let globals = "struct T { bit<8> x; bit<8> y; }\nT turn(in T p) { return { p.y, p.x }; }";
    sends(
        &program(
            globals,
            "",
            "T p = { hdr.h.a, hdr.h.b }; p = { p.y, p.x }; p = turn(p); p = turn(p); hdr.h.a = p.x; hdr.h.b = p.y;",
        ),
        &[("01 02 00 00 0000", "02 01 00 00 0000")],
    );
    sends(
        &program(
            globals,
            "",
            "hdr.h = { hdr.h.b, hdr.h.a, hdr.h.d, hdr.h.c, hdr.h.e }; T p = { 1, 2 }; T q = { x = 1, y = hdr.h.a }; if (p == q) { hdr.h.e = 7; }",
        ),
        &[("01 02 03 04 0000", "02 01 04 03 0007")],
    );
    // Two invalid headers are equal, whatever they hold.
    let body = "x_t x; x_t y; x.z = 1; y.z = 2; if (x == y) { hdr.h.a = 1; } x.setValid(); if (x == y) { hdr.h.b = 1; } y.setValid(); x.z = 3; y.z = 3; if (x == y) { hdr.h.c = 1; }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "01 00 01 00 0000")]);
    // A union holds one of its headers.
    let body = "hdr.u.x = { 5 }; hdr.u.y.setValid(); hdr.u.y.z = 0x607; if (hdr.u.x.isValid()) { hdr.h.a = 1; } if (hdr.u.isValid()) { hdr.h.b = 1; } u_t v = hdr.u; v.y.z = 1; if (v.y.isValid() && v.y.z == 1) { hdr.h.c = 1; } if (v == hdr.u) { hdr.h.d = 1; } v = hdr.u; if (v == hdr.u) { hdr.h.e = 1; }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "00 01 01 00 0001 0607")]);
    let body = "hdr.u.x = { 5 }; hdr.u.y.setInvalid(); if (hdr.u.isValid()) { hdr.h.a = 1; } hdr.u.x = hdr.s[0]; if (hdr.u.isValid()) { hdr.h.b = 1; } hdr.u.y = { 9 }; hdr.u = {#}; if (hdr.u.isValid()) { hdr.h.c = 1; }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "01 00 00 00 0000")]);
    // Stacks shift.
    let body = "hdr.s = (x_t[3]) { { 1 }, { 2 }, {#} }; hdr.s.push_front(1); if (hdr.s[0].isValid()) { hdr.h.a = 1; } hdr.s[0] = { 7 }; hdr.s.pop_front(2); hdr.h.b = hdr.s[0].z; if (hdr.s[1].isValid()) { hdr.h.c = 1; } hdr.h.d = (bit<8>) hdr.s.size;";
    sends(&program("", "", body), &[("00 00 00 00 0000", "00 02 00 03 0000 02")]);
}

#[test]
fn exit_in_a_control_and_in_bound_actions() {
    let globals = "control K(inout bit<8> x, out bit<8> y) { bit<8> n = 0; apply { n = n + 1; y = n; x = x + 5; if (x == 7) { exit; } x = x + 1; } }";
    let text =
        program(globals, "K() k;", "k.apply(hdr.h.a, hdr.h.b); k.apply(hdr.h.c, hdr.h.d); hdr.h.e = 1;");
    sends(
        &text,
        &[
            ("02 09 02 09 0000", "07 01 02 09 0000"),
            ("01 09 02 09 0000", "07 01 07 01 0000"),
            ("01 09 01 09 0000", "07 01 07 01 0001"),
        ],
    );
    // The list of a table binds a place: it is written however the action ends.
    let locals = "action a(inout bit<8> x, bit<8> y) { x = y; if (y == 9) { exit; } x = x + 1; }\n\
                  table t { key = { hdr.h.a: exact; } actions = { a(hdr.h.b); } default_action = a(hdr.h.b, 3); const entries = { 1: a(hdr.h.b, 9); } }";
    sends(
        &program("", locals, "t.apply(); hdr.h.c = 1;"),
        &[("01 00 00 00 0000", "01 09 00 00 0000"), ("02 00 00 00 0000", "02 04 01 00 0000")],
    );
    // What an expression has done before the table leaves is done.
    let locals = "action go() { } action ex() { exit; }\ntable t { key = { hdr.h.a: exact; } actions = { ex; go; } default_action = go; const entries = { 2: ex(); } }";
    sends(
        &program(INC, locals, "hdr.h.b = inc(hdr.h.a) + (t.apply().hit ? 8w1 : 2) + inc(hdr.h.c);"),
        &[("01 00 00 00 0000", "02 00 00 00 0000"), ("02 00 00 00 0000", "03 06 01 00 0000")],
    );
}

#[test]
fn parsers_in_parsers_and_varbits() {
    let globals = "parser Q(packet_in p, inout bit<8> n, out x_t x) { state start { p.extract(x); n = n + x.z; transition select(x.z) { 0: reject; 9: accept; default: more; } } state more { n = n + 1; transition accept; } }";
    let start =
        "p.extract(hdr.h); q.apply(p, hdr.h.a, hdr.s[0]); q.apply(p, hdr.h.a, hdr.s[1]); transition accept;";
    let text = with_parser(globals, start, "", "").replace("sm) { state start", "sm) { Q() q; state start");
    sends(
        &text,
        &[
            ("00 00 00 00 0000 09 02", "0c 00 00 00 0000 09 02"),
            ("00 00 00 00 0000 01 00", "02 00 00 00 0000 01 00"),
        ],
    );
    let text = with_parser("", "p.extract(hdr.h); p.extract(m.v, (bit<32>) hdr.h.a * 8); transition accept;", "", "v_t w = m.v; if (w.v == m.v.v) { hdr.h.b = 1; } if (w == m.v) { hdr.h.c = 1; } m.v.n = 1; if (w.v == m.v.v && w != m.v) { hdr.h.d = 1; }")
        .replace("header x_t", "header v_t { bit<8> n; varbit<32> v; }\nheader x_t")
        .replace("struct M { }", "struct M { v_t v; }");
    sends(
        &text,
        &[("02 00 00 00 0000 00 aa bb", "02 01 01 01 0000"), ("00 00 00 00 0000 00", "00 01 01 01 0000")],
    );
}

#[test]
fn what_grows_without_end_is_refused() {
    let doubling = |function: bool| {
        let mut globals = if function {
            "bit<8> f0(in bit<8> x) { return x + 1; }\n".to_owned()
        } else {
            "control f0(inout bit<8> x) { apply { x = x + 1; } }\n".to_owned()
        };
        for at in 0..40 {
            globals.push_str(&if function {
                format!("bit<8> f{}(in bit<8> x) {{ return f{at}(x) + f{at}(x); }}\n", at + 1)
            } else {
                format!(
                    "control f{}(inout bit<8> x) {{ apply {{ f{at}.apply(x); f{at}.apply(x); }} }}\n",
                    at + 1
                )
            });
        }
        program(&globals, "", if function { "hdr.h.a = f40(1);" } else { "f40.apply(hdr.h.a);" })
    };
    for text in [doubling(true), doubling(false)] {
        let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
        let source =
            parse(&mut map, &MemoryFiles::one("a.p4", &text), &Options::default(), "a.p4", &mut found);
        let typed = types::check(&source, &map, &mut found);
        assert_eq!(found.error_count(), 0);
        let why = lower(&source, &typed, &map, "a.p4").expect_err("it has no end");
        assert!(why.message.contains("more than"), "{}", why.message);
    }
}

#[test]
fn a_stack_is_looked_at() {
    let start = "p.extract(hdr.h); s_t t = p.lookahead<s_t>(); hdr.h.a = t.s[1].z; hdr.h.b = t.n; x_t[2] u = t.s; hdr.h.c = u[0].z; transition accept;";
    let text = with_parser("struct s_t { x_t[2] s; bit<8> n; }", start, "", "");
    sends(&text, &[("00 00 00 00 0000 01 02 03", "02 03 01 00 0000 01 02 03")]);
}

#[test]
fn parsers_select_and_loop() {
    let start = "p.extract(hdr.h); transition select(hdr.h.a, hdr.h.b) { (0 .. 3, _): one; (4 &&& 0xfc, 1): two; (_, 2): three; default: accept; } }\n\
        state one { p.extract(hdr.s.next); transition select(hdr.s.last.z) { 0: one; default: accept; } }\n\
        state two { bit<8> n = p.lookahead<bit<8>>(); hdr.h.c = n; p.advance(8); transition accept; }\n\
        state three { verify(hdr.h.c == 1, error.NoMatch); hdr.h.d = 1; transition accept;";
    let body = "if (sm.parser_error == error.NoMatch) { hdr.h.e = 1; } else if (sm.parser_error == error.StackOutOfBounds) { hdr.h.e = 2; } else if (sm.parser_error == error.PacketTooShort) { hdr.h.e = 3; }";
    sends(
        &with_parser("", start, "", body),
        &[
            ("02 00 00 00 0000 00 05 66", "02 00 00 00 0000 00 05 66"),
            ("03 00 00 00 0000 00 00 00 00", "03 00 00 00 0002 00 00 00 00"),
            ("01 00 00 00 0000", "01 00 00 00 0003"),
            ("06 01 00 00 0000 77", "06 01 77 00 0000"),
            ("09 02 01 00 0000", "09 02 01 01 0000"),
            ("09 02 02 00 0000", "09 02 02 00 0001"),
            ("09 03 02 00 0000", "09 03 02 00 0000"),
        ],
    );
}
