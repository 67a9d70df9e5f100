// 20.3.3 an absolute name in a control that is instantiated twice
#include <core.p4>
control C(); package P(C c);
control inner() {
@name(".foo.bar") table t { actions = { NoAction; } } //! duplicate
apply { t.apply(); } }
control c() { inner() a; inner() b; apply { a.apply(); b.apply(); } }
P(c()) main;
