// 6.8.2 parameters with defaults
#include <core.p4>
bit<8> f(in bit<8> a, in bit<8> b = 2) { return a + b; }
control d(inout bit<8> x)(bit<8> n = 5) { apply { x = x + n; } }
control c(inout bit<8> x) { d() one; d(7) two; d(n = 3) three; action a(in bit<8> v = 9) { x = v; } apply { x = f(1); x = f(1, 3); x = f(b = 1, a = 2); a(); a(3); one.apply(x); two.apply(x); three.apply(x); } }
