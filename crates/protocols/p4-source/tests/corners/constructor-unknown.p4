// 11.3 the arguments of a constructor are known
#include <core.p4>
control d(inout bit<8> x)(bit<8> n) { apply { x = n; } }
control c(inout bit<8> x) { apply { } }
control e(inout bit<8> x) {
d(x) one; //! type-error
apply { one.apply(x); } }
