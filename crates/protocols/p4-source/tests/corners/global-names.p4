// 6.9 a dot in front finds the name at the top
#include <core.p4>
const bit<8> X = 1;
bit<8> f() { return 2; }
control c(out bit<8> y) { bit<4> X = 2; apply { y = .X; y = .f(); y = (bit<8>) X; } }
