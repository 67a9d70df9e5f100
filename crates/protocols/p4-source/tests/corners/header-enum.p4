// 7.2.2 an enumeration in a header has values
#include <core.p4>
enum E { A, B }
header b_t {
E e; //! type-error
}
