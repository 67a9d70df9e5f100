// 6.5 lists may end in a comma
#include <core.p4>
error { One, Two, }
enum E { A, B, }
enum bit<8> F { A = 1, B = 2, }
match_kind { mine, }
struct S { bit<8> a; bit<8> b; }
control c(out S s, out tuple<bit<8>, bool> t) { apply { s = { 1, 2, }; s = { a = 1, b = 2, }; t = { 1, true, }; } }
