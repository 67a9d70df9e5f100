// 8.11.2 a number becomes a member by a cast only
#include <core.p4>
enum bit<8> E { A = 1 }
control c(inout E e) { apply {
e = 8w1; //! type-error
} }
