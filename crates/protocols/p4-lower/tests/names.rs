//! What P4Info calls the objects of a program is what the lowered program calls them: a controller finds everything it is told of.

mod common;

use barewire_p4_info::from_source;
use barewire_p4_lower::lower;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_p4_source::{Diagnostics, Options, Resolver, SourceMap, parse, types};
use std::collections::BTreeSet;

/// Names that P4Info has and the program has not; none: the source is not accepted or does not run here.
fn missing(files: &dyn Resolver, path: &str) -> Option<Vec<String>> {
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, files, &Options::default(), path, &mut found);
    let typed = types::check(&source, &map, &mut found);
    if found.error_count() > 0 {
        return None;
    }
    let program = lower(&source, &typed, &map, path).ok()?;
    let info = from_source(&source, &typed, &mut found);
    if found.error_count() > 0 {
        return None;
    }
    let mut wrong = Vec::new();
    macro_rules! compare {
        ($what:literal, $ours:expr, $($theirs:expr),*) => {
            let ours: BTreeSet<&str> = $ours.iter().map(|object| object.name.as_str()).collect();
            $(for object in &$theirs {
                let name = object.preamble.as_ref().map_or("", |preamble| preamble.name.as_str());
                if !ours.contains(name) {
                    wrong.push(format!("{} {name}: there are {ours:?}", $what));
                }
            })*
        };
    }
    compare!("table", program.tables, info.tables);
    compare!("counter", program.counters, info.counters, info.direct_counters);
    compare!("meter", program.meters, info.meters, info.direct_meters);
    compare!("register", program.registers, info.registers);
    compare!("profile", program.profiles, info.action_profiles);
    compare!("value set", program.value_sets, info.value_sets);
    let actions: BTreeSet<&str> = program.actions.iter().map(|action| action.name.as_str()).collect();
    for table in &info.tables {
        for of in &table.action_refs {
            let action = info.actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.id == of.id));
            let name = action.and_then(|a| a.preamble.as_ref()).map_or("", |p| p.name.as_str());
            if !actions.contains(name) {
                wrong.push(format!("action {name}: there are {actions:?}"));
            }
        }
    }
    Some(wrong)
}

#[test]
fn samples_have_one_name_for_each_object() {
    let Some(folder) = barewire_testing::shared("data/p4src") else { return };
    let files = common::Folder(folder.join("p4_16_samples"));
    let (mut compared, mut wrong) = (0, Vec::new());
    for name in ["v1model", "psa"].map(|arch| common::samples(&folder, arch)).concat() {
        let Some(missing) = missing(&files, &format!("{name}.p4")) else { continue };
        compared += 1;
        wrong.extend(missing.into_iter().map(|what| format!("{name}: {what}")));
    }
    println!("{compared} programs");
    assert!(compared >= 240, "{compared} programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn instances_of_instances_have_one_name_for_each_object() {
    let text = "#include <core.p4>\n#include <v1model.p4>\nheader h_t { bit<8> a; }\nstruct H { h_t h; }\nstruct M { }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) { state start { p.extract(hdr.h); transition accept; } }
control V(inout H hdr, inout M m) { apply { } }
control Leaf(inout H hdr)(bit<32> n) {
    counter(n, CounterType.packets) c; @name(\"whole\") register<bit<8>>(4) r;
    action a(bit<8> v) { hdr.h.a = v; c.count(0); r.write(0, v); }
    table t { key = { hdr.h.a: exact; } actions = { a; NoAction; } default_action = NoAction(); }
    apply { t.apply(); }
}
control Bare(inout H hdr) { action b() { hdr.h.a = 1; } table u { actions = { b; } default_action = b(); } apply { u.apply(); } }
control Middle(inout H hdr)(bit<32> n) { Leaf(n) one; @name(\"two\") Leaf(n + 1) other; apply { one.apply(hdr); other.apply(hdr); Bare.apply(hdr); } }
control I(inout H hdr, inout M m, inout standard_metadata_t s)(bit<32> n) { Middle(n) mid; apply { mid.apply(hdr); } }
control E(inout H hdr, inout M m, inout standard_metadata_t s) { Leaf(2) last; apply { last.apply(hdr); } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(5), E(), V(), D()) main;
";
    let wrong = missing(&MemoryFiles::one("a.p4", text), "a.p4").expect("it is right");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
