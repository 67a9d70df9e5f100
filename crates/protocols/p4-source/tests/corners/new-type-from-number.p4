// 7.3 a new type is not made by itself
#include <core.p4>
type bit<9> P;
control c(inout P p) { apply {
p = 9w1; //! type-error
} }
