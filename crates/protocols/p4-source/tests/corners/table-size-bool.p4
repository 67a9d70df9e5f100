// 14.2.1.5 a size is a number
#include <core.p4>
control c() { table t { actions = { NoAction; }
size = true; //! invalid
}
apply { t.apply(); } }
