// 14.2.1 properties of an architecture are any values
#include <core.p4>
extern prof { prof(bit<32> n); }
control c(inout bit<8> x) {
prof(4) p;
table t { key = { x: exact; } actions = { NoAction; } const default_action = NoAction; size = 1 << 4; implementation = p; other = prof(5); const word = true; @my("x") text = "abc"; }
apply { if (!t.apply().miss) { x = 1; } else if (t.apply().hit) { x = 2; } } }
