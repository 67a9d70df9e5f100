// 7.1.5 and 8.7 texts are joined
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
const string s = "a" ++ "b\"c";
x = 1;
 } }
