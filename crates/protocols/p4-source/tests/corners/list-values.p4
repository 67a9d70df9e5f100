// 8.14 lists have one type
#include <core.p4>
extern E<T> { E(list<T> l); }
struct P { bit<8> a; bool b; }
control c() { E<bit<8>>((list<bit<8>>) { 1, 2, 3 }) e; E<P>({ { 1, true }, { 2, false } }) d; E<tuple<bit<4>, bool>>((list<tuple<bit<4>, bool>>) { { 1, true } }) f; apply { } }
