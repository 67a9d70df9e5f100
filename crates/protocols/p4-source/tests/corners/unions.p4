// 8.19 members of a union, and the union, tell whether they are valid
#include <core.p4>
header a_t { bit<8> a; }
header b_t { bit<16> b; }
header_union u_t { a_t a; b_t b; }
struct S { u_t u; u_t[2] us; }
control c(inout S s, out bool v) { apply { v = s.u.isValid(); s.u.a.setValid(); s.u.b = { 3 }; v = s.u.a.isValid() || s.us[1].b.isValid(); s.us.push_front(1); s.u = s.us[0]; } }
