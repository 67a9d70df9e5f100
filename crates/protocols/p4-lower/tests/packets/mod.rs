//! A small program of v1model, and what it does to packets on both engines.
#![allow(dead_code, reason = "each test takes its part")]

use barewire_p4::ir::Program;
use barewire_p4_lower::lower;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::{EngineKind, Prepared};
use std::sync::Arc;

pub fn made(text: &str) -> Program {
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, &MemoryFiles::one("a.p4", text), &Options::default(), "a.p4", &mut found);
    let typed = types::check(&source, &map, &mut found);
    let said = barewire_p4_source::diag::render_all(&map, &found, barewire_p4_source::diag::Style::Plain);
    assert_eq!(found.error_count(), 0, "{said}");
    lower(&source, &typed, &map, "a.p4").unwrap_or_else(|refusal| {
        let line = map.place(refusal.span()).map_or(0, |place| place.at.line as usize);
        panic!(
            "{line}: {}\n{}",
            refusal.message,
            text.lines().nth(line.saturating_sub(1)).unwrap_or_default()
        )
    })
}

/// A header of six bytes `a` to `f`, the last two as one number `e`; packets leave at port 1.
pub fn program(globals: &str, locals: &str, body: &str) -> String {
    with_parser(globals, "p.extract(hdr.h); transition accept;", locals, body)
}

pub fn with_parser(globals: &str, start: &str, locals: &str, body: &str) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header h_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<16> e; }}\nheader x_t {{ bit<8> z; }}\nheader y_t {{ bit<16> z; }}\n\
         header_union u_t {{ x_t x; y_t y; }}\nstruct H {{ h_t h; x_t[3] s; u_t u; }}\nstruct M {{ }}\n{globals}\n\
         parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) {{ state start {{ {start} }} }}\n\
         control V(inout H hdr, inout M m) {{ apply {{ }} }}\n\
         control I(inout H hdr, inout M m, inout standard_metadata_t sm) {{\n{locals}\napply {{\nsm.egress_spec = 1;\n{body}\n}} }}\n\
         control E(inout H hdr, inout M m, inout standard_metadata_t sm) {{ apply {{ }} }}\n\
         control C(inout H hdr, inout M m) {{ apply {{ }} }}\n\
         control D(packet_out p, in H hdr) {{ apply {{ p.emit(hdr.h); p.emit(hdr.s); p.emit(hdr.u); }} }}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    )
}

/// Packets in and out on both engines, straight and by the JSON that is written of the program.
pub fn sends(text: &str, packets: &[(&str, &str)]) {
    let program = made(text);
    let mut programs = vec![(&program, "straight")];
    // JSON has no table that is applied in two places.
    let again = match barewire_p4_formats::export::export(&program) {
        Ok(json) => {
            Some(barewire_p4_formats::import::import(&json).unwrap_or_else(|why| panic!("{why}\n{text}")))
        }
        Err(why) if why.to_string().contains("cannot say this") => None,
        Err(why) => panic!("{why}\n{text}"),
    };
    programs.extend(again.iter().map(|program| (program, "by JSON")));
    let test: String = packets
        .iter()
        .map(|(sent, got)| {
            format!(
                "packet 0 {sent}\n{}",
                if got.is_empty() { String::new() } else { format!("expect 1 {got} $\n") }
            )
        })
        .collect();
    for (program, way) in programs {
        for kind in [EngineKind::Interpreter, EngineKind::Native] {
            let prepared = Arc::new(Prepared::new(Arc::new(program.clone()), kind).unwrap());
            let outcome = barewire_switch::stf::run(prepared, TargetConfig::default(), &test).unwrap();
            assert!(outcome.passed(), "{kind} {way}: {}\n{text}", outcome.wrong.join("; "));
        }
    }
}
