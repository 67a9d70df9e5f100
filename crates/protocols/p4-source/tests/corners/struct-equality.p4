// 8.16 structs of one type are compared
#include <core.p4>
struct S { bit<8> a; bool b; }
struct R { bit<8> a; bool b; }
control c(in S s, in S t, in R r, out bool e) { apply {
e = s == t && s != { 1, true };
e = s == r; //! type-error
} }
