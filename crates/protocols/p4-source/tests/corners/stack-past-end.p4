// 8.18 a known index is in the stack
#include <core.p4>
header a_t { bit<8> a; }
control c(inout a_t[4] s) { apply {
s[4].a = 1; //! type-error
} }
