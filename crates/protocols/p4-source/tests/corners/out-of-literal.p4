// 6.8 an `out` argument is a place
#include <core.p4>
extern void f(out bit<8> x);
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
f(5); //! type-error
 } }
