// 6.8.2 what an optional parameter alone would say is left open
#include <core.p4>
control C<H>(inout H h);
package Pipe<H>(C<H> c);
package Two<H, K>(Pipe<H> first, @optional Pipe<K> second, @optional C<K> third);
control mine(inout bit<8> h) { apply { h = 1; } }
Pipe(mine()) pipe;
Two(pipe) main;
