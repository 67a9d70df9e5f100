// D static assertions
#include <core.p4>
const bool one = static_assert(4 > 3, "four");
const bool two = static_assert(4 < 3, "not less"); //! expected
