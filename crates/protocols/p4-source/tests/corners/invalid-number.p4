// 8.17 a number is not invalid
#include <core.p4>
control c(out bit<8> x) { apply {
x = {#}; //! type-error
} }
