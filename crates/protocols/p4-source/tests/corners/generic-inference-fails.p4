// 8.20 a type that nothing tells is given
#include <core.p4>
extern T get<T>();
control c(inout bit<8> x) { apply { x = get<bit<8>>();
get(); //! type-error
} }
