// 8.8 integers of any size
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
const int big = 1 << 100; const int third = big / 3; x = (bit<8>) (third % 251); y = 5 * 7 - 3; x = (big >> 96)[7:0]; x = (bit<8>) -1; const int n = -7 + 3; int<8> s = n;
 } }
