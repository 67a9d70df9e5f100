// 12.7 a label stands once
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
switch (x) { 1: { }
1: { } //! invalid
}
 } }
