// 20.3.3 a name is a string
@name(4) //! invalid
void f() { }
