// 13.8.3 something is looked at
#include <core.p4>
parser p(packet_in b) { state start {
b.lookahead<void>(); //! type-error
transition accept; } }
