// 20.2 a name in an annotation is declared
@bad[x = nothing] //! not-found
const bit<8> y = 1;
