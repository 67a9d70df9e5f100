// 12.7 equal labels are equal, however they are written
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
const bit<8> k = 16;
switch (x) { 0x10: { }
k: { } //! invalid
}
 } }
