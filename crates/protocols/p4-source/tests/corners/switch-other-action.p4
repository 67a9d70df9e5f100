// 12.7 labels are actions of the table
#include <core.p4>
control c(inout bit<8> x) {
action one() { } action two() { }
table t { actions = { one; } default_action = one; }
apply { switch (t.apply().action_run) {
two: { } //! type-error
} } }
