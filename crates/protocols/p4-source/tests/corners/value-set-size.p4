// 13.11 the size of a value set is known
#include <core.p4>
parser p(packet_in b, in bit<8> n) {
value_set<bit<8>>(n) s; //! expected
state start { transition accept; } }
