// 8.11.1 one bit is a truth
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
bool t = (bool) x; //! type-error
 } }
