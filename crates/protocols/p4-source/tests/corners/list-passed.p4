// Appendix F a list is a value: it can be passed
#include <core.p4>
extern E { E(list<bit<8>> l); void f(in list<bit<8>> l); }
control c() { E({1, 2}) e; apply { e.f((list<bit<8>>) {3}); } }
