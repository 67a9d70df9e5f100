// 14.2.1.3 a default action is in the list
#include <core.p4>
control c(inout bit<8> x) {
action a() { }
table t { actions = { NoAction; }
default_action = a; //! type-error
}
apply { t.apply(); } }
