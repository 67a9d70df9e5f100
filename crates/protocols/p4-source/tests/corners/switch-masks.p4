// 12.7 a label is a value, not a set
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
switch (x) { 1: { }
2 &&& 3: { } //! syntax
}
 } }
