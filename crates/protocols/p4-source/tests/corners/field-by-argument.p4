// 7.2.10 what a type argument makes of a field is said at the field
header H<T> {
T t; //! type-error
}
struct S { H<tuple<bit<8>>> h; }
