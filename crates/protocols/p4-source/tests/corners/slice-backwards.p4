// 8.5 a slice goes down
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = y[4:11]; //! type-error
 } }
