// 7.2.9.2 types do not tell functions apart
void f(in bit<8> a) { }
void f(in bit<16> a) { }
control c() { apply {
f(8w1); //! type-error
} }
