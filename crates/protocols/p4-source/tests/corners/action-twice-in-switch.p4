// 12.7 an action is a label once
#include <core.p4>
control c(inout bit<8> x) {
action one() { }
table t { actions = { one; } default_action = one; }
apply { switch (t.apply().action_run) {
one: { }
one: { } //! invalid
} } }
