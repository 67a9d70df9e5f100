// 11.3.1 an instance implements all abstract methods
#include <core.p4>
extern E { E(); abstract bit<8> f(); abstract bit<8> g(); }
control c(inout bit<8> x) {
E() e = { bit<8> f() { return 1; } }; //! type-error
apply { } }
