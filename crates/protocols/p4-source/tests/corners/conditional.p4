// 8.5.1 both sides are of one type
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = b ? x : 8w1; y = b ? 1 : y; bool t = b ? b : false;
 } }
