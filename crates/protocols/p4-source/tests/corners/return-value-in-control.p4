// 12.4 a control has no result
#include <core.p4>
control c(inout bit<8> x) { apply {
return x; //! type-error
} }
