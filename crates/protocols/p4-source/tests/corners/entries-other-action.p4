// 14.2.1.4 an entry runs an action of the table
#include <core.p4>
match_kind { range, optional }
control c(inout bit<8> x, inout bit<16> y) {
action a(bit<8> v) { x = v; } action n() { } action d(in bit<8> p, bit<8> v) { x = p + v; }
table t {
key = { x: exact; y: ternary @name("why"); x + 1: range @name("next"); y[7:0]: optional @name("low"); }
actions = { a; n; @defaultonly NoAction; @tableonly d(y[7:0]); }
const entries = {
(1, 2, 3, 4): e(); //! not-found
}
default_action = n();
}
apply { if (t.apply().hit) { x = 1; } t.apply(); }
}
