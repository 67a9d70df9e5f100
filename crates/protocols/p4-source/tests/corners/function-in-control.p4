// 10 functions stand at the top
#include <core.p4>
control c(inout bit<8> x) {
bit<8> f() { return 1; } //! syntax
apply { } }
