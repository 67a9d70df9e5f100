// 6.8.2 what follows a default has one
#include <core.p4>
bit<8> f(in bit<8> a = 1,
in bit<8> b) { return a + b; } //! invalid
