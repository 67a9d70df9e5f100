// 11.1 a constant is known
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
const bit<8> k = x; //! type-error
x = 1;
 } }
