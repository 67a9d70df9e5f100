// 8.6 signed numbers are not divided
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
int<8> s = 5;
s = s / 2; //! type-error
 } }
