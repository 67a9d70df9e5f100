// 8.5 a shift is not negative
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = x << -1; //! invalid
 } }
