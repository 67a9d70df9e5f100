// 6.10 and 8.20 functions and methods by their parameters
#include <core.p4>
extern void f(in bit<8> a);
extern void f(in bit<8> b, in bit<8> c);
extern void g(in bit<8> a);
extern void g(in bit<8> b);
extern E { E(); E(bit<8> n); void m(in bit<8> a); void m(in bit<8> a, in bool b); }
control c() { E() e; E(5) d; apply { f(1); f(1, 2); g(a = 1); g(b = 2); e.m(1); d.m(a = 1, b = true); f(c = 2, b = 1); } }
