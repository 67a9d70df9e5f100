// 12.8 the variable has the type of what it runs over
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
for (bit<8> i in y .. y) { x = i; } //! type-error
 } }
