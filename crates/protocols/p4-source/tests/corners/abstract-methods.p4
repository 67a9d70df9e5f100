// 11.3.1 an instance implements abstract methods, with `this` and instances of its own
#include <core.p4>
extern S<T> { S(); T get(); }
extern E<T> { E(); abstract T f(in T x); abstract T g(); @optional abstract T h(); T all(in T x); }
control c(inout bit<8> x) {
E<bit<8>>() e = { S<bit<8>>() s; bit<8> g() { return s.get(); } bit<8> f(in bit<8> y) { return y + this.g(); } };
apply { x = e.all(x); x = e.f(x); } }
