// 14.2.1.3 what the list binds the default binds alike
#include <core.p4>
match_kind { range, optional }
control c(inout bit<8> x, inout bit<16> y) {
action a(bit<8> v) { x = v; } action n() { } action d(in bit<8> p, bit<8> v) { x = p + v; }
table t {
key = { x: exact; y: ternary @name("why"); x + 1: range @name("next"); y[7:0]: optional @name("low"); }
actions = { a; n; @defaultonly NoAction; @tableonly d(y[7:0]); }
default_action = d(y[15:8], 1); //! type-error
}
apply { if (t.apply().hit) { x = 1; } t.apply(); }
}
