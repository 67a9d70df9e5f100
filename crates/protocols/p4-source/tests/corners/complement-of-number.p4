// 8.8 a number without width has no complement
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
const int n = ~5; //! invalid
x = 1;
 } }
