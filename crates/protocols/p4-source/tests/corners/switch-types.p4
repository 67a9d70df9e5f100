// 12.7 labels have the type of what is switched on
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
switch (x) { //! type-error
16w1: { }
}
 } }
