// 6.8 a default value is known when the program is compiled
bit<8> h(in bit<8> a) { return a; }
void f(in bit<8> a,
in bit<8> b = h(1)) { } //! type-error
