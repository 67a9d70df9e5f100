// 6.9 a body does not hide a parameter of its control
#include <core.p4>
control c(inout bit<8> x) {
apply {
bit<8> x = 1; //! shadow
} }
