// 7.1.6 a width by name is in parentheses
#include <core.p4>
const int N = 7;
typedef bit<N> byte_t; //! syntax
