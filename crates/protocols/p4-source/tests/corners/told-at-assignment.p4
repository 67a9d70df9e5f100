// 8.12 a list that is assigned has all members
struct triple { bit<8> first; bit<8> second; bit<8> third; }
control c(inout triple x) {
    apply {
        x = //! type-error
            {
                1, 2
            };
    }
}
