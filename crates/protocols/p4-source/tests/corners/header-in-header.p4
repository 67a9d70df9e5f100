// 7.2.2 no header holds a header
#include <core.p4>
header a_t { bit<8> a; }
header b_t {
a_t a; //! type-error
}
