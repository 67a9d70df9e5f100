// 8.20 arguments have names, all or none
#include <core.p4>
bit<8> f(in bit<8> a, in bit<8> b) { return a + b; }
control c(inout bit<8> x) { apply {
x = f(a = 1, 2); //! invalid
} }
