// 7.2.10 generic structs, given and inferred
#include <core.p4>
struct P<A, B> { A first; B second; }
header h_t<T> { T x; }
P<bit<8>, T> mk<T>(in T t) { return { first = 1, second = t }; }
control c(inout P<bit<8>, bool> p, inout h_t<bit<16>> h) { apply { p = { 1, true }; p = { second = false, first = 2 }; p = mk(true); p = mk<bool>(p.second); h.x = 3; } }
