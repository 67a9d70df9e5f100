// 8.26 dots stand at the end only
#include <core.p4>
struct S { bit<8> a; bit<8> b; }
control c(out S s) { apply {
s = { ..., b = 1 }; //! syntax
} }
