// 8.5 and 8.6 unary operators
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = -x; x = +x; x = ~x; int<8> s = -5; s = ~s; s = +s; bool n = !b;
 } }
