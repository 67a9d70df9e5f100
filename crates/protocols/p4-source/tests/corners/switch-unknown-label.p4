// 12.7 labels are known values
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
switch (x) {
x: { } //! type-error
}
 } }
