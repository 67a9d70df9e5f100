// 8.8 a number is shifted by a known number only
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
y = (bit<16>) (5 << x); //! type-error
 } }
