// 20.2 a number of an annotation has no width
@bad[8w1] //! type-error
const bit<8> y = 1;
