// 7.2.9.2 a call has to tell which function it means; none is made here
void f(in bit<8> a) { }
void f(in bit<16> a) { }
