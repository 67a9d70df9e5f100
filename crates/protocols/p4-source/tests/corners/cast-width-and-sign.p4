// 8.11.1 width and sign change one after the other
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
int<16> s = (int<16>) x; //! type-error
 } }
