// 6.4.1 a table is no key of its own, whatever its name hides
#include <core.p4>
control c(bit<8> t) {
table t {
key = { t: exact; } //! type-error
actions = { NoAction; } }
apply { t.apply(); } }
