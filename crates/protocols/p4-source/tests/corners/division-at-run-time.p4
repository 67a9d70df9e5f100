// 8.6 numbers with a width are not divided
control c(inout bit<8> x, in bit<8> y) { apply {
x = x / y; //! invalid
} }
