// 20.3.3 instances, hidden things and things that nothing uses do not clash
#include <core.p4>
control C(); package P(C c, C d);
action foo() { }
control inner() { table t { actions = { NoAction; } } apply { t.apply(); } }
control c() { inner() a; inner() b;
@hidden @name(".foo") action bar() { }
@name(".foo") action unused() { }
table t { actions = { foo; bar; } }
apply { a.apply(); b.apply(); t.apply(); } }
control d() { inner() a; apply { a.apply(); } }
P(c(), d()) main;
