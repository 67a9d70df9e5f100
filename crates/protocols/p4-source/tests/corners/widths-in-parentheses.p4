// 7.1.6 widths are numbers or known values in parentheses
#include <core.p4>
const int N = 7;
typedef bit<(N + 1)> byte_t;
control c(inout byte_t x, inout int<(N + 1)> y, in varbit<(N * 8)> v) { apply { x = 8w1; } }
