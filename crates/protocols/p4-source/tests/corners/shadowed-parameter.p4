// 6.9 a parameter is not hidden in its control
#include <core.p4>
control c(inout bit<8> x) {
bit<8> x = 1; //! shadow
apply { } }
