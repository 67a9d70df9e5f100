// 14.2.1.4.1 where all keys are exact no entry stands twice
#include <core.p4>
control c(in bit<8> x, in bool y) { action a() { }
table t { key = { x: exact; y: exact; } actions = { a; NoAction; }
const entries = { (1, true): a(); (1, false): a(); (2, true): a();
(8w1, true): NoAction(); } } //! keys
apply { t.apply(); } }
