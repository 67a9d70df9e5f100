header one { bit<8> a; bit<7> b; bit<1> last; }
header two { bit<16> len; varbit<64> rest; }
header three { bit<32> x; int<16> y; }
header_union u { one o; three t; }
struct H { one first; one[4] all; two v; u any; u[2] both; three t; }
struct M { bit<16> n; error e; bit<8> k; }
error { Wrong }
parser Sub(packet_in b, inout bit<16> n, out three t)(bit<8> kind) {
    state start { b.extract(t); n = n + (bit<16>) kind; transition select(t.y) { -1: start; default: accept; } }
}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
    Sub(3) sub;
    value_set<bit<8>>(4) vs;
    bit<32> bits = 16;
    state start {
        m.k = b.lookahead<bit<8>>();
        b.extract(h.first);
        transition select(h.first.a, h.first.last) {
            (1, 0): stacked;
            (2 &&& 0xfe, _): wide;
            (4 .. 9, 1): united;
            default: other;
        }
    }
    state stacked { m.n = (bit<16>) h.all.lastIndex;
        b.extract(h.all.next);
        verify(h.all.last.a != 0, error.Wrong);
        transition select(h.all.last.last) { 1: accept; default: stacked; }
    }
    state wide { b.extract(h.v, bits); bits = (bit<32>) h.v.len << 3; b.advance(8); transition accept; }
    state united { b.extract(h.any.o); b.extract(h.both.next.t); transition select(h.any.o.a) { vs: sub_state; 0: reject; default: sub_state; } }
    state sub_state { sub.apply(b, m.n, h.t); transition select(m.n) { 0 .. 100: accept; } }
    state other { b.extract<three>(_); m.n = (bit<16>) b.length(); transition accept; }
}
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        m.e = s.parser_error;
        if (m.e == error.Wrong) { h.all.push_front(1); h.all[0].setValid(); h.all[0] = { 1, 2, 1 }; }
        if (h.any.isValid()) { h.both[0] = h.any; h.any.t.setValid(); h.any.t.x = 7; }
        if (h.all[m.k & 3].isValid()) { h.all.pop_front(2); h.all[m.k[1:0]].a = 9; }
        if (h.first == h.all[1]) { h.all[2] = h.first; h.v.setInvalid(); }
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { h.first.setValid(); } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h.first); b.emit(h.all); b.emit(h.v); b.emit(h.any); b.emit(h.both); b.emit(h.t); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
