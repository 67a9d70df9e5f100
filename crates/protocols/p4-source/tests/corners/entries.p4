// 14.2.1.4 entries of every kind, with priorities
#include <core.p4>
match_kind { range, optional }
control c(inout bit<8> x, inout bit<16> y) {
action a(bit<8> v) { x = v; } action n() { } action d(in bit<8> p, bit<8> v) { x = p + v; }
table t {
key = { x: exact; y: ternary @name("why"); x + 1: range @name("next"); y[7:0]: optional @name("low"); }
actions = { a; n; @defaultonly NoAction; @tableonly d(y[7:0]); }
largest_priority_wins = false; priority_delta = 10;
entries = { priority = 10: (1, 2 &&& 3, 1 .. 5, _): a(3); (2, _, _, 7): n(); priority = 11: (3, default, 8w4, 9) : d(y[7:0], 2) @name("third"); const priority = 12: (4, 0x1_0, _, _): n; }
default_action = NoAction(); size = 100;
}
apply { if (t.apply().hit) { x = 1; } t.apply(); }
}
