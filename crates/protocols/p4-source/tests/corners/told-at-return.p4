// 11 the value of a function has its type
struct pair { bit<8> first; bool second; }
pair f(in bit<8> x) {
    return //! type-error
        {
            x,
            x
        };
}
