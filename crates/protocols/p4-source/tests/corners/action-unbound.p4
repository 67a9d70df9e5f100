// 14.2.1.2 the list binds parameters with a direction
#include <core.p4>
control c(inout bit<8> x) {
action d(in bit<8> p, bit<8> v) { x = p + v; }
table t { key = { x: exact; } actions = {
d; //! type-error
} }
apply { t.apply(); } }
