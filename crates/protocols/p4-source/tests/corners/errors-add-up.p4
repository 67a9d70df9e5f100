// 7.1.2 several declarations of errors add up
#include <core.p4>
error { Mine }
error { Other }
control c(out error e) { apply { e = error.Mine; e = error.Other; e = error.NoMatch; } }
