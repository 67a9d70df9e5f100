// 20.3.2 an action for the default is in no entry
#include <core.p4>
control c(in bit<8> x) { action a() { } action b() { }
table t { key = { x: exact; } actions = { a; @defaultonly b; } default_action = b;
const entries = { 1: a();
2: b(); } } //! type-error
apply { t.apply(); } }
