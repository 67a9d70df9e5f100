// 20.3.2 an action for entries is no default
#include <core.p4>
control c(in bit<8> x) { action a() { } action b() { }
table t { key = { x: exact; } actions = { @tableonly a; b; }
default_action = a; //! type-error
}
apply { t.apply(); } }
