// 10 a function does not call itself
#include <core.p4>
bit<8> f(in bit<8> a) {
return f(a); //! not-found
}
