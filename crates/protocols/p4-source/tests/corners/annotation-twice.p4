// 20.3 a name stands once
#include <core.p4>
@kv[a=1, a=2] //! duplicate
const bit<8> X = 1;
