// 15.1 what has tables is applied by its type once in a scope
#include <core.p4>
control C(); package P(C c);
control inner() {
table t { actions = { NoAction; } } //! duplicate
apply { t.apply(); } }
control c() { apply { inner.apply(); inner.apply(); } }
P(c()) main;
