// 7.1.6.2 a width is not negative
#include <core.p4>
const int N = 7;
typedef bit<(N - 8)> t; //! invalid
