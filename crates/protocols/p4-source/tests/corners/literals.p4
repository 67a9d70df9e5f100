// 6.4.3 literals of every base, with widths and signs, underscores anywhere but first
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = 0b1010_1010; x = 0o17; x = 0d15; x = 0xF_F; x = 8w0b1; y = 16w0xFFFF; int<8> s = -8s1; s = 8s0b0111_1111; x = 0B11; x = 0O7; x = 0XaB; x = 0D9;
 } }
