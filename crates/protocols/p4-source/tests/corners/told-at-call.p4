// 6.8 an argument has the type of its parameter; a call over several lines begins where it is called
extern void f(in bit<8> first, in tuple<bool, bit<4>> second, inout bit<8> third);
control c(inout bit<8> x) {
    apply {
        f(x, { true, 1 }, x);
        f( //! type-error
            x,
            {
                x,
                1
            },
            x);
    }
}
