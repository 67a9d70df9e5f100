// 13.4 a transition leads to a state
#include <core.p4>
header h_t { bit<8> a; bit<16> b; }
header v_t { bit<8> n; varbit<64> v; }
struct H { h_t h; v_t v; h_t[3] s; }
struct P2 { bit<8> a; bit<16> b; }
parser q(packet_in p, out H h) { state start {
transition nowhere; //! not-found
} }
