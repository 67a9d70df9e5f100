// 10 functions are generic, have defaults, and are called in each other
#include <core.p4>
T id<T>(in T t) { return t; }
void swap<T>(inout T a, inout T b) { T t = a; a = b; b = t; }
bit<8> twice(in bit<8> x) { return id(x) + id<bit<8>>(x); }
control c(inout bit<8> x, inout bit<8> y) { apply { swap(x, y); x = twice(y); x = id(5w3) ++ 3w0; return; } }
