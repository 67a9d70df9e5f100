// 7.2.4 a union has headers only
#include <core.p4>
struct S { bit<8> a; }
header_union u_t {
S s; //! type-error
}
