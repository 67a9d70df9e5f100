// 8.3 enumerations have no order
#include <core.p4>
enum E { A, B }
control c(in E e, out bool b) { apply {
b = e == E.A;
b = e < E.B; //! type-error
} }
