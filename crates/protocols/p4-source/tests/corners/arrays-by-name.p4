// 7.2.2 and the reference compiler: `[n]` stands behind the type or behind the name
#include <core.p4>
header H { bit<8> a; }
struct S { H stack[3]; bit<8> bytes[4]; }
extern E { E(); void f(); }
typedef bit<8> four[4];
void g(inout H hs[3]) { H other[3] = hs; hs[0] = other[1]; }
control c(inout S s) { E() es[2]; apply { s.bytes[1] = s.bytes[0]; g(s.stack); es[1].f(); four f; f[0] = 1; } }
