// 13.11 fields of a value set say how they match
#include <core.p4>
struct K { @match(exact) bit<8> a; @match(ternary) bit<16> b; }
header h_t { bit<8> a; bit<16> b; }
parser q(packet_in p, out h_t h)() {
@id(5) value_set<K>(4) vs;
state start { p.extract(h); transition select(h.a, h.b) { vs: accept; _: reject; } } }
