// 6.8 what an `inout` parameter gets can be written
extern void f(in bit<8> first, inout bit<8> second);
control c(inout bit<8> x) {
    apply {
        f(x, //! type-error
          8w1);
    }
}
