// 14.2.1.2 a table has actions
#include <core.p4>
control c(inout bit<8> x) {
table t { key = { x: exact; } } //! expected
apply { t.apply(); } }
