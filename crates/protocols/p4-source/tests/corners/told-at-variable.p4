// 8.13 what is wrong in names and values over several lines is told where they go
struct pair { bit<8> first; bit<16> second; }
bit<8> f() {
    pair unlike = { //! type-error
        first = 1,
        third = 2
    };
    return unlike.first;
}
