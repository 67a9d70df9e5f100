// 8.19 a union itself is not set valid
#include <core.p4>
header a_t { bit<8> a; }
header_union u_t { a_t a; }
control c(inout u_t u) { apply {
u.setValid(); //! type-error
} }
