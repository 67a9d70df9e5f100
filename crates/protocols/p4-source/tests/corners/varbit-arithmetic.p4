// 8.10 varbits are moved and compared
#include <core.p4>
header h_t { varbit<32> v; varbit<32> w; }
control c(inout h_t h, out bool b) { apply {
h.v = h.w;
b = h.v == h.w;
h.v = h.v + h.w; //! type-error
} }
