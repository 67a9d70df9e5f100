// 6.9 one scope declares a name once
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
bit<8> z = 1;
bit<16> z = 2; //! duplicate
x = 1;
 } }
