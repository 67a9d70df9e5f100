// 13 states, selections, sub-parsers, value sets
#include <core.p4>
header h_t { bit<8> a; bit<16> b; }
header v_t { bit<8> n; varbit<64> v; }
struct H { h_t h; v_t v; h_t[3] s; }
struct P2 { bit<8> a; bit<16> b; }
parser sub(packet_in p, out h_t h)(bit<8> n) { state start { p.extract(h); transition select(h.a) { n: accept; default: reject; } } }
parser q(packet_in p, out H h) {
value_set<bit<8>>(4) vs; value_set<P2>(2) ps; value_set<tuple<bit<8>, bit<16>>>(2) ts; sub(5) one;
bit<8> n = 0;
state start { one.apply(p, h.h); transition select(h.h.a, h.h.b) { (1, 2): next; (vs, _): next; (0x10 &&& 0xF0, 1 .. 5): accept; ps: more; ts: more; (8w1 .. 8w3, default): accept; _: last; } }
state next { p.extract(h.v, (bit<32>) h.h.a * 8); bit<4> ahead = p.lookahead<bit<4>>(); P2 both = p.lookahead<P2>(); h_t hd = p.lookahead<h_t>(); n = both.a; verify(ahead == 1, error.NoMatch); transition more; }
state more { p.extract(h.s.next); p.advance(16); p.extract<h_t>(_); n = h.s.last.a; if (h.s.lastIndex == 2) { n = n + 1; } else { n = 3; } { bit<8> z = n; } transition select(n > 5) { true: more; false: accept; } }
state last { transition accept; }
}
