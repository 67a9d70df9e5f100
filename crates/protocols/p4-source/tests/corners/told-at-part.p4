// 8 an expression inside a list that is wrong by itself is told at its own place
struct pair { bit<8> first; bool second; }
control c(inout pair x) {
    apply {
        x = {
            1,
            x.first && x.second //! type-error
        };
    }
}
