// 8.11.2 widths do not change by themselves
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
y = x; //! type-error
 } }
