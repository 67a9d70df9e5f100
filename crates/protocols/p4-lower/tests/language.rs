//! What only the packet tells: bits of a number, cases of a selection, elements of arrays, tables in loops; and registers of
//! structs. Each program runs on both engines; what it does was worked out by hand.

mod packets;

use packets::{program, sends, with_parser};

const INC: &str = "bit<8> inc(inout bit<8> z) { z = z + 1; return z; }";

#[test]
fn bits_that_the_packet_tells_are_places() {
    let body = "hdr.h.e[hdr.h.c +: 8] = hdr.h.a;";
    sends(
        &program("", "", body),
        &[
            ("ff 00 03 00 1234", "ff 00 03 00 17fc"),
            ("00 00 03 00 1234", "00 00 03 00 1004"),
            // Bits past the end are none of it.
            ("ff 00 0c 00 1234", "ff 00 0c 00 f234"),
            ("ff 00 10 00 1234", "ff 00 10 00 1234"),
            ("ff 00 ff 00 1234", "ff 00 ff 00 1234"),
        ],
    );
    // The place is chosen once: before the value is computed, and before the call.
    let body = "hdr.h.a[hdr.h.c +: 4] = (bit<4>) inc(hdr.h.c);";
    sends(&program(INC, "", body), &[("00 00 00 00 0000", "01 00 01 00 0000")]);
    let globals = "void put(inout bit<4> x, inout bit<8> i) { i = i + 4; x = 0xf; }\n\
        void swap(inout bit<4> x, inout bit<4> y) { bit<4> t = x; x = y; y = t; }";
    let body = "put(hdr.h.a[hdr.h.c +: 4], hdr.h.c);";
    sends(&program(globals, "", body), &[("00 00 00 00 0000", "0f 00 04 00 0000")]);
    let body = "swap(hdr.h.a[hdr.h.c +: 4], hdr.h.a[hdr.h.d +: 4]);";
    sends(&program(globals, "", body), &[("5a 00 04 00 0000", "a5 00 04 00 0000")]);
    // Bits of bits, of signed numbers, and what is added to them.
    let body = "hdr.h.e[hdr.h.c +: 8][3:0] = 0xf; hdr.h.a[1:0] |= 2; hdr.h.a[hdr.h.d +: 2] += 3;";
    sends(&program("", "", body), &[("08 00 04 02 0000", "06 00 04 02 00f0")]);
    let body = "int<8> n = -1; n[hdr.h.c +: 1] = 0; hdr.h.d = (bit<8>) n; if (n > 0) { hdr.h.b = 1; }";
    sends(
        &program("", "", body),
        &[("00 00 07 00 0000", "00 01 07 7f 0000"), ("00 00 00 00 0000", "00 00 00 fe 0000")],
    );
    // In a parser, and an element of a stack.
    let start = "p.extract(hdr.h); p.extract(hdr.s.next); hdr.h.b[hdr.h.a +: 4] = 0xf; transition accept;";
    let text = with_parser("", start, "", "hdr.s[hdr.h.c].z[hdr.h.d +: 2] = 3;");
    sends(&text, &[("02 00 00 05 0000 00", "02 3c 00 05 0000 60")]);
}

#[test]
fn cases_of_a_selection_may_hang_on_the_packet() {
    let states = "} state one { hdr.h.e = 1; transition accept; } state two { hdr.h.e = 2; transition accept; }\n\
        state three { hdr.h.e = 3; transition accept; } state four { hdr.h.e = 4; transition accept;";
    let select =
        |on: &str, cases: &str| format!("p.extract(hdr.h); transition select({on}) {{ {cases} }} {states}");
    let start =
        select("hdr.h.a", "hdr.h.b: one; hdr.h.c + hdr.h.d: two; 7: three; 8 .. 9: four; default: accept;");
    sends(
        &with_parser("", &start, "", ""),
        &[
            ("05 05 00 00 0000", "05 05 00 00 0001"),
            ("12 01 13 ff 0000", "12 01 13 ff 0002"),
            ("07 01 ff ff 0000", "07 01 ff ff 0003"),
            ("08 06 00 09 0000", "08 06 00 09 0004"),
            ("20 06 01 09 0000", "20 06 01 09 0000"),
        ],
    );
    // None of them: an error. Behind known ones, and in front of them.
    let none = "if (sm.parser_error == error.NoMatch) { hdr.h.e = 9; }";
    let start = select("hdr.h.a", "4: two; hdr.h.b: one; 6: three;");
    sends(
        &with_parser("", &start, "", none),
        &[
            ("04 04 00 00 0000", "04 04 00 00 0002"),
            ("05 05 00 00 0000", "05 05 00 00 0001"),
            ("06 05 00 00 0000", "06 05 00 00 0003"),
            ("07 05 00 00 0000", "07 05 00 00 0009"),
        ],
    );
    let start = select("hdr.h.a", "hdr.h.b: one; hdr.h.c: two;");
    sends(
        &with_parser("", &start, "", none),
        &[("07 05 07 00 0000", "07 05 07 00 0002"), ("07 05 06 00 0000", "07 05 06 00 0009")],
    );
    // Of several parts.
    let start = select(
        "hdr.h.a, hdr.h.b",
        "(hdr.h.c, _): one; (1 &&& 3, hdr.h.d): two; (_, 3): three; default: four;",
    );
    sends(
        &with_parser("", &start, "", ""),
        &[
            ("05 00 05 00 0000", "05 00 05 00 0001"),
            ("01 02 05 02 0000", "01 02 05 02 0002"),
            ("01 03 05 02 0000", "01 03 05 02 0003"),
            ("01 04 05 02 0000", "01 04 05 02 0004"),
        ],
    );
    // The subject is what it was before the cases were asked, from top to bottom.
    let old = "bit<8> old(inout bit<8> z) { z = z + 1; return z - 1; }";
    let start = select("hdr.h.a", "old(hdr.h.a): one; default: two;");
    sends(&with_parser(old, &start, "", ""), &[("05 00 00 00 0000", "06 00 00 00 0001")]);
    let start = select("hdr.h.a", "inc(hdr.h.a): one; old(hdr.h.a): two; default: three;");
    sends(
        &with_parser(&format!("{INC}\n{old}"), &start, "", ""),
        &[("05 00 00 00 0000", "07 00 00 00 0003")],
    );
    // Signed numbers in a range.
    let start = select("(int<8>) hdr.h.a", "-3 .. 4: one; default: two;");
    sends(
        &with_parser("", &start, "", ""),
        &[
            ("fd 00 00 00 0000", "fd 00 00 00 0001"),
            ("04 00 00 00 0000", "04 00 00 00 0001"),
            ("05 00 00 00 0000", "05 00 00 00 0002"),
            ("fc 00 00 00 0000", "fc 00 00 00 0002"),
        ],
    );
}

#[test]
fn registers_hold_structs() {
    let globals = "struct in_t { bool z; bit<40> w; }\nstruct s_t { bit<4> x; int<8> y; in_t i; }";
    let locals = "register<s_t>(4) r;";
    let body = "s_t v; r.read(v, 1); hdr.h.b = (bit<8>) v.y; if (v.i.z) { hdr.h.c = 1; } hdr.h.d = v.i.w[39:32];\n\
        hdr.h.e = (bit<16>) v.x; r.write(1, { hdr.h.a[3:0], -2, { true, 40w0xab00000000 } });";
    sends(
        &program(globals, locals, body),
        &[("05 77 00 77 7777", "05 00 00 00 0000"), ("06 77 00 77 7777", "06 fe 01 ab 0005")],
    );
    // What is written is a variable, what is read a field of one.
    let body = "s_t v = { 1, 2, { false, 3 } }; v.y = v.y - 3; r.write((bit<32>) hdr.h.a, v); s_t[2] w; r.read(w[1], (bit<32>) hdr.h.a); if (w[1] == v) { hdr.h.b = 1; }";
    sends(&program(globals, locals, body), &[("03 00 00 00 0000", "03 01 00 00 0000")]);
}

#[test]
fn arrays_hold_anything() {
    let body = "bit<8>[4] u; u[0] = 1; u[1] = 2; u[2] = 3; u[3] = 4; u[hdr.h.a] = hdr.h.b; hdr.h.c = u[hdr.h.d]; hdr.h.e = u[0] ++ u[3];";
    sends(
        &program("", "", body),
        &[
            ("02 aa 00 02 0000", "02 aa aa 02 0104"),
            ("03 aa 00 01 0000", "03 aa 02 01 01aa"),
            // Past the end nothing is written.
            ("09 aa 00 03 0000", "09 aa 04 03 0104"),
        ],
    );
    // The element is chosen before it is written.
    let body = "bit<8>[4] u; u[0] = 1; u[1] = 0; u[u[0]] = 3; u[u[1]] = 9; hdr.h.a = u[0]; hdr.h.b = u[1]; hdr.h.c = u[3];";
    sends(&program("", "", body), &[("00 00 00 00 0000", "01 03 09 00 0000")]);
    // Structs, arrays in them, arrays of arrays; bits of elements; elements as arguments.
    let globals = "struct p_t { bit<8> x; bit<4>[2] y; bool b; }\nvoid up(inout bit<8> x, inout p_t p) { x = x + 1; p.x = p.x + 2; p.b = true; }";
    let body = "p_t[3] t; t[0].x = 0; t[1].x = 0; t[2].x = 0; t[1].b = false; t[hdr.h.a].x = 7; t[hdr.h.a].y[hdr.h.b] = 5;\n\
        hdr.h.c = t[1].x; hdr.h.d = 4w0 ++ t[1].y[1]; up(t[hdr.h.b].x, t[hdr.h.a]); hdr.h.e = t[0].x ++ t[1].x;\n\
        if (t[hdr.h.a].b) { hdr.h.b = 0xff; }";
    sends(&program(globals, "", body), &[("01 01 00 00 0000", "01 ff 07 05 0009")]);
    let body = "bit<8>[2][2] n; n[0][0] = 1; n[0][1] = 2; n[1][0] = 3; n[1][1] = 4; n[hdr.h.a][hdr.h.b][3:0] = 0xe; hdr.h.c = n[hdr.h.b][hdr.h.a]; bit<8>[2] row = n[hdr.h.a]; hdr.h.d = row[hdr.h.b]; hdr.h.e = (bit<16>) n[1][1];";
    sends(
        &program("", "", body),
        &[("00 01 00 00 0000", "00 01 03 0e 0004"), ("01 00 00 00 0000", "01 00 02 0e 0004")],
    );
    // In a header: on the wire its elements follow one another.
    let text = with_parser(
        "",
        "p.extract(hdr.h); p.extract(m.v); m.v.n[hdr.h.a] = 0x77; transition accept;",
        "",
        "hdr.h.b = m.v.n[0]; hdr.h.c = m.v.n[1]; hdr.h.d = m.v.n[hdr.h.a + 1]; v_t w = m.v; if (w == m.v) { hdr.h.e = (bit<16>) w.n[2]; }",
    )
    .replace("header x_t", "header v_t { bit<8>[3] n; }\nheader x_t")
    .replace("struct M { }", "struct M { v_t v; }");
    sends(
        &text,
        &[
            ("00 00 00 00 0000 01 02 03", "00 77 02 02 0003"),
            ("01 00 00 00 0000 01 02 03", "01 01 77 03 0003"),
        ],
    );
}

#[test]
fn tables_are_applied_in_loops() {
    let locals = "action add(bit<8> n) { hdr.h.b = hdr.h.b + n; }\naction stop() { hdr.h.d = 1; }\naction out_() { hdr.h.d = 2; exit; }\n\
        table t { key = { hdr.h.c: exact; } actions = { add; stop; out_; } default_action = stop;\n\
        const entries = { 1: add(1); 2: add(0x10); 3: add(3); 7: out_(); } }";
    let whole = |inner: &str| {
        program(
            "",
            locals,
            &format!(
                "for (bit<8> i = 0; i < hdr.h.a; i = i + 1) {{ {inner} hdr.h.c = hdr.h.c + 1; }} hdr.h.e = 7;"
            ),
        )
    };
    let packets = [
        ("02 00 01 00 0000", "02 11 03 00 0007"),
        ("09 00 02 00 0000", "09 13 04 01 0007"),
        ("00 00 01 00 0000", "00 00 01 00 0007"),
        // `exit` in the action leaves the loop and the control.
        ("03 00 07 00 0000", "03 00 07 02 0000"),
    ];
    sends(&whole("if (!t.apply().hit) { break; }"), &packets);
    sends(&whole("if (t.apply().miss) { break; }"), &packets);
    sends(&whole("switch (t.apply().action_run) { stop: { break; } }"), &packets);
    sends(&whole("bool hit = true && t.apply().hit; if (!hit) { break; }"), &packets);
    sends(
        &whole("t.apply();"),
        &[("02 00 01 00 0000", "02 11 03 00 0007"), ("03 00 03 00 0000", "03 03 06 01 0007")],
    );
    sends(
        &whole(
            "switch (t.apply().action_run) { add: { hdr.h.d = hdr.h.d + 0x10; } stop: { return; } default: {} }",
        ),
        &[("02 00 01 00 0000", "02 11 03 20 0007"), ("09 00 03 00 0000", "09 03 04 01 0000")],
    );
    // In a control that is applied twice, with a key that is computed, and one loop in another.
    let globals = "control K(inout bit<8> x, in bit<8> n) {\naction up(bit<8> by) { x = x + by; }\naction ex() { x = 0x7f; exit; }\n\
        table t { key = { x & 3: exact @name(\"k\"); } actions = { up; ex; NoAction; } const entries = { 0: up(1); 1: up(2); 2: ex(); } }\n\
        apply { for (bit<8> i in 8w1 .. n) { for (bit<8> j = 0; j < n; j = j + 1) { if (t.apply().hit) { x = x + 8; } } } } }";
    let text =
        program(globals, "K() k;", "k.apply(hdr.h.a, hdr.h.c); k.apply(hdr.h.b, hdr.h.c); hdr.h.e = 1;");
    sends(
        &text,
        &[
            // One round: 0 -> 1 + 8, 3 is missed.
            ("00 03 01 00 0000", "09 03 01 00 0001"),
            // Four: 0 -> 9 -> 0x13, then it is missed twice.
            ("00 03 02 00 0000", "13 03 02 00 0001"),
            ("02 03 01 00 0000", "7f 03 01 00 0000"),
            ("03 02 01 00 0000", "03 7f 01 00 0000"),
        ],
    );
    // What counts and what is in a register goes on from round to round.
    let locals = "register<bit<8>>(1) r;\naction more() { bit<8> n; r.read(n, 0); n = n + 1; r.write(0, n); hdr.h.b = n; }\n\
        table t { key = { hdr.h.c: ternary; } actions = { more; NoAction; } const entries = { 0 &&& 1: more(); } }";
    sends(
        &program(
            "",
            locals,
            "for (bit<8> i = 0; i < hdr.h.a; i = i + 1) { t.apply(); hdr.h.c = hdr.h.c + 1; }",
        ),
        &[("05 00 00 00 0000", "05 03 05 00 0000"), ("02 00 01 00 0000", "02 04 03 00 0000")],
    );
}
