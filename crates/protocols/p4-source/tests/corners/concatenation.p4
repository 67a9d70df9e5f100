// 8.5 and 8.6 the sign of the left
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
y = x ++ x; int<16> s = 8s1 ++ 8w1; y = 8w1 ++ 8s1; y = x ++ 4w3 ++ 4w1;
 } }
