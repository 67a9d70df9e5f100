// 8.5 a slice is inside
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = y[16:9]; //! type-error
 } }
