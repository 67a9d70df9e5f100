// 7.2.2 a varbit stands in a header
#include <core.p4>
header v_t { varbit<32> v; }
struct S { v_t v; bit<8> x; }
control c(inout S s, inout v_t w) { apply { s.v = w; if (s.v.v == w.v) { s.x = 1; } w.v = s.v.v; } }
