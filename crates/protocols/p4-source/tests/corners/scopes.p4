// 6.9 blocks open scopes
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
bit<8> z = 1; { bit<16> z = 2; y = z; } x = z;
 } }
