// 7.3 a new type has no arithmetic
#include <core.p4>
type bit<9> P;
control c(inout P p) { apply {
p = p + p; //! type-error
} }
