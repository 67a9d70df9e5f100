// 11.3.1 `this` is the instance whose method it stands in
#include <core.p4>
extern E { E(); bit<8> f(); }
control c(inout bit<8> x) { E() e; apply {
x = this.f(); //! invalid
} }
