// 8.8 negative numbers are not divided
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
const int n = -7 / 2; //! invalid
x = 1;
 } }
