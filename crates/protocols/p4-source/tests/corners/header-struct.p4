// 7.2.2 a header may hold structs of what it may hold
#include <core.p4>
enum bit<4> E { A = 1 }
struct S { bit<4> a; E e; bool b; int<7> i; }
header b_t { S s; bit<8> x; }
control c(inout b_t h) { apply { h.s.a = 1; h.s.e = E.A; h.s = { 1, E.A, true, 5 }; h = { { 1, E.A, true, -5 }, 3 }; } }
