// Appendix F an extern can be passed where there is no direction, also to a generic parameter
#include <core.p4>
extern S<T> { S(T x); T get(); }
extern E { E(); void any<T>(T x); }
control c(inout bit<16> r) { S(16w1) s; E() e; apply { e.any(s); r = s.get(); } }
