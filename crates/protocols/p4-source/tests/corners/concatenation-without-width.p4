// 8.8 a number without width is not put beside another
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
y = 5 ++ x; //! type-error
 } }
