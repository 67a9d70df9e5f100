// 18.2 `main` is an instance
#include <core.p4>
extern main { } //! invalid
