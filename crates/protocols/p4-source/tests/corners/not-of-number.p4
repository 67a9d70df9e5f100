// 8.4 a number is no truth
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = 1;
if (x) { x = 2; } //! type-error
 } }
