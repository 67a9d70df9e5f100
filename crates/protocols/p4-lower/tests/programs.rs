//! The repository's own programs from source beside what the reference compiler makes of them, and what is refused.

use barewire_p4::ir::{MatchKind, Program};
use barewire_p4_lower::lower;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use std::collections::BTreeSet;
use std::path::Path;

/// The program, or line and text of the refusal.
fn made(text: &str) -> Result<Program, (usize, String)> {
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, &MemoryFiles::one("a.p4", text), &Options::default(), "a.p4", &mut found);
    assert_eq!(found.error_count(), 0, "{:?}", found.iter().map(|d| &d.message).collect::<Vec<_>>());
    let typed = types::check(&source, &map, &mut found);
    assert_eq!(found.error_count(), 0, "{:?}", found.iter().map(|d| &d.message).collect::<Vec<_>>());
    lower(&source, &typed, &map, "a.p4").map_err(|refusal| {
        let line = map.place(refusal.span()).map_or(0, |place| place.line as usize);
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
        let json = std::fs::read_to_string(path.with_extension("json")).expect("it is readable");
        let theirs = barewire_p4::import::import(&json).expect("it is a program");
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
    // A loop whose rounds only the packet tells becomes an action; no table can be in it.
    let body =
        "bit<8> i = 0;\nfor (i = 0; i < hdr.h.a; i = i + 1) { s.egress_spec = 1; if (i == 3) return; }";
    assert!(made(&with_ingress(body)).is_ok());
    // What stands behind a `return` is never reached, and the `return` stays.
    let body = "for (bit<8> i = 0; i < hdr.h.a; i = i + 1) { return; return; s.egress_spec = 2; }\ns.egress_spec = 1;";
    let program = made(&with_ingress(body)).unwrap();
    let mut body = program.actions.iter().flat_map(|action| &action.body);
    assert!(body.any(|stmt| matches!(stmt, barewire_p4::ir::Stmt::Jump(_))), "{:?}", program.actions);
    let body = "bit<8> i = 0;\nfor (i = 0; i < hdr.h.a; i = i + 1) {\nt.apply(); }";
    let table = "table t { actions = { NoAction; } }\napply {";
    let (line, why) =
        made(&with_ingress(body).replacen("\napply {\nbit", &format!("\n{table}\nbit"), 1)).unwrap_err();
    assert_eq!(line, 13, "{why}");
    assert!(why.contains("loop"), "{why}");
}

#[test]
fn a_program_without_main_is_refused() {
    let (_, why) = made("#include <core.p4>\nconst bit<8> x = 1;\n").unwrap_err();
    assert!(why.contains("main"), "{why}");
}
