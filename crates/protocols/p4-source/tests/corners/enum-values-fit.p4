// 7.2.1 the values of an enumeration are of its type
#include <core.p4>
enum bit<2> E { A = 1,
B = true //! type-error
}
