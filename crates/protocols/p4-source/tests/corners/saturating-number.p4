// 8.8 numbers without width do not saturate
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
const int n = 5 |+| 3; //! type-error
x = 1;
 } }
