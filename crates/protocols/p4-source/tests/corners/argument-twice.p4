// 8.20 an argument is given once
#include <core.p4>
bit<8> f(in bit<8> a) { return a; }
control c(inout bit<8> x) { apply {
x = f(a = 1, a = 2); //! duplicate
} }
