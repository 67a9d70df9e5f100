header h_t { bit<8> a; bit<16> b; bit<8> c; }
struct H { h_t h; h_t g; }
struct M { @field_list(1) bit<8> a; bit<16> b; @field_list(1, 2) bit<32> x; }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { state start { b.extract(h.h); transition accept; } }
control Inner(inout bit<8> v, in bit<16> w, out bool done)(bit<8> by, bool twice) {
    bit<8> kept = by;
    action add(bit<8> n) { v = v + n; }
    action sub() { v = v - kept; exit; }
    table t { key = { v: exact; w: ternary; } actions = { add; sub; NoAction; } default_action = add(by); }
    apply {
        done = false;
        if (v == 0) return;
        if (twice) { done = t.apply().hit; }
        kept = kept + 1;
        v = v ^ (bit<8>) w;
    }
}
control Outer(inout H h, inout M m) { Inner(1, true) in1; Inner(2, false) in2; bool d; apply { in1.apply(h.h.a, h.h.b, d); if (d) in2.apply(h.h.c, m.b, d); } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    Outer() o;
    bit<16> r;
    register<bit<8>>(4) reg;
    action use(in bit<8> x, out bit<8> y) { y = x + 1; }
    apply {
        o.apply(h, m);
        Outer.apply(h, m);
        hash(r, HashAlgorithm.crc16, (bit<16>) 0, { h.h.a, h.h.b, 8w3 }, (bit<16>) 100);
        random(m.a, 1, 9);
        digest<M>(1, m);
        use(m.a, h.h.c);
        reg.read(m.a, (bit<32>) r);
        if (m.a == 1) clone_preserving_field_list(CloneType.I2E, 5, 1);
        if (m.a == 2) resubmit_preserving_field_list(2);
        if (m.a == 3) { truncate(32); log_msg("a {}", { m.a }); assert(m.b < 100); exit; }
        s.egress_spec = 2;
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { if (m.a == 4) recirculate_preserving_field_list(1); clone(CloneType.E2E, 3); } }
control C(inout H h, inout M m) { apply { update_checksum(h.h.isValid(), { h.h.a, h.h.c }, h.h.b, HashAlgorithm.xor16); } }
control D(packet_out b, in H h) { apply { b.emit(h.h); if (h.g.isValid()) { b.emit(h.g); } } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
