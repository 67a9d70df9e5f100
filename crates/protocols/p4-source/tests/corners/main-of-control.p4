// 16 `main` is a package
#include <core.p4>
control c() { apply { } }
c() main; //! invalid
