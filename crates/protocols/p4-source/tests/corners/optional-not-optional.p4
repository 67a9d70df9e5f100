// 6.8.2 what is not optional is given
#include <core.p4>
extern E { E(); void m(in bit<8> a, @optional in bit<8> b); }
control c() { E() e; apply {
e.m(b = 1); //! type-error
} }
