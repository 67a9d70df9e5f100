// 14.1 an action applies no table
#include <core.p4>
control c(inout bit<8> x) {
action n() { }
table t { actions = { n; } default_action = n; }
action d() {
t.apply(); //! type-error
}
apply { d(); } }
