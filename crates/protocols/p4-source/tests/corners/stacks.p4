// 8.18 elements by numbers and by values; sizes
#include <core.p4>
header a_t { bit<8> a; }
const int N = 2;
control c(inout a_t[(N + 2)] s, in bit<2> i, out bit<32> n) { apply { s[i].a = 1; s[3] = s[0]; s[1] = { 7 }; n = s.size; s.pop_front(N); s.push_front(1); } }
