// 7.1.6.2 names in a width come before its value
typedef varbit<(1 + nowhere)> wide; //! not-found
