// 12.7.3 no label stands twice, in actions neither
#include <core.p4>
control c(in bit<8> x) { action a() { switch (x) {
(bit<8>) 1: { }
8w1: { } //! invalid
default: { } } }
apply { a(); } }
