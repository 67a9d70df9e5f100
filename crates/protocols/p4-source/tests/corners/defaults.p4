// 8.26 dots stand for defaults at the end
#include <core.p4>
header h_t { bit<8> a; }
enum E { A, B }
struct S { bit<8> a; bool b; h_t h; E e; }
control c(out S s, out tuple<bit<8>, S> t) { apply { s = ...; s = { 1, ... }; s = { e = E.B, ... }; t = { 3, ... }; bit<4> n = ...; } }
