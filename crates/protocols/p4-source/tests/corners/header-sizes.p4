// 8.18 sizes of headers and their fields are known
#include <core.p4>
header h_t { bit<8> a; varbit<32> v; bit<16> b; }
struct S { h_t h; bit<8> x; }
const bit<32> M = 1;
control c(inout h_t h, out bit<32> y) { apply { y = h.minSizeInBits(); y = h.maxSizeInBytes(); y = (bit<32>) h.minSizeInBytes() + h.maxSizeInBits(); } }
