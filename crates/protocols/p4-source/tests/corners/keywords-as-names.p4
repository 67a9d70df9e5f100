// 6.4.1 words that are keywords in their place only are names elsewhere
#include <core.p4>
struct key { bit<8> apply; bit<8> actions; bit<8> state; bit<8> entries; bit<8> priority; bit<8> type; }
control c(inout key k) { bit<8> state = 1; bit<8> apply = 2; apply { k.apply = apply; k.actions = state; k.type = k.priority; } }
