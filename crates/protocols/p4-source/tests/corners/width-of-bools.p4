// 7.1.6.2 a width is a number, known when the program is compiled
header h {
    bit<(1 + true)> x; //! expected
}
