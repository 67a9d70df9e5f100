// 7.2.10 a generic type wants its arguments
#include <core.p4>
struct P<A> { A a; }
control c(
inout P p) { apply { } } //! type-error
