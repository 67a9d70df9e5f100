// 8.20 a call fits one function
#include <core.p4>
extern void g(in bit<8> a);
extern void g(in bit<8> b);
control c() { apply {
g(1); //! type-error
} }
