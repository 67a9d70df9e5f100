//! Random numbers of the kernel: no two engines draw the same, so what is judged is where they lie and how often.

use super::*;
use std::collections::BTreeMap;

const PROGRAM: &str = r"
#include <core.p4>
#include <v1model.p4>
header drawn_t { bit<8> small; bit<32> wide; bit<8> one; bit<32> any; }
struct headers { drawn_t drawn; }
struct nothing {}
parser P(packet_in p, out headers h, inout nothing m, inout standard_metadata_t s) {
    state start { p.extract(h.drawn); transition accept; }
}
control V(inout headers h, inout nothing m) { apply {} }
control I(inout headers h, inout nothing m, inout standard_metadata_t s) {
    apply {
        random(h.drawn.small, 8w3, 8w12);
        random(h.drawn.wide, 32w0xfffffff0, 32w0xffffffff);
        random(h.drawn.one, 8w7, 8w7);
        random(h.drawn.any, 32w0, 32w0xffffffff);
        s.egress_spec = 2;
    }
}
control E(inout headers h, inout nothing m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout nothing m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.drawn); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

#[test]
fn random_numbers_lie_where_the_program_says() {
    const DRAWS: usize = 4000;
    if !may_load() {
        return;
    }
    let program = from_source(PROGRAM);
    for tc in [false, true] {
        let [interpreter, mut kernel] = both(&program, &at(tc));
        drop(interpreter);
        let mut seen: BTreeMap<u8, usize> = BTreeMap::new();
        let (mut wide, mut any) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..DRAWS {
            let out = kernel.send(1, &[0xee; 60]).expect("it fits");
            let bytes = &out[0].bytes;
            *seen.entry(bytes[0]).or_default() += 1;
            *wide.entry(u32::from_be_bytes(bytes[1..5].try_into().expect("four"))).or_insert(0) += 1;
            assert_eq!(bytes[5], 7);
            *any.entry(u32::from_be_bytes(bytes[6..10].try_into().expect("four"))).or_insert(0) += 1;
        }
        assert_eq!((kernel.handed_over, &kernel.failures), (0, &Vec::new()));
        // Ten values: 400 each, with a standard deviation of 19. Six of them are not met by chance.
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), (3..=12).collect::<Vec<_>>());
        assert!(seen.values().all(|n| (286..514).contains(n)), "{seen:?}");
        assert_eq!(wide.len(), 16, "{wide:?}");
        assert!(wide.keys().all(|value| *value >= 0xffff_fff0));
        assert!(any.len() > DRAWS - 20 && any.keys().any(|v| v >> 31 == 1), "32 bits hardly ever meet");
    }
}
