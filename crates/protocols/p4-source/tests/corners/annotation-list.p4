// 20.2 values of annotations are numbers, truth values and strings
@good[1, "two", true, 1 == 2, "a" ++ "b"] const bit<8> x = 1;
@bad[a = {2, 3}] //! type-error
const bit<8> y = 1;
