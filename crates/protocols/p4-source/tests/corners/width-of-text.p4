// 7.1.6.2 a width is a number, known when the program is compiled
typedef int<(-{ 1, 2 })> wide; //! expected
