// 20.3 a structured annotation is a list or has names
#include <core.p4>
@mixed[1, a=2] //! syntax
const bit<8> X = 1;
