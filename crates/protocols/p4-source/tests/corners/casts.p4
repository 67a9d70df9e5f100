// 8.11 casts that there are
#include <core.p4>
control c(inout bit<8> x, inout bit<16> y, in bool b) {  apply { 
x = (bit<8>) y; int<8> s = (int<8>) x; x = (bit<8>) s; s = (int<8>) 16s3; bit<1> o = (bit<1>) b; bool t = (bool) 1w1; t = (bool) 1; y = (bit<16>) (int<16>) s; s = (int<8>) -1; x = (bit<8>) 1000;
 } }
