// 8.8 what is known is divided when the program is compiled; powers of two are shifts and masks
const bit<8> third = 8w9 / 3;
control c(inout bit<8> x)(bit<8> n) { apply { x = x / 4; x = x % 8; x = x + n / 3 + (7 % 4); } }
