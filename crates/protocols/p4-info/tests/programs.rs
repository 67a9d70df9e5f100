//! P4Info of programs whose objects stand in instances of instances, with names, ids and sizes of their own; and of programs that
//! it cannot tell.

use barewire_p4_info::message::{MatchFieldKind, MatchType};
use barewire_p4_info::{P4Info, from_source};
use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};

fn compile(text: &str) -> Result<P4Info, String> {
    let files = MemoryFiles::one("a.p4", text);
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let program = parse(&mut map, &files, &Options::default(), "a.p4", &mut diags);
    let typed = types::check(&program, &map, &mut diags);
    assert_eq!(diags.error_count(), 0, "{}", render_all(&map, &diags, Style::Plain));
    let info = from_source(&program, &typed, &mut diags);
    if diags.error_count() == 0 { Ok(info) } else { Err(render_all(&map, &diags, Style::Plain)) }
}

/// A v1model program with these declarations and this ingress.
fn v1model(declarations: &str, ingress: &str) -> String {
    format!(
        "#include <v1model.p4>
header H {{ bit<8> f; bit<16> g; }}
struct Hs {{ H h; }}
struct M {{ bit<9> port; }}
{declarations}
parser P(packet_in p, out Hs h, inout M m, inout standard_metadata_t s) {{ state start {{ p.extract(h.h); transition accept; }} }}
control V(inout Hs h, inout M m) {{ apply {{ }} }}
control I(inout Hs h, inout M m, inout standard_metadata_t s) {{ {ingress} }}
control E(inout Hs h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in Hs h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    )
}

fn names(info: &P4Info) -> Vec<(&str, &str)> {
    let preambles = info.tables.iter().map(|table| table.preamble.as_ref().unwrap());
    preambles.map(|preamble| (preamble.name.as_str(), preamble.alias.as_str())).collect()
}

#[test]
fn objects_of_instances_have_the_names_of_all_around_them() {
    let text = v1model(
        "action far(bit<8> x) { }
@name(\".top\") action b() { }
control Leaf(inout Hs h)(bit<32> n, bool with) {
    counter(n * 2, CounterType.packets) c;
    action a(bit<8> v) { h.h.f = v; c.count(0); }
    table t { key = { h.h.f: exact; } actions = { a; far; @defaultonly b; } default_action = b(); size = n; }
    @name(\"other\") table u { key = { h.h.g: lpm @name(\"key\"); } actions = { b; } }
    table idle { actions = { a; } }
    apply { if (with) { t.apply(); } else { u.apply(); } }
}
control Middle(inout Hs h) { Leaf(8, true) one; Leaf(16, false) two; apply { one.apply(h); two.apply(h); } }
control Alone(inout Hs h) { table t { actions = { NoAction; } } apply { t.apply(); } }",
        "Middle() m1; @name(\"m\") Middle() m2; Leaf(1, true) unused;
         apply { m1.apply(h); m2.apply(h); Alone.apply(h); }",
    );
    let info = compile(&text).unwrap();
    assert_eq!(
        names(&info),
        [
            ("I.m1.one.t", "m1.one.t"),
            ("I.m1.two.other", "m1.two.other"),
            ("I.m.one.t", "m.one.t"),
            ("I.m.two.other", "m.two.other"),
            ("I.Alone.t", "Alone.t"),
        ]
    );
    assert_eq!(info.tables.iter().map(|table| table.size).collect::<Vec<_>>(), [8, 1024, 8, 1024, 1024]);
    let counters: Vec<(&str, i64)> =
        info.counters.iter().map(|c| (c.preamble.as_ref().unwrap().name.as_str(), c.size)).collect();
    // Externs stay, whether anything uses them or not; instances of controls do not.
    assert_eq!(counters, [("I.m1.one.c", 16), ("I.m1.two.c", 32), ("I.m.one.c", 16), ("I.m.two.c", 32)]);
    let actions: Vec<&str> =
        info.actions.iter().map(|a| a.preamble.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(actions, ["far", "top", "NoAction", "I.m1.one.a", "I.m.one.a"]);
    let table = &info.tables[1];
    let field = &table.match_fields[0];
    assert_eq!((field.name.as_str(), field.bitwidth), ("key", 16));
    assert_eq!(field.r#match, Some(MatchFieldKind::MatchType(MatchType::Lpm as i32)));
    // The implicit NoAction is the default of `u` alone.
    assert_eq!(table.action_refs[1].annotations, ["@defaultonly"]);
    let default = info.tables[0].initial_default_action.as_ref().unwrap();
    assert_eq!(default.action_id, info.actions[1].preamble.as_ref().unwrap().id);
}

#[test]
fn structs_with_type_arguments_are_told_by_their_arguments() {
    let text = v1model(
        "struct G<T> { T f; }\n@name(\"own\") struct N<T> { T f; bit<8> g; }
         struct K { G<bit<32>> a; G<G<bool>> b; N<G<int<4>>> c; }",
        "apply { K k; digest(1, k); }",
    );
    let info = compile(&text).unwrap();
    let types = info.type_info.unwrap();
    let members = |name: &str| format!("{:?}", types.structs[name].members);
    let names: Vec<&str> = types.structs.keys().map(String::as_str).collect();
    assert_eq!(names, ["G_G_bool", "G_bit32", "G_bool", "G_int4", "K", "own"]);
    assert!(members("G_bit32").contains("bitwidth: 32"), "{}", members("G_bit32"));
    assert!(members("G_G_bool").contains("\"G_bool\""), "{}", members("G_G_bool"));
    assert!(members("G_bool").contains("Bool("), "{}", members("G_bool"));
    assert!(members("own").contains("\"G_int4\""), "{}", members("own"));
}

#[test]
fn a_table_that_a_known_choice_leaves_out_is_not_told() {
    let body = "table t { actions = { NoAction; } } table u { actions = { NoAction; } }
        apply { h.h.f = true ? (t.apply().hit ? 8w1 : 2) : (u.apply().hit ? 8w3 : 4); if (false && u.apply().hit) { h.h.f = 5; } }";
    let info = compile(&v1model("", body)).unwrap();
    assert_eq!(names(&info), [("I.t", "t")]);
}

#[test]
fn what_p4info_cannot_tell_has_a_place() {
    let refused = |declarations: &str, ingress: &str| compile(&v1model(declarations, ingress)).unwrap_err();
    let text = refused(
        "",
        "@id(7) table t { actions = { NoAction; } } @id(7) table u { actions = { NoAction; } } apply { t.apply(); u.apply(); }",
    );
    assert!(text.contains("another object has this id") && text.contains("a.p4:"), "{text}");
    let text = refused("", "@id(0x01000007) table t { actions = { NoAction; } } apply { t.apply(); }");
    assert!(text.contains("first byte"), "{text}");
    let text = compile("#include <core.p4>\n#include <ebpf_model.p4>\nstruct H { }\nparser P(packet_in p, out H h) { state start { transition accept; } }\n\
        control F(inout H h, out bool a) { apply { a = true; } }\nebpfFilter(P(), F()) main;\n").unwrap_err();
    assert!(text.contains("P4Info is not defined for ebpf"), "{text}");
}

#[test]
fn trees_without_end_are_refused() {
    // Each control has two of the one before.
    let mut text = "control c0(inout Hs h) { apply { } }\n".to_owned();
    for at in 0..40 {
        text.push_str(&format!(
            "control c{}(inout Hs h) {{ c{at}() a; c{at}() b; apply {{ a.apply(h); b.apply(h); a.apply(h); }} }}\n",
            at + 1
        ));
    }
    let refused = compile(&v1model(&text, "c40() c; apply { c.apply(h); }")).unwrap_err();
    assert!(refused.contains("more than 100000 instances"), "{refused}");

    let mut text = "control c0(inout Hs h) { apply { } }\n".to_owned();
    for at in 0..200 {
        text.push_str(&format!(
            "control c{}(inout Hs h) {{ c{at}() a; apply {{ a.apply(h); a.apply(h); }} }}\n",
            at + 1
        ));
    }
    let deep = |ends: u32| compile(&v1model(&text, &format!("c{ends}() c; apply {{ c.apply(h); }}")));
    assert!(deep(100).is_ok());
    assert!(deep(200).unwrap_err().contains("more than 128 deep"));
}
