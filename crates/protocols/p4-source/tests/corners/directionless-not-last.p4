// 6.8 parameters without direction stand behind the others
#include <core.p4>
control c(inout bit<8> x) {
action a(bit<8> n,
in bit<8> v) { x = v; } //! type-error
apply { } }
