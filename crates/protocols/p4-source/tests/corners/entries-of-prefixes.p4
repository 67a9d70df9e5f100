// 14.2.1.4.1 the length of a prefix decides; a priority beside it does no harm
#include <core.p4>
control c(in bit<8> x) { action a() { }
table t { key = { x: lpm; } actions = { a; NoAction; }
const entries = { 1: a(); 1 &&& 0: NoAction(); } }
apply { t.apply(); } }
