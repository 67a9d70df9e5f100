// 16 and 11 packages infer their types
#include <core.p4>
header h_t { bit<8> a; bit<16> b; }
header v_t { bit<8> n; varbit<64> v; }
struct H { h_t h; v_t v; h_t[3] s; }
struct P2 { bit<8> a; bit<16> b; }
parser PT<HH, M>(packet_in p, out HH h, inout M m); control CT<HH, M>(inout HH h, inout M m);
package Box<HH, M>(PT<HH, M> p, CT<HH, M> c, @optional CT<_, M> e);
struct M { bit<8> x; }
parser q(packet_in p, out H h, inout M m) { state start { transition accept; } }
control c(inout H h, inout M m)(bool on) { apply { if (on) { m.x = 1; } } }
control e<T>(inout T t, inout M m);
Box(q(), c(true)) main;
