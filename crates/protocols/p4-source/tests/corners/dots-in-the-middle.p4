// 8.26 `...` stands at the end
struct S { bit<8> a; bit<8> b; bit<8> c; }
control c() { apply {
S s = { 1, ..., 2 }; //! invalid
} }
