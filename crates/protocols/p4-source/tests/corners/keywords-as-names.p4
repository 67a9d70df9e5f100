// 6.4.1 words that are keywords in their place only are names elsewhere
#include <core.p4>
struct S { bit<8> apply; bit<8> actions; bit<8> state; bit<8> entries; bit<8> priority; bit<8> type; bit<8> key; }
control c(inout S key) { bit<8> state = 1; bit<8> apply = 2; apply { key.apply = apply; key.actions = state; key.type = key.priority; key.key = 1; } }
