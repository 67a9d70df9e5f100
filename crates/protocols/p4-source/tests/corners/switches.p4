// 12.7 switch on values and on actions
#include <core.p4>
enum E { A, B, C }
enum bit<8> F { A = 1, B = 2 }
control c(inout bit<8> x, in E e, in F f, in bool b) {
action one() { } action two() { }
table t { actions = { one; two; } default_action = one; }
apply {
switch (x) { 1: 2: { x = 3; } 8w7: { } default: { x = 4; } }
switch (e) { E.A: { x = 1; } E.B: E.C: { } }
switch (f) { F.A: { } default: { } }
switch (x + 1) { 0x10: { return; } }
switch (t.apply().action_run) { one: { x = 5; } two: { } }
switch (b) { true: { x = 1; } false: { } }
} }
