use super::format;

fn check(source: &str, wanted: &str) {
    let out = format(source).unwrap();
    assert_eq!(out, wanted, "\n{out}");
    assert_eq!(format(&out).unwrap(), out, "a second time");
}

#[test]
fn blanks_and_indentation() {
    check(
        "control c( inout  H h ){\n  action a( bit < 8 > x ){ h.f=x+1 ;h.g = - x; }\n table t{key={h.f:exact;h.g : lpm;}actions={a;NoAction;}\n\n\n\
         size=1024;const default_action = NoAction( );}\napply{if(h.isValid()){t.apply();}else{return;}}}",
        "control c(inout H h) {
    action a(bit<8> x) {
        h.f = x + 1;
        h.g = -x;
    }
    table t {
        key = {
            h.f: exact;
            h.g: lpm;
        }
        actions = {
            a;
            NoAction;
        }

        size = 1024;
        const default_action = NoAction();
    }
    apply {
        if (h.isValid()) {
            t.apply();
        } else {
            return;
        }
    }
}
",
    );
}

#[test]
fn short_blocks_stay_on_their_line() {
    check(
        "parser p(packet_in b,out H h){\n state start{ transition accept; }\n}\ncontrol c(){apply{ }}\nenum E{A,B}\nenum bit<8> F{A=1,\nB=2}\n",
        "parser p(packet_in b, out H h) {
    state start { transition accept; }
}
control c() {
    apply {}
}
enum E { A, B }
enum bit<8> F { A = 1,
                B = 2 }
",
    );
}

#[test]
fn comments_and_directives_are_kept() {
    check(
        "/* head\n   * more\n */\n#include   <core.p4>\nheader h{ // what\nbit<8> a;/* a */ // b\n\n// last\n}\n#ifdef X\n  # define Y(a) \\\n  a\nconst bit<8> x=1;\n#else\nconst bit<8> x\n// between\n=2;\n#endif\n",
        "/* head
 * more
 */
#include   <core.p4>
header h { // what
    bit<8> a; /* a */ // b

    // last
}
#ifdef X
# define Y(a) \\
  a
const bit<8> x = 1;
#else
const bit<8> x
    // between
    = 2;
#endif
",
    );
}

#[test]
fn operators_and_types() {
    check(
        "const bit<32> x=a<b&&c>>2==(bit<32>)-1?{1,2}:f<bit<8>,list<list<T>>>(a,b=_)[7:0]++b[0+:8];\nconst bool y=a>b||!c&&~d>= 8w0x1F;\n",
        "const bit<32> x = a < b && c >> 2 == (bit<32>) - 1 ? {1, 2} : f<bit<8>, list<list<T>>>(a, b = _)[7:0] ++ b[0 +: 8];
const bool y = a > b || !c && ~d >= 8w0x1F;
",
    );
}

#[test]
fn select_switch_and_annotations() {
    check(
        "@name ( \"x\" ) @hidden\nparser p(){state s{transition select(h.a,h.b){(1,_):accept;\n8w0&&&8w1:reject;\n1..3:s;default:s;}}}\ncontrol c(){apply{switch(t.apply().action_run){a:\nb:{x=1;}\ndefault:{}}\nif(x)y=1;\nelse\nif (z)\ny=2;\n}}",
        "@name( \"x\" ) @hidden
parser p() {
    state s {
        transition select(h.a, h.b) {
            (1, _): accept;
            8w0 &&& 8w1: reject;
            1 .. 3: s;
            default: s;
        }
    }
}
control c() {
    apply {
        switch (t.apply().action_run) {
            a:
            b: { x = 1; }
            default: {}
        }
        if (x) y = 1;
        else
            if (z)
            y = 2;
    }
}
",
    );
}

#[test]
fn broken_lists_are_indented() {
    check(
        "V1Switch(\nP(),\nV(),\n   I(\n a,b)\n) main;\ncontrol c(in bit<8> a,\nin bit<8> b)(bit<8> w)\n{\napply{f(a,\nb);}\n}\n",
        "V1Switch(
    P(),
    V(),
    I(
        a, b)
) main;
control c(in bit<8> a,
          in bit<8> b)(bit<8> w) {
    apply {
        f(a,
          b);
    }
}
",
    );
}

#[test]
fn tokens_are_never_joined() {
    check("const int x = 1 - - 1 + + 2;\n", "const int x = 1 - -1 + +2;\n");
    check("const S x = 1 { # };\n", "const S x = 1 { #};\n");
    check("const bool x = a & & b;", "const bool x = a & & b;\n");
}

#[test]
fn what_has_no_end_is_refused() {
    assert!(format("const bit<8> x = \"a;\n").is_err());
    assert!(format("/* a\n").is_err());
    for stray in ["x \\ y;\n", "// a \\ \nb;\n", "#define A \\", "@pragma a \\ \nx;\n"] {
        assert!(
            matches!(format(stray), Err(super::FormatError::Stray(at)) if stray[at..].starts_with('\\')),
            "{stray:?}"
        );
    }
}

#[test]
fn pragmas_keep_their_lines() {
    check(
        "@pragma name \"a\"  b\ncontrol c() { apply {} }\n",
        "@pragma name \"a\"  b\ncontrol c() {\n    apply {}\n}\n",
    );
}

#[test]
fn widths_are_expressions() {
    check("typedef bit<  b ^3> t; const bool x = a<b;\n", "typedef bit<b ^ 3> t;\nconst bool x = a < b;\n");
}

#[test]
fn what_is_no_directive_does_not_become_one() {
    check("x; # y\n", "x; # y\n");
    check("{ # if }\n/* c */ #if 1\n#endif\n", "{ # if }\n/* c */\n#if 1\n#endif\n");
}

#[test]
fn annotations_are_put_together() {
    check("@\n name \n (\"x\") struct S {}\n", "@name(\"x\") struct S {}\n");
    check("@ /* c */ name struct S {}\n", "@ /* c */ name struct S {}\n");
}
