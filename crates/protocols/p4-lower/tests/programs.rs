//! The repository's own programs from source beside what the reference compiler makes of them, and what is refused.

use barewire_p4::ir::{MatchKind, Program};
use barewire_p4_lower::lower;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use barewire_switch::prepared::{EngineKind, Prepared};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The program, or line and text of the refusal.
fn made(text: &str) -> Result<Program, (usize, String)> {
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, &MemoryFiles::one("a.p4", text), &Options::default(), "a.p4", &mut found);
    assert_eq!(found.error_count(), 0, "{:?}", found.iter().map(|d| &d.message).collect::<Vec<_>>());
    let typed = types::check(&source, &map, &mut found);
    assert_eq!(found.error_count(), 0, "{:?}", found.iter().map(|d| &d.message).collect::<Vec<_>>());
    lower(&source, &typed, &map, "a.p4").map_err(|refusal| {
        let line = map.place(refusal.span()).map_or(0, |place| place.at.line as usize);
        (line, refusal.message.clone())
    })
}

/// What a control plane sees of a table: name, keys, actions with their parameters, size.
type Shown = (String, Vec<(String, MatchKind, u32)>, BTreeSet<(String, Vec<(String, u32)>)>, u32, bool);

fn shown(program: &Program) -> BTreeSet<Shown> {
    let of = |table: &barewire_p4::ir::Table| {
        let keys = table.key.iter().map(|k| (k.name.clone(), k.kind, k.width)).collect();
        let actions = table.actions.iter().map(|id| &program.actions[id.at()]);
        let actions = actions
            .map(|a| (a.name.clone(), a.params.iter().map(|p| (p.name.clone(), p.width)).collect()))
            .collect();
        (table.name.clone(), keys, actions, table.max_size, table.default_action_const)
    };
    // Tables that hold one action of the control's own statements are the reference compiler's, not the program's.
    program.tables.iter().filter(|table| !table.name.starts_with("tbl_")).map(of).collect()
}

#[test]
fn control_planes_see_what_the_reference_compiler_shows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../programs");
    let mut compared = 0;
    for entry in std::fs::read_dir(&folder).expect("the programs are there") {
        let path = entry.expect("the programs are readable").path();
        if path.extension().is_none_or(|e| e != "p4") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("it is readable");
        let ours = made(&text).unwrap_or_else(|(line, why)| panic!("{}:{line}: {why}", path.display()));
        let json = std::fs::read_to_string(
            folder.join("../tests/p4c").join(path.file_stem().unwrap()).with_extension("json"),
        )
        .expect("it is readable");
        let theirs = barewire_p4_formats::import::import(&json).expect("it is a program");
        assert_eq!(shown(&ours), shown(&theirs), "{}", path.display());
        let fields = |program: &Program| -> BTreeSet<String> {
            program.headers.iter().filter(|h| !h.metadata).map(|h| h.name.clone()).collect()
        };
        assert_eq!(fields(&ours), fields(&theirs), "{}", path.display());
        let order = |program: &Program| -> Vec<String> {
            program.deparsers[0].order.iter().map(|id| program.headers[id.at()].name.clone()).collect()
        };
        assert_eq!(order(&ours), order(&theirs), "{}", path.display());
        assert_eq!(ours.errors, theirs.errors, "{}", path.display());
        let profiles = |program: &Program| -> Vec<(String, u32)> {
            program.profiles.iter().map(|p| (p.name.clone(), p.max_size)).collect()
        };
        assert_eq!(profiles(&ours), profiles(&theirs), "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 6, "{compared} programs");
}

#[test]
fn machine_code_is_as_short_as_from_the_reference_compilers_form() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for name in ["simple_router", "acl", "deep_headers", "many_tables", "ecmp_router", "l2_learning"] {
        let read = |path: String| std::fs::read_to_string(folder.join(path)).expect("it is readable");
        let ours =
            made(&read(format!("programs/{name}.p4"))).unwrap_or_else(|(_, why)| panic!("{name}: {why}"));
        let theirs =
            barewire_p4_formats::import::import(&read(format!("tests/p4c/{name}.json"))).expect("a program");
        let length = |program: Program| {
            let prepared = Prepared::new(Arc::new(program), EngineKind::Native).expect("it compiles");
            let functions = prepared.report().expect("there is machine code").functions;
            let sum = |all: &mut dyn Iterator<Item = &barewire_p4_jit::FunctionReport>| {
                all.map(|function| function.instructions).sum::<usize>()
            };
            (sum(&mut functions.iter()), sum(&mut functions.iter().filter(|f| f.name == "chain")))
        };
        let (ours, theirs) = (length(ours), length(theirs));
        println!(
            "{name}: {ours:?} instructions before optimisation, all and the usual way; from JSON {theirs:?}"
        );
        // The order of fields may cost an instruction here and there.
        let at_most = |n: usize| n + n / 50;
        assert!(
            ours.0 <= at_most(theirs.0) && ours.1 <= at_most(theirs.1),
            "{name}: {ours:?} and {theirs:?}"
        );
    }
}

#[test]
fn a_header_that_nobody_wants_is_passed_over() {
    // With its type said, `_` has none of its own.
    let text = with_ingress("s.egress_spec = 1;")
        .replace("p.extract(hdr.h);", "p.extract<h_t>(_); p.extract(hdr.h);");
    let program = made(&text).unwrap();
    sends(&program, "packet 0 010203\nexpect 1 0203 $\n");
}

#[test]
fn what_shares_a_name_or_a_digest_is_told_apart() {
    // Two digests of one type.
    let body = "digest(1, hdr.h); hdr.h.a = 1; digest(1, hdr.h);";
    let program = made(&with_ingress(body)).unwrap();
    assert_eq!(program.learn_lists.len(), 1);
    let json = barewire_p4_formats::export::export_compact(&program).unwrap();
    assert_eq!(json.lines().count(), 1);
    barewire_p4_formats::import::import(&json).unwrap();
    // Of two entries that are alike, the first.
    let table = "table t { key = { hdr.h.a: lpm; } actions = { NoAction; }\n\
                 entries = { 7: NoAction(); 8: NoAction(); 7: NoAction(); } }\napply {";
    let program =
        made(&with_ingress("t.apply();").replacen("\napply {\nt", &format!("\n{table}\nt"), 1)).unwrap();
    assert_eq!(program.tables[0].entries.len(), 2);
    // A direct counter is of one table.
    let tables = "direct_counter(CounterType.packets) c;\n\
                  table t { key = { hdr.h.a: exact; } actions = { NoAction; } counters = c; }\n\
                  table u { key = { hdr.h.a: exact; } actions = { NoAction; } counters = c; }\napply {";
    let text = with_ingress("t.apply(); u.apply();").replacen("\napply {\nt", &format!("\n{tables}\nt"), 1);
    let (_, why) = made(&text).unwrap_err();
    assert!(why.contains("before this one"), "{why}");
}

fn with_ingress(body: &str) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\nheader h_t {{ bit<8> a; }}\nstruct H {{ h_t h; }}\nstruct M {{ }}\n\
         parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) {{ state start {{ p.extract(hdr.h); transition accept; }} }}\n\
         control V(inout H hdr, inout M m) {{ apply {{ }} }}\n\
         control I(inout H hdr, inout M m, inout standard_metadata_t s) {{\napply {{\n{body}\n}} }}\n\
         control E(inout H hdr, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}\n\
         control C(inout H hdr, inout M m) {{ apply {{ }} }}\n\
         control D(packet_out p, in H hdr) {{ apply {{ p.emit(hdr.h); }} }}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    )
}

#[test]
fn what_is_not_lowered_is_refused_at_its_line() {
    assert!(made(&with_ingress("s.egress_spec = 1;")).is_ok());
    // A loop whose rounds only the packet tells becomes an action.
    let body =
        "bit<8> i = 0;\nfor (i = 0; i < hdr.h.a; i = i + 1) { s.egress_spec = 1; if (i == 3) return; }";
    assert!(made(&with_ingress(body)).is_ok());
    // What stands behind a `return` is never reached, and the `return` stays.
    let body = "for (bit<8> i = 0; i < hdr.h.a; i = i + 1) { return; return; s.egress_spec = 2; }\ns.egress_spec = 1;";
    let program = made(&with_ingress(body)).unwrap();
    let mut body = program.actions.iter().flat_map(|action| &action.body);
    assert!(body.any(|stmt| matches!(stmt, barewire_p4::ir::Stmt::Jump(_))), "{:?}", program.actions);
    let table = "table t { key = { hdr.h.a: lpm; s.ingress_port: lpm; } actions = { NoAction; } }\napply {";
    let text =
        with_ingress("s.egress_spec = 1;\nt.apply();").replacen("\napply {\ns", &format!("\n{table}\ns"), 1);
    let (line, why) = made(&text).unwrap_err();
    assert_eq!(line, 12, "{why}");
    assert!(why.contains("several `lpm` keys"), "{why}");
}

#[test]
fn what_measures_and_counts_for_a_table_is_of_its_kind() {
    let with = |declarations: &str, property: &str| {
        let table = format!(
            "{declarations}\naction a() {{ bit<2> x; m.read(x); hdr.h.a = (bit<8>) x; }}\n\
             table t {{\nkey = {{ hdr.h.a: exact; }}\nactions = {{ a; }}\n{property}\n}}\n"
        );
        made(&with_ingress("t.apply();").replacen("\napply {\nt", &format!("\n{table}apply {{\nt"), 1))
    };
    let meter = "direct_meter<bit<2>>(MeterType.packets) m;";
    assert!(with(meter, "meters = m;").is_ok());
    let (line, why) = with(meter, "counters = m;").unwrap_err();
    assert!(line == 14 && why.contains("`counters` takes a direct counter"), "{line}: {why}");
    let both = &format!("{meter} direct_counter(CounterType.packets) c;");
    let (_, why) = with(both, "meters = c;").unwrap_err();
    assert!(why.contains("`meters` takes a direct meter"), "{why}");
    // One of no table has no colour to give.
    let (line, why) = with(meter, "").unwrap_err();
    assert!(line == 10 && why.contains("no table has `I.m` among its meters"), "{line}: {why}");
}

/// What our own JSON may not say, source may not either; and a register that nobody can hold is not asked of the machine.
#[test]
fn sizes_without_end_are_refused_at_their_line() {
    let refused = |declarations: &str, body: &str| {
        let text = with_ingress("s.egress_spec = 1;").replacen(
            "\napply {\n",
            &format!("\n{declarations}\napply {{\n{body}\n"),
            1,
        );
        made(&text).unwrap_err().1
    };
    let table = |size: &str| {
        format!("table t {{ key = {{ hdr.h.a: exact; }} actions = {{ NoAction; }} size = {size}; }}")
    };
    for size in ["67108865", "2147483648", "1 << 40"] {
        let why = refused(&table(size), "t.apply();");
        assert!(why.contains("67108864 are the most"), "{size}: {why}");
    }
    let why = refused("register<bit<8>>(67108865) r;", "bit<8> x; r.read(x, 0);");
    assert!(why.contains("67108865 cells: 67108864 are the most"), "{why}");
    // Each has a size that may be, both together are more than 4 GiB.
    let registers = "register<bit<320>>(0x4000000) r; register<bit<320>>(0x4000000) q;";
    let why = refused(registers, "bit<320> x; r.read(x, 0); q.read(x, 0);");
    assert!(why.contains("more than 4 GiB"), "{why}");
}

#[test]
fn a_program_without_main_is_refused() {
    let (_, why) = made("#include <core.p4>\nconst bit<8> x = 1;\n").unwrap_err();
    assert!(why.contains("main"), "{why}");
}

/// A program of PSA with these declarations and statements in ingress; packets leave at port 2.
fn psa(declarations: &str, body: &str) -> String {
    psa_with(declarations, &format!("{body}\nsend_to_port(o, (PortId_t) 2);"), "")
}

fn psa_with(declarations: &str, body: &str, egress: &str) -> String {
    format!(
        "#include <core.p4>\n#include <psa.p4>\nheader h_t {{ bit<8> a; bit<8> b; bit<16> c; bit<32> d; }}\nstruct H {{ h_t h; }}\nstruct E {{ }}\n\
         parser IP(packet_in p, out H hdr, inout E m, in psa_ingress_parser_input_metadata_t s, in E r, in E c) {{ state start {{ p.extract(hdr.h); transition accept; }} }}\n\
         parser EP(packet_in p, out H hdr, inout E m, in psa_egress_parser_input_metadata_t s, in E n, in E i, in E e) {{ state start {{ p.extract(hdr.h); transition accept; }} }}\n\
         control IC(inout H hdr, inout E m, in psa_ingress_input_metadata_t s, inout psa_ingress_output_metadata_t o) {{\n{declarations}\napply {{\n{body}\n}} }}\n\
         control EC(inout H hdr, inout E m, in psa_egress_input_metadata_t s, inout psa_egress_output_metadata_t o) {{ apply {{ {egress} }} }}\n\
         control ID(packet_out p, out E c, out E r, out E n, inout H hdr, in E m, in psa_ingress_output_metadata_t o) {{ apply {{ p.emit(hdr.h); }} }}\n\
         control ED(packet_out p, out E c, out E r, inout H hdr, in E m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t i) {{ apply {{ p.emit(hdr.h); }} }}\n\
         IngressPipeline(IP(), IC(), ID()) ip;\nEgressPipeline(EP(), EC(), ED()) ep;\n\
         PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;\n"
    )
}

/// Sends packets through a program on both engines, straight and by the JSON that is written of it.
fn sends(program: &Program, test: &str) {
    use barewire_switch::datapath::TargetConfig;
    let json = barewire_p4_formats::export::export(program).unwrap();
    let again = barewire_p4_formats::import::import(&json).unwrap();
    for (program, way) in [(program, "straight"), (&again, "by JSON")] {
        for kind in [EngineKind::Interpreter, EngineKind::Native] {
            let prepared = Arc::new(Prepared::new(Arc::new(program.clone()), kind).unwrap());
            let outcome = barewire_switch::stf::run(prepared, TargetConfig::default(), test).unwrap();
            assert!(outcome.passed(), "{kind} {way}: {}", outcome.wrong.join("; "));
        }
    }
}

#[test]
fn registers_of_psa_begin_with_their_value() {
    let declarations = "Register<bit<32>, bit<8>>(4, 0xdeadbeef) r;";
    let program = made(&psa(declarations, "hdr.h.d = r.read(hdr.h.a); r.write(hdr.h.a, 7);")).unwrap();
    sends(
        &program,
        "packet 1 01 00 0000 00000000\nexpect 2 01 00 0000 deadbeef $\n\
         packet 1 01 00 0000 00000000\nexpect 2 01 00 0000 00000007 $\n\
         packet 1 02 00 0000 00000000\nexpect 2 02 00 0000 deadbeef $\n",
    );
}

#[test]
fn a_checksum_sums_what_it_was_given_since_it_was_cleared() {
    let body = "crc.clear(); crc.update(hdr.h.a); if (hdr.h.b == 1) { crc.update({ hdr.h.c, 8w0x31 }); }\n\
                hdr.h.d = crc.get(); hdr.h.c = 0; crc.clear(); if (hdr.h.b == 2) hdr.h.d = crc.get();";
    let program = made(&psa("Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc;", body)).unwrap();
    // CRC-32 of `1`, of `1231` and of nothing.
    sends(
        &program,
        "packet 1 31 00 3233 00000000\nexpect 2 31 00 0000 83dcefb7 $\n\
         packet 1 31 01 3233 00000000\nexpect 2 31 01 0000 eb89142c $\n\
         packet 1 31 02 3233 00000000\nexpect 2 31 02 0000 00000000 $\n",
    );
}

#[test]
fn a_checksum_sums_in_loops() {
    // Three bytes a round: 0x31 and what follows it, 0xfa, 0xce. What the sums are was computed elsewhere.
    let round = "{ i + 0x31, hdr.h.c }";
    for (of, bits, expected) in [
        ("CRC32", 32, ["00000000", "4867b035", "44cce64d", "b826aac1"]),
        ("CRC16", 16, ["00000000", "0000fb92", "0000b328", "0000f5c8"]),
        ("ONES_COMPLEMENT16", 16, ["0000ffff", "00000005", "00000309", "00000500"]),
        ("IDENTITY", 64, ["00000000", "0031face", "face33fa", "face33fa"]),
    ] {
        let declarations = format!("Checksum<bit<{bits}>>(PSA_HashAlgorithm_t.{of}) sum;");
        let body = format!(
            "sum.update(8w7); sum.clear(); for (bit<8> i = 0; i < hdr.h.a; i = i + 1) {{ sum.update({round}); }} hdr.h.d = (bit<32>) sum.get();"
        );
        let program = made(&psa(&declarations, &body)).unwrap();
        let mut test = String::new();
        for (rounds, sum) in ["00", "01", "03", "0a"].into_iter().zip(expected) {
            test += &format!("packet 1 {rounds} 00 face 00000000\nexpect 2 {rounds} 00 face {sum} $\n");
        }
        sends(&program, &test);
    }
    // A loop that is written out: two rounds in either order.
    let body = "for (bit<8> i in 8w0 .. 1) { if (i == hdr.h.a) { sum.update(hdr.h.c); } else { sum.update(hdr.h.b); } } hdr.h.d = sum.get();";
    let program = made(&psa("Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) sum;", body)).unwrap();
    // CRC-32 of `231`, `123` in the two orders.
    sends(
        &program,
        "packet 1 00 31 3233 00000000\nexpect 2 00 31 3233 7d1b8de6 $\n\
         packet 1 01 31 3233 00000000\nexpect 2 01 31 3233 884863d2 $\n",
    );
    // A polynomial that a control plane may set.
    let body = "for (bit<8> i = 0; i < hdr.h.a; i = i + 1) { crc.update(i); }";
    let (line, why) =
        made(&psa("Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32_CUSTOM) crc;", body)).unwrap_err();
    assert!(line > 0 && why.contains("loop"), "{why}");
}

#[test]
fn registers_of_psa_hold_structs() {
    let declarations = "Register<s_t, bit<8>>(4, { 0xab, true, 3 }) r;";
    let body = "s_t v = r.read(hdr.h.a); hdr.h.b = v.x; if (v.y) { hdr.h.d = hdr.h.d + 1; } hdr.h.c = (bit<16>) v.z; r.write(hdr.h.a, { v.x + 1, !v.y, v.z - 5 });";
    let program = made(
        &psa(declarations, body).replace("struct E", "struct s_t { bit<8> x; bool y; int<16> z; }\nstruct E"),
    )
    .unwrap();
    assert_eq!(program.registers[0].width, 25);
    sends(
        &program,
        "packet 1 01 00 0000 00000000\nexpect 2 01 ab 0003 00000001 $\n\
         packet 1 01 00 0000 00000000\nexpect 2 01 ac fffe 00000000 $\n\
         packet 1 02 00 0000 00000000\nexpect 2 02 ab 0003 00000001 $\n",
    );
}

#[test]
fn a_direct_meter_makes_no_colour_better() {
    let declarations = "DirectMeter(PSA_MeterType_t.PACKETS) m;\n\
        action a() { hdr.h.b = 0; if (m.execute(PSA_MeterColor_t.YELLOW) == PSA_MeterColor_t.YELLOW) { hdr.h.b = 9; } }\n\
        table t { key = { hdr.h.a: exact; } actions = { a; NoAction; } default_action = NoAction; psa_direct_meter = m; }";
    let program = made(&psa(declarations, "t.apply();")).unwrap();
    // Nobody gave the meter a rate: it finds everything green, and yellow stays yellow.
    sends(
        &program,
        "add IC.t hdr.h.a:5 IC.a()\npacket 1 05 00 0000 00000000\nexpect 2 05 09 0000 00000000 $\n\
         packet 1 06 03 0000 00000000\nexpect 2 06 03 0000 00000000 $\n",
    );
}

#[test]
fn methods_that_a_program_implements_are_put_in() {
    let declarations = "extern Twice { Twice(); abstract bit<8> f(in bit<8> x); abstract bit<8> g(in bit<8> x, @optional in bit<8> y); }\n";
    let instance = "Twice() t = {\n\
        register<bit<8>>(2) seen;\n\
        bit<8> g(in bit<8> x, in bit<8> y) { bit<8> n; seen.read(n, 0); n = n + 1; seen.write(0, n); return x + y + n; }\n\
        bit<8> f(in bit<8> x) { if (x == 9) { return 1; } return this.g(x, x) * 2; }\n };\n";
    let source = with_ingress("s.egress_spec = 1; hdr.h.a = t.f(hdr.h.a);");
    let source = source.replace("header h_t", &format!("{declarations}header h_t"));
    let source = source.replacen("\napply {", &format!("\n{instance}apply {{"), 1);
    let program = made(&source).unwrap();
    assert_eq!(program.registers[0].name, "I.t.seen");
    sends(&program, "packet 0 09\nexpect 1 01 $\npacket 0 03\nexpect 1 0e $\npacket 0 03\nexpect 1 10 $\n");
    let other =
        source.replace("t.f(hdr.h.a)", "t.h(hdr.h.a)").replace("Twice();", "Twice(); bit<8> h(in bit<8> x);");
    let (_, why) = made(&other).unwrap_err();
    assert!(why.contains("`h`") || why.contains("not lowered"), "{why}");
}

#[test]
fn hidden_actions_are_named_by_file_and_line() {
    let program = made(&with_ingress("s.egress_spec = 1;\nif (hdr.h.a == 1) { hdr.h.a = 2; }")).unwrap();
    let names: Vec<&str> = program.actions.iter().map(|action| action.name.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"a10") && names.contains(&"a11"), "{names:?}");
}

#[test]
fn packets_of_psa_go_every_way() {
    // Again from the start, as it came.
    let body = "if (s.packet_path == PSA_PacketPath_t.RESUBMIT) { hdr.h.a = 9; } else { hdr.h.b = 1; o.resubmit = true; }\n\
                send_to_port(o, (PortId_t) 2);";
    let program = made(&psa_with("", body, "")).unwrap();
    sends(&program, "packet 1 05 07 0000 00000000\nexpect 2 09 07 0000 00000000 $\n");
    // Again from the start, as it left.
    let body = "if (s.packet_path == PSA_PacketPath_t.RECIRCULATE) { hdr.h.a = 9; send_to_port(o, (PortId_t) 2); }\n\
                else { hdr.h.b = 1; send_to_port(o, PSA_PORT_RECIRCULATE); }";
    let program = made(&psa_with("", body, "")).unwrap();
    sends(&program, "packet 1 05 07 0000 00000000\nexpect 2 09 01 0000 00000000 $\n");
    // Cloned from egress to egress, twice; and from ingress.
    let egress = "if (s.packet_path == PSA_PacketPath_t.CLONE_I2E) { hdr.h.b = 3; }\n\
                  else if (hdr.h.a < 7) { hdr.h.a = hdr.h.a + 1; o.clone = true; o.clone_session_id = (CloneSessionId_t) 8; }";
    let body =
        "o.clone = hdr.h.a == 1; o.clone_session_id = (CloneSessionId_t) 9;\nsend_to_port(o, (PortId_t) 2);";
    let program = made(&psa_with("", body, egress)).unwrap();
    let nodes = "mc_mgrp_create 3\nmc_node_create 0 6\nmc_node_associate 3 0\nmirroring_add_mc 8 3\n\
                 mc_mgrp_create 4\nmc_node_create 0 7\nmc_node_associate 4 1\nmirroring_add_mc 9 4\n";
    sends(
        &program,
        &format!(
            "{nodes}packet 1 05 00 0000 00000000\nexpect 2 06 00 0000 00000000 $\n\
             expect 6 07 00 0000 00000000 $\nexpect 6 07 00 0000 00000000 $\n\
             packet 1 08 00 0000 00000000\nexpect 2 08 00 0000 00000000 $\n"
        ),
    );
    sends(
        &program,
        &format!(
            "{nodes}packet 1 01 05 0000 00000000\nexpect 7 01 03 0000 00000000 $\nexpect 2 02 05 0000 00000000 $\n\
             expect 6 03 05 0000 00000000 $\nexpect 6 04 05 0000 00000000 $\nexpect 6 05 05 0000 00000000 $\n\
             expect 6 06 05 0000 00000000 $\nexpect 6 07 05 0000 00000000 $\nexpect 6 07 05 0000 00000000 $\n"
        ),
    );
    // Dropped unless it is sent; to nobody, and to a group.
    let body = "if (hdr.h.a == 1) { multicast(o, (MulticastGroup_t) 3); } else if (hdr.h.a == 2) { send_to_port(o, (PortId_t) 4); ingress_drop(o); }";
    let program = made(&psa_with("", body, "")).unwrap();
    sends(
        &program,
        &format!(
            "{nodes}packet 1 00 00 0000 00000000\npacket 1 02 00 0000 00000000\npacket 1 01 00 0000 00000000\n\
             expect 6 01 00 0000 00000000 $\n"
        ),
    );
}
