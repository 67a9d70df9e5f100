// 8.18 `next` is for parsers
#include <core.p4>
header a_t { bit<8> a; }
control c(inout a_t[4] s) { apply {
s.next.a = 1; //! type-error
} }
