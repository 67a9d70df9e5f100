// 6.8 an `inout` argument is a place of that very type
#include <core.p4>
extern void f(inout bit<16> x);
control c(inout bit<8> x) { apply {
f(x); //! type-error
} }
