//! A program whose machine code comes later: the interpreter runs it meanwhile, and nobody sees a difference.

use barewire_p4::ir::Program;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::Harness;
use barewire_switch::prepared::{EngineKind, Exec, Prepared};
use barewire_switch::source;
use std::fmt::Write as _;
use std::sync::Arc;

/// A packet's bytes count rounds of `statements` statements, and a register counts packets.
fn program(statements: usize) -> Program {
    let mut body = String::new();
    for at in 0..statements {
        let _ = writeln!(body, "if (h.h.a[{}:{}] == 1) {{ h.h.b = h.h.b * 3 + {at}; }}", at % 8, at % 8);
    }
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\nheader h_t {{ bit<8> a; bit<32> b; bit<32> n; }}\n\
         struct H {{ h_t h; }}\nstruct M {{ bit<32> n; }}\n\
         parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s)\n\
           {{ state start {{ p.extract(h.h); transition accept; }} }}\n\
         control V(inout H h, inout M m) {{ apply {{ }} }}\n\
         control I(inout H h, inout M m, inout standard_metadata_t s) {{ register<bit<32>>(1) r; apply {{\n{body}\
           r.read(m.n, 0); r.write(0, m.n + 1); h.h.n = m.n; s.egress_spec = 2; }} }}\n\
         control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}\n\
         control C(inout H h, inout M m) {{ apply {{ }} }}\n\
         control D(packet_out p, in H h) {{ apply {{ p.emit(h.h); }} }}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    );
    source::from_text("a.p4", &text).unwrap_or_else(|why| panic!("{why}"))
}

fn left(harness: &mut Harness, packet: u8) -> String {
    let sent =
        harness.send(1, &[packet, 0, 0, 0, packet, 0xff, 0xff, 0xff, 0xff, 7]).expect("port 1 is there");
    assert_eq!(sent.len(), 1, "{sent:?}");
    format!("{sent:?}")
}

#[test]
fn packets_are_the_same_before_and_after_the_code_is_there() {
    let program = Arc::new(program(120));
    let at_once = Prepared::new(Arc::clone(&program), EngineKind::Native).expect("it compiles");
    let deferred = Arc::new(Prepared::deferred(program, EngineKind::Native).expect("it is a program"));
    let config = TargetConfig::default();
    let mut expected = Harness::new(Arc::new(at_once), config.clone()).expect("a switch");
    let mut harness = Harness::new(Arc::clone(&deferred), config.clone()).expect("a switch");
    for packet in 0..20 {
        assert_eq!(left(&mut harness, packet), left(&mut expected, packet), "packet {packet}");
    }
    deferred.wait().expect("it compiles");
    assert!(deferred.report().is_some(), "what the compiler says of it is known now");
    for packet in 20..40 {
        assert_eq!(left(&mut harness, packet), left(&mut expected, packet), "packet {packet}");
    }
    assert!(matches!(harness.plane().datapath.exec_mut(), Exec::Native(_)), "the engine took the code over");
    assert!(matches!(deferred.exec(), Exec::Native(_)), "engines that begin now begin with it");
}

#[test]
fn small_programs_are_compiled_at_once() {
    let deferred = Prepared::deferred(Arc::new(program(3)), EngineKind::Native).expect("it compiles");
    assert!(matches!(deferred.exec(), Exec::Native(_)));
    let deferred =
        Prepared::deferred(Arc::new(program(120)), EngineKind::Interpreter).expect("anything runs there");
    assert!(matches!(deferred.exec(), Exec::Interpreter(_)));
}
