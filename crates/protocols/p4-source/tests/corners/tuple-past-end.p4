// 8.12 an element of a tuple is there
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
tuple<bit<8>, bool> t = { 1, true };
x = t[2]; //! type-error
 } }
