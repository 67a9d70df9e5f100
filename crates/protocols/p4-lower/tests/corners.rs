//! Corners of the language: what shares storage, what is evaluated when, what is valid, what runs past an end. What each program does
//! was worked out by hand from the specification.

mod packets;

use packets::{program, sends, with_parser};

const INC: &str = "bit<8> inc(inout bit<8> z) { z = z + 1; return z; }";

#[test]
fn what_is_assigned_is_what_it_was_before() {
    // Headers in a struct trade places; a field of one is read though the header is overwritten.
    let globals = "struct p_t { x_t p; x_t q; }\nstruct q_t { x_t p; bit<8> n; }";
    let body = "p_t v; v.p = { 1 }; v.q = { 2 }; v = { v.q, v.p }; hdr.h.a = v.p.z; hdr.h.b = v.q.z;\n\
        q_t w; w.p = { 5 }; w.n = 6; w = { { 7 }, w.p.z }; hdr.h.c = w.p.z; hdr.h.d = w.n;";
    sends(&program(globals, "", body), &[("00 00 00 00 0000", "02 01 07 05 0000")]);
    let body = "q_t w; w = { { 7 }, w.p.isValid() ? 8w1 : 2 }; hdr.h.a = w.n; w = { { 7 }, w.p == (x_t) { 7 } ? 8w1 : 2 }; hdr.h.b = w.n;\n\
        x_t i; w = { i, w.p.z }; hdr.h.c = w.n; if (!w.p.isValid()) { hdr.h.d = 1; }";
    sends(&program(globals, "", body), &[("00 00 00 00 0000", "02 01 07 01 0000")]);
    // Elements of a stack.
    let body = "x_t[2] s = { { 1 }, { 2 } }; s = { s[1], s[0] }; hdr.h.a = s[0].z; hdr.h.b = s[1].z;\n\
        x_t[2] t = { { 4 }, ... }; if (!t[1].isValid()) { hdr.h.c = t[0].z; }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "02 01 04 00 0000")]);
    // An element that the packet tells may be the one that is assigned.
    let text = program(
        "",
        "",
        "z_t[2] t; t[0] = { 1, 2 }; t[1] = { 3, 4 }; t[0] = { t[hdr.h.a].q, t[hdr.h.a].p }; hdr.h.b = t[0].p; hdr.h.c = t[0].q;",
    )
    .replace("header x_t", "header z_t { bit<8> p; bit<8> q; }\nheader x_t");
    sends(&text, &[("00 00 00 00 0000", "00 02 01 00 0000"), ("01 00 00 00 0000", "01 04 03 00 0000")]);
    // Numbers, in a struct and in a header, deep.
    let globals = "struct i_t { bit<8> x; bit<8> y; }\nstruct o_t { i_t i; i_t j; }";
    let body = "o_t o = { { 1, 2 }, { 3, 4 } }; o = { { o.j.y, o.i.x }, o.i }; hdr.h.a = o.i.x; hdr.h.b = o.i.y; hdr.h.c = o.j.x; hdr.h.d = o.j.y;";
    sends(&program(globals, "", body), &[("00 00 00 00 0000", "04 01 01 02 0000")]);
    let body = "hdr.h = { hdr.h.d, hdr.h.c, hdr.h.b, hdr.h.a, hdr.h.e[7:0] ++ hdr.h.a };";
    sends(&program("", "", body), &[("01 02 03 04 aabb", "04 03 02 01 bb01")]);
    // A list with numbers of no width in front of a call.
    let body = "tuple<tuple<bit<8>, bit<8>>, bit<8>> t = { { 1, hdr.h.a }, inc(hdr.h.a) }; hdr.h.b = t[0][0]; hdr.h.c = t[0][1]; hdr.h.d = t[1];";
    sends(&program(INC, "", body), &[("05 00 00 00 0000", "06 01 05 06 0000")]);
}

#[test]
fn arguments_that_share_something_are_copied() {
    // A stack and an element of it, a union and a member of it; known and by the packet.
    let globals = "control K(inout x_t x, inout x_t[3] s) { apply { x.z = x.z + 1; s[0].z = s[0].z + 0x10; s[1].z = x.z; } }\n\
        control L(inout x_t[3] s, inout x_t x) { apply { x.z = x.z + 1; s[0].z = s[0].z + 0x10; s[1].z = x.z; } }\n\
        control U(inout x_t x, inout u_t u) { apply { x.z = x.z + 1; u.y.setValid(); u.y.z = 0x300; } }\n\
        control W(inout u_t u, inout x_t x) { apply { x.z = x.z + 1; u.y.setValid(); u.y.z = 0x300; } }";
    let start = "p.extract(hdr.h); p.extract(hdr.s[0]); p.extract(hdr.s[1]); transition accept;";
    for element in ["hdr.s[0]", "hdr.s[hdr.h.a]"] {
        let text = with_parser(globals, start, "K() k;", &format!("k.apply({element}, hdr.s);"));
        sends(&text, &[("00 00 00 00 0000 01 02", "00 00 00 00 0000 11 02")]);
        let text = with_parser(globals, start, "L() l;", &format!("l.apply(hdr.s, {element});"));
        sends(&text, &[("00 00 00 00 0000 01 02", "00 00 00 00 0000 02 02")]);
    }
    // The union comes last: its other member is the valid one.
    let set = "hdr.u.x = { 5 };";
    sends(
        &program(globals, "U() u;", &format!("{set} u.apply(hdr.u.x, hdr.u);")),
        &[("00 00 00 00 0000", "00 00 00 00 0000 0300")],
    );
    sends(
        &program(globals, "W() w;", &format!("{set} w.apply(hdr.u, hdr.u.x);")),
        &[("00 00 00 00 0000", "00 00 00 00 0000 06")],
    );
    // A slice and its number; two slices that overlap.
    let globals = "control S(inout bit<4> x, inout bit<8> y) { apply { x = x + 1; y = y + 0x20; } }\n\
        control T(inout bit<6> x, inout bit<6> y) { apply { x = 0; y = 0x3f; } }";
    sends(
        &program(
            globals,
            "S() s; T() t;",
            "s.apply(hdr.h.a[3:0], hdr.h.a); t.apply(hdr.h.b[7:2], hdr.h.b[5:0]);",
        ),
        &[("05 00 00 00 0000", "25 3f 00 00 0000")],
    );
    // The same control in each round of a loop that is written out: each round has its own arguments.
    let globals = "control K(inout x_t x, in bit<8> n) {\naction up(bit<8> by) { x.z = x.z + by + n; }\n\
        table t { key = { x.z: exact; } actions = { up; NoAction; } const entries = { 1: up(0x10); 2: up(0x20); 3: up(0x30); } }\napply { t.apply(); } }";
    let start = "p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept;";
    let text = with_parser(globals, start, "K() k;", "for (bit<8> i in 8w0 .. 2) { k.apply(hdr.s[i], i); }");
    sends(&text, &[("00 00 00 00 0000 01 02 03", "00 00 00 00 0000 11 23 35")]);
    let text = with_parser(
        globals,
        start,
        "K() k;",
        "for (bit<8> n in (list<bit<8>>) { 1, 0, 2 }) { k.apply(hdr.s[n], n); }",
    );
    sends(&text, &[("00 00 00 00 0000 01 02 03", "00 00 00 00 0000 11 23 35")]);
}

#[test]
fn a_control_that_is_applied_again_has_its_arguments_again() {
    // Constants, variables of a block, results of calls; in a control that is itself applied twice; and in a loop that is not written out.
    let inner = "control L(inout bit<8> y, in bit<8> n) {\naction up(bit<8> by) { y = y + by + n; }\n\
        table t { key = { y: ternary; } actions = { up; NoAction; } const entries = { 0 &&& 0x80: up(0x10); } }\napply { t.apply(); } }\n";
    sends(
        &program(inner, "L() l;", "l.apply(hdr.h.a, 1); l.apply(hdr.h.b, 2);"),
        &[("00 00 00 00 0000", "11 12 00 00 0000")],
    );
    for (call, added) in [
        ("l.apply(y, 3);", 3_u8),
        ("l.apply(y, inc(x));", 1),
        ("l.apply(y, x + 4);", 4),
        ("{ bit<8> z = y; l.apply(z, z); y = z; }", 0),
    ] {
        let globals = format!(
            "{INC}\n{inner}control N(inout bit<8> x) {{ L() l; apply {{ bit<8> y = x; {call} x = y + 1; }} }}"
        );
        let got =
            |before: u8| before.wrapping_add(if added == 0 { before } else { 0 }).wrapping_add(0x11 + added);
        let extra = |before: u8| if added == 1 || added == 4 { before } else { 0 };
        let [a, b] = [0_u8, 5].map(|before| got(before) + extra(before));
        let text = program(
            &globals,
            "N() n; N() o;",
            "n.apply(hdr.h.a); n.apply(hdr.h.b); o.apply(hdr.h.c); o.apply(hdr.h.d);",
        );
        sends(&text, &[("00 05 00 05 0000", &format!("{a:02x} {b:02x} {a:02x} {b:02x} 0000"))]);
    }
    let text = program(
        inner,
        "L() l;",
        "for (bit<8> i = 0; i < hdr.h.c; i = i + 1) { l.apply(hdr.h.a, i); l.apply(hdr.s[i].z, hdr.h.a); }",
    )
    .replace("p.extract(hdr.h);", "p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next);");
    sends(&text, &[("00 00 02 00 0000 01 02", "21 00 02 00 0000 21 33")]);
}

#[test]
fn headers_and_unions_are_valid_when_they_should_be() {
    // A member that is assigned an invalid header takes nothing from the others; a valid one does.
    let body = "hdr.u.y = { 0x1234 }; x_t x; hdr.u.x = x; if (hdr.u.y.isValid()) { hdr.h.a = 1; } if (hdr.u.isValid()) { hdr.h.b = 1; }\n\
        x = { 7 }; hdr.u.x = x; if (hdr.u.y.isValid()) { hdr.h.c = 1; } hdr.h.d = hdr.u.x.z;";
    sends(&program("", "", body), &[("00 00 00 00 0000", "01 01 00 07 0000 07")]);
    let body = "hdr.u.y.setValid(); hdr.u.x.setInvalid(); if (hdr.u.y.isValid()) { hdr.h.a = 1; } hdr.u.y.setInvalid(); if (!hdr.u.isValid()) { hdr.h.b = 1; }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "01 01 00 00 0000")]);
    // Unions are copied whole, compared whole, handed in and out.
    let globals = "void f(inout u_t u, in u_t v) { if (u == v) { u.x = { 9 }; } else { u = v; } }";
    let body = "u_t v; v.y = { 0x0102 }; f(hdr.u, v); if (hdr.u == v) { hdr.h.a = 1; } f(hdr.u, v); if (hdr.u.x.isValid()) { hdr.h.b = hdr.u.x.z; } if (v.y.isValid()) { hdr.h.c = 1; }";
    sends(&program(globals, "", body), &[("00 00 00 00 0000", "01 09 01 00 0000 09")]);
    // Two invalid headers are equal, whatever is in them; a valid one equals none that is not.
    let body = "x_t x = { 1 }; x_t y = { 2 }; if (x != y) { hdr.h.a = 1; } x.setInvalid(); if (x != y) { hdr.h.b = 1; } y.setInvalid(); if (x == y) { hdr.h.c = 1; }\n\
        x_t[2] s; x_t[2] t; s[1] = { 4 }; if (s != t) { t = s; } if (s == t && t[1].isValid()) { hdr.h.d = t[1].z; }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "01 01 01 04 0000")]);
    // A literal is valid, `{#}` is not; `in` parameters are copies.
    let globals = "bit<8> v(in x_t x) { return x.isValid() ? x.z : 0xff; }\nx_t make(in bit<8> n) { if (n == 0) { return (x_t) {#}; } return { n }; }";
    let body = "hdr.h.a = v({ 3 }); hdr.h.b = v((x_t) {#}); hdr.h.c = v(make(0)); hdr.h.d = v(make(6)); hdr.s[0] = make(hdr.h.a);";
    sends(&program(globals, "", body), &[("00 00 00 00 0000", "03 ff ff 06 0000 03")]);
    // A variable in a loop and in a block is new each time.
    let body = "for (bit<8> i in 8w0 .. 2) { x_t x; if (x.isValid()) { hdr.h.a = hdr.h.a + 1; } x.setValid(); }\n\
        for (bit<8> i = 0; i < 3; i = i + 1) { x_t x; if (x.isValid()) { hdr.h.b = hdr.h.b + 1; } x.setValid(); }";
    sends(&program("", "", body), &[("00 00 00 00 0000", "00 00 00 00 0000")]);
}

#[test]
fn stacks_end_where_they_end() {
    let start = "p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept;";
    // Past the end nothing is written, and the rest stays.
    let text = with_parser("", start, "", "hdr.s[hdr.h.a].z = 0x77; hdr.s[hdr.h.b].setInvalid();");
    sends(
        &text,
        &[
            ("00 05 00 00 0000 01 02", "00 05 00 00 0000 77 02"),
            ("03 ff 00 00 0000 01 02", "03 ff 00 00 0000 01 02"),
            ("ff 01 00 00 0000 01 02", "ff 01 00 00 0000 01"),
        ],
    );
    // Shifts: what is new is invalid, what falls off is gone; further than the stack is long.
    let text = with_parser(
        "",
        start,
        "",
        "hdr.s.push_front(1); if (!hdr.s[0].isValid()) { hdr.h.a = hdr.s[1].z; hdr.h.b = hdr.s[2].z; }",
    );
    sends(&text, &[("00 00 00 00 0000 01 02", "01 02 00 00 0000 01 02")]);
    let text = with_parser("", start, "", "hdr.s.push_front(2); hdr.s[0] = { 9 };");
    sends(&text, &[("00 00 00 00 0000 01 02", "00 00 00 00 0000 09 01")]);
    let text = with_parser("", start, "", "hdr.s.pop_front(1);");
    sends(&text, &[("00 00 00 00 0000 01 02", "00 00 00 00 0000 02")]);
    let text = with_parser("", start, "", "hdr.s.pop_front(5); hdr.s[2] = { 9 };");
    sends(&text, &[("00 00 00 00 0000 01 02", "00 00 00 00 0000 09")]);
    // `next` and `last` follow the shifts, and copies.
    let start = "p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); hdr.h.a = hdr.s.last.z; hdr.h.b = (bit<8>) hdr.s.lastIndex;\n\
        hdr.s.pop_front(1); hdr.h.c = hdr.s.last.z; p.extract(hdr.s.next); x_t[3] t = hdr.s; hdr.h.d = t.last.z; hdr.h.e = (bit<16>) t.lastIndex; transition accept;";
    sends(&with_parser("", start, "", ""), &[("00 00 00 00 0000 01 02 03", "02 01 02 03 0001 02 03")]);
    // Past the end: an error, and what was extracted stays.
    let error = "if (sm.parser_error == error.StackOutOfBounds) { hdr.h.a = 1; }";
    let start = "p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); p.extract(hdr.s.next); hdr.h.b = 1; p.extract(hdr.s.next); hdr.h.c = 1; transition accept;";
    sends(
        &with_parser("", start, "", error),
        &[("00 00 00 00 0000 01 02 03 04", "01 01 00 00 0000 01 02 03 04")],
    );
    let start = "p.extract(hdr.h); hdr.h.b = hdr.s.last.z + 1; hdr.h.c = 1; transition accept;";
    sends(&with_parser("", start, "", error), &[("00 00 00 00 0000", "01 00 00 00 0000")]);
    // Only where it is evaluated.
    let start = "p.extract(hdr.h); if (hdr.h.d == 1 && hdr.s.last.z == 0) { hdr.h.c = 1; } hdr.h.b = hdr.h.d == 2 ? hdr.s.last.z : 8w7; transition accept;";
    sends(
        &with_parser("", start, "", error),
        &[
            ("00 00 00 00 0000", "00 07 00 00 0000"),
            ("00 00 00 01 0000", "01 00 00 01 0000"),
            ("00 00 00 02 0000", "01 00 00 02 0000"),
        ],
    );
}

#[test]
fn parsers_look_no_further_than_they_are_asked() {
    let globals = "struct l_t { bit<8> x; bit<8> y; }";
    let error = "if (sm.parser_error == error.PacketTooShort) { hdr.h.a = 1; }";
    // A struct is looked at only where the left side says so.
    let start = "p.extract(hdr.h); if (hdr.h.d == 1 && p.lookahead<l_t>().y == 5) { hdr.h.c = 1; } hdr.h.b = 1; transition accept;";
    sends(
        &with_parser(globals, start, "", error),
        &[
            ("00 00 00 00 0000", "00 01 00 00 0000"),
            ("00 00 00 01 0000 04", "01 00 00 01 0000 04"),
            ("00 00 00 01 0000 04 05", "00 01 01 01 0000 04 05"),
            ("00 00 00 01 0000 05 04", "00 01 00 01 0000 05 04"),
        ],
    );
    // What is looked at is what stands there at that time.
    let start = "p.extract(hdr.h); bit<8> x = p.lookahead<bit<8>>(); p.advance(8); l_t l = { x, p.lookahead<bit<8>>() }; hdr.h.b = l.x; hdr.h.c = l.y; x_t z = p.lookahead<x_t>(); hdr.h.d = z.z; transition accept;";
    sends(&with_parser(globals, start, "", error), &[("00 00 00 00 0000 07 08", "00 07 08 08 0000 08")]);
    // A verify that fails ends the parser there; its value is the error that it names.
    let start = "p.extract(hdr.h); verify(hdr.h.b != 3, error.ParserInvalidArgument); hdr.h.c = 1; transition select(hdr.h.b) { 4: reject; 5: more; default: accept; } }\n\
        state more { p.advance((bit<32>) hdr.h.d); hdr.h.c = 2; transition accept;";
    let errors = "if (sm.parser_error == error.ParserInvalidArgument) { hdr.h.a = 2; } if (sm.parser_error == error.PacketTooShort) { hdr.h.a = 1; }";
    sends(
        &with_parser("", start, "", errors),
        &[
            ("00 03 00 00 0000", "02 03 00 00 0000"),
            ("00 04 00 00 0000", "00 04 01 00 0000"),
            ("00 05 00 08 0000 99 aa", "00 05 02 08 0000 aa"),
            ("00 05 00 18 0000 99 aa", "01 05 01 18 0000 99 aa"),
        ],
    );
    // A sub-parser in a loop: its variables are new each time, its results are copied out.
    let globals = "parser Q(packet_in q, inout bit<8> sum, out bit<8> n) { bit<8> seen = 0; state start { seen = seen + 1; n = q.lookahead<bit<8>>(); q.advance(8); sum = sum + n + seen; transition accept; } }";
    let start = "p.extract(hdr.h); transition more; } state more { q.apply(p, hdr.h.a, hdr.h.b); transition select(hdr.h.b) { 0: accept; default: more; }";
    let text = with_parser(globals, start, "", "").replace("sm) { state start", "sm) { Q() q; state start");
    sends(&text, &[("00 00 00 00 0000 03 04 00 55", "0a 00 00 00 0000 55")]);
}

#[test]
fn varbits_are_equal_with_their_lengths() {
    let start = "p.extract(hdr.h); p.extract(m.v, (bit<32>) hdr.h.a * 8); p.extract(m.w, (bit<32>) hdr.h.b * 8); transition accept;";
    let body = "if (m.v.v == m.w.v) { hdr.h.c = 1; } if (m.v != m.w) { hdr.h.d = 1; } v_t x = m.v; if (x.v == m.v.v) { hdr.h.e = 1; } x.v = m.w.v; if (x.v == m.w.v && m.w == x) { hdr.h.e = hdr.h.e + 1; }";
    let text = with_parser("", start, "", body)
        .replace("header x_t", "header v_t { varbit<32> v; }\nheader x_t")
        .replace("struct M { }", "struct M { v_t v; v_t w; }");
    sends(
        &text,
        &[
            ("01 01 00 00 0000 00 00", "01 01 01 00 0002"),
            // The same number, another length.
            ("01 02 00 00 0000 00 00 00", "01 02 00 01 0002"),
            ("00 01 00 00 0000 00", "00 01 00 01 0002"),
            ("02 02 00 00 0000 aa bb aa bb", "02 02 01 00 0002"),
            ("02 02 00 00 0000 aa bb aa bc", "02 02 00 01 0002"),
        ],
    );
}

#[test]
fn narrow_wide_and_signed_numbers() {
    // One bit with a sign holds 0 and -1.
    let body = "int<1> x = (int<1>) hdr.h.a[0:0]; if (x < 0) { hdr.h.b = 1; } if (x == -1) { hdr.h.c = 1; } int<8> y = (int<8>) x; hdr.h.d = (bit<8>) y; x = -x; hdr.h.e = (bit<16>) (bit<1>) x;";
    sends(
        &program("", "", body),
        &[("01 00 00 00 0000", "01 01 01 ff 0001"), ("02 00 00 00 0000", "02 00 00 00 0000")],
    );
    // Saturation at both ends, signed and not, and of one bit.
    let body = "int<8> x = (int<8>) hdr.h.a; int<8> y = (int<8>) hdr.h.b; hdr.h.c = (bit<8>) (x |+| y); hdr.h.d = (bit<8>) (x |-| y); hdr.h.e = (hdr.h.a |+| hdr.h.b) ++ (hdr.h.a |-| hdr.h.b);";
    sends(
        &program("", "", body),
        &[
            ("7f 01 00 00 0000", "7f 01 7f 7e 807e"),
            ("80 ff 00 00 0000", "80 ff 80 81 ff00"),
            ("80 01 00 00 0000", "80 01 81 80 817f"),
            ("00 80 00 00 0000", "00 80 80 7f 8000"),
        ],
    );
    let body = "hdr.h.b[0:0] = hdr.h.a[0:0] |+| hdr.h.a[1:1]; hdr.h.c[0:0] = hdr.h.a[0:0] |-| hdr.h.a[1:1]; bit<8> n = hdr.h.d; n |+|= 0xf0; n |-|= 1; hdr.h.d = n;";
    sends(
        &program("", "", body),
        &[
            ("03 00 00 20 0000", "03 01 00 fe 0000"),
            ("02 00 00 05 0000", "02 01 00 f4 0000"),
            ("01 00 00 05 0000", "01 01 01 f4 0000"),
        ],
    );
    // The most negative number, its negation and its comparison; what is signed compares as such.
    let body = "int<8> x = (int<8>) hdr.h.a; hdr.h.b = (bit<8>) -x; if (-x < 0) { hdr.h.c = 1; } if ((int<8>) hdr.h.a < (int<8>) hdr.h.d) { hdr.h.e = 1; } if (hdr.h.a < hdr.h.d) { hdr.h.e = hdr.h.e + 2; }";
    sends(
        &program("", "", body),
        &[
            ("80 00 00 01 0000", "80 80 01 01 0001"),
            ("01 00 00 80 0000", "01 ff 01 80 0002"),
            ("7f 00 00 7f 0000", "7f 81 01 7f 0000"),
        ],
    );
    // Shifts by as much as the number is wide, and by more; from the left side, too.
    let body = "hdr.h.b = hdr.h.a << 8; hdr.h.c = hdr.h.a >> 8; int<8> x = (int<8>) hdr.h.a; hdr.h.d = (bit<8>) (x >> 8); hdr.h.e = (16w1 << hdr.h.a) | (16w0x8000 >> hdr.h.a);";
    sends(
        &program("", "", body),
        &[
            ("81 55 55 55 5555", "81 00 00 ff 0000"),
            ("04 55 55 55 5555", "04 00 00 00 0810"),
            ("10 55 55 55 5555", "10 00 00 00 0000"),
        ],
    );
    let body = "bit<300> w = 1; w = w << (hdr.h.a ++ hdr.h.b); if (w == 0) { hdr.h.c = 1; } w = (w << 299) >> 299; hdr.h.d = (bit<8>) w; int<300> s = -1; s = s >> (hdr.h.a ++ hdr.h.b); if (s == -1) { hdr.h.e = 1; }";
    sends(
        &program("", "", body),
        &[
            ("00 00 00 00 0000", "00 00 00 01 0001"),
            ("01 2c 00 00 0000", "01 2c 01 00 0001"),
            ("ff ff 00 00 0000", "ff ff 01 00 0001"),
        ],
    );
    // Nothing is as wide as the product: it wraps; comparisons see what wrapped.
    let body = "if (hdr.h.a + 1 > hdr.h.a) { hdr.h.b = 1; } if (hdr.h.a - 1 > hdr.h.a) { hdr.h.c = 1; } hdr.h.d = (hdr.h.a * hdr.h.a) >> 4; hdr.h.e = (bit<16>) (hdr.h.a * 2);";
    sends(
        &program("", "", body),
        &[
            ("ff 00 00 00 0000", "ff 00 00 00 00fe"),
            ("00 00 00 00 0000", "00 01 01 00 0000"),
            ("12 00 00 00 0000", "12 01 00 04 0024"),
        ],
    );
    // Numbers with names and with a representation, and truth values as bits.
    let globals = "enum bit<8> R { one = 1, two = 2 }\ntype bit<8> N_t;\nenum F { x, y, z }";
    let body = "R v = (R) hdr.h.a; if (v == R.two) { hdr.h.b = (bit<8>) v; } N_t n = (N_t) hdr.h.a; hdr.h.c = (bit<8>) n; F f = F.y; switch (f) { F.x: { hdr.h.d = 1; } F.y: { hdr.h.d = 2; } default: { hdr.h.d = 3; } } bool t = (bool) hdr.h.a[1:1]; hdr.h.e = (bit<16>) (bit<1>) (!t);";
    sends(
        &program(globals, "", body),
        &[("02 00 00 00 0000", "02 02 02 02 0000"), ("01 00 00 00 0000", "01 00 01 02 0001")],
    );
}

#[test]
fn arguments_have_defaults_and_names() {
    let globals = "bit<8> f(in bit<8> x = 7, in bit<8> y = 1) { return x - y; }\n\
        control K(inout bit<8> x, in bit<8> y = 4)(bit<8> z) { apply { x = x + y + z; } }";
    let body = "hdr.h.a = f(); hdr.h.b = f(9); hdr.h.c = f(y = 3); hdr.h.d = f(y = inc(hdr.h.e[7:0]), x = inc(hdr.h.e[7:0]));";
    let text = program(&format!("{INC}\n{globals}"), "", body);
    sends(&text, &[("00 00 00 00 0000", "06 08 04 01 0002")]);
    sends(
        &program(
            globals,
            "K(0x10) k; K(z = 0x20) l;",
            "k.apply(hdr.h.a); l.apply(hdr.h.b, 1); k.apply(y = 2, x = hdr.h.c);",
        ),
        &[("01 01 01 00 0000", "15 22 13 00 0000")],
    );
    // Actions: what the list binds, what an entry says, what a default says.
    let locals = "action s(inout bit<8> x, bit<8> n, bit<8> m) { x = x + n + m; }\n\
        table t { key = { hdr.h.a: exact; } actions = { s(hdr.h.b); NoAction; } const default_action = s(hdr.h.b, 1, 3);\n\
        const entries = { 1: s(hdr.h.b, 0x10, 0x20); 2: s(hdr.h.b, 5, 6); } }";
    sends(
        &program("", locals, "t.apply();"),
        &[
            ("01 01 00 00 0000", "01 31 00 00 0000"),
            ("02 01 00 00 0000", "02 0c 00 00 0000"),
            ("03 01 00 00 0000", "03 05 00 00 0000"),
        ],
    );
}

#[test]
fn returns_and_exits_leave_what_they_should() {
    // `return` in a loop, in a function, in an action, in a control in a control.
    let globals = "bit<8> first(in bit<8> n) { for (bit<8> i = 0; i < 10; i = i + 1) { if (i * i >= n) { return i; } } return 0xff; }\n\
        control K(inout bit<8> x) { apply { if (x == 1) { return; } for (bit<8> i in 8w0 .. x) { if (i == 3) { x = 0x33; return; } } x = x + 0x10; } }";
    sends(
        &program(globals, "K() k;", "hdr.h.b = first(hdr.h.a); k.apply(hdr.h.c); hdr.h.d = 1;"),
        &[
            ("05 00 01 00 0000", "05 03 01 01 0000"),
            ("ff 00 02 00 0000", "ff ff 12 01 0000"),
            ("51 00 05 00 0000", "51 09 33 01 0000"),
        ],
    );
    let locals = "action a(inout bit<8> x) { x = x + 1; if (hdr.h.b == 1) { return; } x = x + 1; if (hdr.h.b == 2) { exit; } x = x + 1; }\n\
        table t { key = { hdr.h.c: exact; } actions = { a(hdr.h.a); } const default_action = a(hdr.h.a); }";
    sends(
        &program("", locals, "t.apply(); hdr.h.d = 1;"),
        &[
            ("00 01 00 00 0000", "01 01 00 01 0000"),
            ("00 02 00 00 0000", "02 02 00 00 0000"),
            ("00 03 00 00 0000", "03 03 00 01 0000"),
        ],
    );
    // `exit` in the innermost of three controls, in a loop that is written out and in one that is not.
    for range in ["8w0 .. 3", "8w0 .. hdr_n"] {
        let globals = format!(
            "control A(inout bit<8> x, in bit<8> hdr_n) {{ apply {{ for (bit<8> i in {range}) {{ x = x + 1; if (i == 2) {{ exit; }} }} x = 0x55; }} }}\n\
             control B(inout bit<8> y, in bit<8> n) {{ A() a; apply {{ y = y + 0x10; if (n == 3) {{ a.apply(y, n); }} y = y + 0x20; }} }}"
        );
        sends(
            &program(
                &globals,
                "B() b;",
                "b.apply(hdr.h.a, hdr.h.c); b.apply(hdr.h.b, hdr.h.c); hdr.h.d = 1;",
            ),
            &[("00 00 03 00 0000", "13 00 03 00 0000"), ("00 00 02 00 0000", "30 30 02 01 0000")],
        );
    }
}

#[test]
fn loops_count_as_they_are_told() {
    // To the last number that there is, and not past it; none at all; backwards is empty.
    let body = "for (bit<8> i in hdr.h.a .. hdr.h.b) { hdr.h.e = hdr.h.e + 1; if (hdr.h.c == i) { continue; } hdr.h.d = i; }";
    sends(
        &program("", "", body),
        &[
            ("fe ff 00 00 0000", "fe ff 00 ff 0002"),
            ("00 ff ff 00 0000", "00 ff ff fe 0100"),
            ("05 04 00 00 0000", "05 04 00 00 0000"),
            ("05 05 05 00 0000", "05 05 05 00 0001"),
        ],
    );
    // The ends are computed once. An inner loop's `break` is its own.
    let body = "for (bit<8> i in 8w0 .. hdr.h.a) { hdr.h.a = 0; for (bit<8> j = 0; j < 9; j = j + 1) { if (j == i) { break; } hdr.h.b = hdr.h.b + 1; } hdr.h.c = hdr.h.c + 1; }";
    sends(&program("", "", body), &[("03 00 00 00 0000", "00 06 04 00 0000")]);
    // A signed range, known and not.
    let body = "int<8> n = (int<8>) hdr.h.a; for (int<8> i in -1 .. n) { hdr.h.b = hdr.h.b + 1; } for (int<8> i in -2 .. 1) { hdr.h.c = hdr.h.c + (bit<8>) i; }";
    sends(
        &program("", "", body),
        &[("01 00 00 00 0000", "01 03 fe 00 0000"), ("fe 00 00 00 0000", "fe 00 fe 00 0000")],
    );
    // What a round writes to the variable is gone in the next one: a range known, one that is not, a list.
    for (body, after) in [
        ("for (bit<8> i in 1 .. 3) { hdr.h.b = hdr.h.b + i; i = i + 9; hdr.h.c = i; }", "03 06 0c 00 0000"),
        ("for (bit<8> i in 8w1 .. hdr.h.a) { i = i * 2; hdr.h.b = hdr.h.b + i; }", "03 0c 00 00 0000"),
        (
            "for (bit<8> i in (list<bit<8>>) { 1, hdr.h.a }) { if (i == 1) { i = 7; } hdr.h.b = hdr.h.b + i; }",
            "03 0a 00 00 0000",
        ),
    ] {
        sends(&program("", "", body), &[("03 00 00 00 0000", after)]);
    }
    // The list is what it was before the first round.
    let body =
        "for (bit<8> n in (list<bit<8>>) { hdr.h.a, hdr.h.b, 3 }) { hdr.h.b = 9; hdr.h.c = hdr.h.c + n; }";
    sends(&program("", "", body), &[("01 02 00 00 0000", "01 09 06 00 0000")]);
}
