// 8.17 {#} is an invalid header or union
#include <core.p4>
header a_t { bit<8> a; }
header b_t { bit<16> b; }
header_union u_t { a_t a; b_t b; }
struct S { a_t h; u_t u; bit<8> x; }
control c(inout S s) { apply { s.h = {#}; s.u = {#}; s = { {#}, {#}, 3 }; s.h = (a_t) {#}; if (s.h == {#}) { s.x = 1; } } }
