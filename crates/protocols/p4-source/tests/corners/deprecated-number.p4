// 20.3.6 `deprecated` says a string
@deprecated("a" | "b") //! type-error
void f() { }
