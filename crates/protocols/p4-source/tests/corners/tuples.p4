// 8.12 tuples, their elements, and lists as tuples
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
tuple<bit<8>, bool> t = { 1, true }; x = t[0]; t[1] = b; if (t == { 1, true }) { x = 2; } tuple<bit<8>, bool> u = t; t = u; tuple<> none = { };
 } }
