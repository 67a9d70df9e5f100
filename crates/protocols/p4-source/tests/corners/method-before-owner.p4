// 7.2.10.2 a method that is wrong by itself, then an extern that has none to implement
extern plain {
    plain();
}
control c() {
    plain() it = {
        bit<8> f(in string text) { //! type-error
            return 1;
        }
    };
    apply {}
}
