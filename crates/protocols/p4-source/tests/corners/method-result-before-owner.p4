// 7.2.10.2 an extern that has none to implement, then a result that cannot be
extern plain {
    plain();
}
control c() {
    plain() it = { //! type-error
        string f(in bit<8> x) {
            return "x";
        }
    };
    apply {}
}
