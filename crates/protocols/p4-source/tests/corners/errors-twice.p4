// 7.1.2 an error is declared once
#include <core.p4>
error { Mine }
error { Mine } //! duplicate
