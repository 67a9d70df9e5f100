// 8.5 and 8.6 shifts by unsigned values and by numbers
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = x << 3; x = x >> x; int<8> s = 5; s = s >> 2; s = s << x; y = y << 16; x = x << 100;
 } }
