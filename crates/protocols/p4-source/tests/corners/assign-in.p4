// 6.8 an `in` parameter is not written
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
b = true; //! type-error
 } }
