// 12.8 `break` is in a loop
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
break; //! invalid
 } }
