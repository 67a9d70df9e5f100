// 7.5 `type` is made of a type that there is
type struct S { bit<8> a; } T; //! syntax
