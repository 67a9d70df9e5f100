// 14.3 and 13.5 a control without constructor parameters is applied by its type
#include <core.p4>
control d<T>(inout T x) { apply { } }
control f(inout bit<8> x) { apply { x = 1; } }
control c(inout bit<8> x) { apply { f.apply(x); f.apply(x = x); } }
