// 18.1 a pure function with something else than constants is no constant
enum algorithm { first, second }
@pure
extern algorithm chosen(bit<8> seed);
extern algorithm other(bit<8> seed);
extern digest {
    digest(algorithm which);
    bit<16> of<T>(in T data);
}
control c(inout bit<16> x) {
    apply {
        x = digest(other(4)).of(x); //! type-error
    }
}
