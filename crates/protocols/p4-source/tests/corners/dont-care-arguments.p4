// 8.20 `_` takes an `out` argument that nobody wants
#include <core.p4>
extern void f(out bit<8> x, in bit<8> y);
control c() { apply { f(_, 1); f(x = _, y = 2); } }
