// 20.3.3 a name outside is that of one action
#include <core.p4>
control C(); package P(C c);
action top() { }
control c() {
@name(".top") action inner() { } //! duplicate
table t { actions = { top; inner; } }
apply { t.apply(); } }
P(c()) main;
