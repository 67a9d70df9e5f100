// 6.4.3.2 a constant that is too large for its width is cut, with a warning
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = 2w5 ++ 6w0; x = 8w300;
 } }
