// 7.3 a new type is its own: casts both ways
#include <core.p4>
type bit<9> P;
type P Q;
control c(inout P p, inout Q q, inout bit<9> x) { apply { p = (P) x; x = (bit<9>) p; q = (Q) p; p = (P) 5; if (p == p) { x = 1; } } }
