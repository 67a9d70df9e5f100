// 7.2.10 a type argument that nothing says cannot be inferred
#include <core.p4>
control C();
package P<H>(C c);
control mine() { apply { } }
P(mine()) main; //! type-error
