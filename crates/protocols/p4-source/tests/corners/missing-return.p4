// 12.4 a function with a result returns on every path
#include <core.p4>
bit<8> f(in bool a) { //! insufficient
if (a) { return 1; }
}
