// 12.8 loops
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
for (bit<8> i = 0; i < 4; i = i + 1) { x = x + i; if (x == 9) { break; } if (x == 7) { continue; } }
for (bit<8> i in 1 .. 4) { x = i; }
for (bit<8> i = 0, bit<8> j = 5; i < j; i = i + 1, j = j - 1) { x = j; }
for (bit<16> i in y .. y + 3) { y = i; }
for (;b;) { break; }
for (bit<8> i in (list<bit<8>>) { 1, 5, 9 }) { x = x ^ i; }
 } }
