// 8.5 a shift is by an unsigned number
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
int<8> s = 3;
x = x << s; //! type-error
 } }
