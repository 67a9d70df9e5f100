// 6.8 an extern has no direction
#include <core.p4>
extern S { S(); }
extern E { E(); void any<T>(in T x); } //! type-error
control c() { S() s; E() e; apply {
e.any(s);
} }
