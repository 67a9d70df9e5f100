// 20 annotations of every form
#include <core.p4>
@plain @text(free form 1 + {2} "s") @kv[a=1, b="two", c=true] @list[1, "x", 2 + 3] @empty[]
const bit<8> X = 1;
@pragma anything goes here
control c(@p("x") inout bit<8> x) { @name("y") bit<8> z = 1; apply { @atomic { x = 1; } if (x == 2) @unlikely { x = z; } } }
