// 13.6 the target wants constants
#include <core.p4>
parser p(packet_in b, in bit<8> x, in bit<8> y) { state start { transition select (x) {
0 .. y: accept; //! target-error
_: reject; } } }
