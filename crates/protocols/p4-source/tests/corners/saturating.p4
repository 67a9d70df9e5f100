// 8.5 and 8.6 saturating arithmetic
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = x |+| 200; int<8> s = 100; s = s |+| 100; s = s |-| -100; x = x |-| x;
 } }
