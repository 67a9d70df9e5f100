// 17 a package says what it is made of
#include <core.p4>
package P(); //! type-error
P(1) main;
