// 6.8.2 what is optional may be left out
#include <core.p4>
extern E { E(@optional bit<8> n); void m(in bit<8> a, @optional in bit<8> b, @optional in bool t); }
extern void f(@optional out bit<8> x);
package P(@optional E e);
control c() { E() e; apply { e.m(1); e.m(a = 1, t = true); e.m(1, 2); f(); } }
P() main;
