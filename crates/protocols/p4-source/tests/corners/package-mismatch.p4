// 16 the parts of a package fit each other
#include <core.p4>
header h_t { bit<8> a; bit<16> b; }
header v_t { bit<8> n; varbit<64> v; }
struct H { h_t h; v_t v; h_t[3] s; }
struct P2 { bit<8> a; bit<16> b; }
parser PT<HH>(packet_in p, out HH h); control CT<HH>(inout HH h);
package Box<HH>(PT<HH> p, CT<HH> c); //! type-error
parser q(packet_in p, out H h) { state start { transition accept; } }
control c(inout h_t h) { apply { } }
Box(q(), c()) main;
