// 13.6 what is selected on has a fixed width
#include <core.p4>
header H { varbit<8> v; }
parser p(packet_in b) { state start { H h; b.extract(h, 8);
transition select (h.v) { //! type-error
_: accept; } } }
