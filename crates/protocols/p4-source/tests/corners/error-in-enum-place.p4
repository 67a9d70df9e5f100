// 7.1.2 an error is no number
#include <core.p4>
control c(out bit<8> x) { apply {
x = (bit<8>) error.NoMatch; //! type-error
} }
