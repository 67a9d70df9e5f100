// 5 an #error ends it
#include <core.p4>
#error not for this //! *
