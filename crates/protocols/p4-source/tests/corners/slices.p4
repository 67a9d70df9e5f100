// 8.5 slices of values, places and numbers
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = y[15:8]; y[7:0] = x; y[0:0] = 1; x = 0xABC[11:4]; int<16> s = 5; x = s[7:0]; y[7:4] = y[3:0]; x = y[11:4];
 } }
