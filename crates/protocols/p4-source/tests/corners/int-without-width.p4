// 8.8 what has no width is no variable
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
int n = 5; //! type-error
x = 1;
 } }
