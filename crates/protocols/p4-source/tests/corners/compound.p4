// 12.1 assignments with an operator
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x += 1; x -= 2; x *= 3; x /= 4; x %= 4; x &= 6; x |= 7; x ^= 8; x <<= 1; x >>= 1; x |+|= 2; x |-|= 3; y[7:0] += x;
 } }
