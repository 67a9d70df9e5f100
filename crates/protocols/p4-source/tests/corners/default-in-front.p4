// 6.8.2 a default in front of others is used by calls with names
#include <core.p4>
bit<8> f(in bit<8> a = 1, in bit<8> b) { return a + b; }
control c(inout bit<8> x) { apply { x = f(b = 2); x = f(3, 4);
x = f(5); //! type-error
} }
