// 14.2.1.1 a key is a number, a truth, an enumeration or an error
#include <core.p4>
header h_t { bit<8> a; }
enum E { A }
control c(inout h_t h, in E e, in error r, in bool b, in int<8> i) {
table ok { key = { e: exact; r: exact; b: exact; h.isValid(): exact; i: exact; } actions = { NoAction; } default_action = NoAction; }
table t { key = {
h: exact; //! type-error
} actions = { NoAction; } default_action = NoAction; }
apply { t.apply(); ok.apply(); } }
