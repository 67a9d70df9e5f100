// 8.3 and 8.11.2 a member of an enumeration with values is one of its numbers; back only by a cast
#include <core.p4>
enum bit<8> E { A = 1, B = 1, C = 255 }
control c(inout bit<8> x, inout E e) { apply { x = E.A; x = x + E.B; e = (E) x; e = (E) 8w7; x = (bit<8>) e; } }
