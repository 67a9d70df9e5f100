// 12.4 and 12.5 return from controls, actions and functions; exit from controls and actions
#include <core.p4>
bit<8> f(inout bit<8> y) { y = 1; return 2; }
control d(inout bit<8> x) { apply { if (x == 1) { exit; } x = 2; return; } }
control c(inout bit<8> x) { d() one; action a() { if (x == 2) { return; } exit; } apply { one.apply(x); a(); x = f(x); } }
