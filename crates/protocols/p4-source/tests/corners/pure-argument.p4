// 18.1 and 10.3.1: a pure function of the target with constants may stand where a constructor wants a value
enum algorithm { first, second }
@pure
extern algorithm chosen(bit<8> seed);
extern digest {
    digest(algorithm which);
    bit<16> of<T>(in T data);
}
control c(inout bit<16> x) {
    digest(chosen(3)) it;
    apply {
        x = it.of({ x, 8w1 });
        x = digest(chosen(4)).of(x);
    }
}
