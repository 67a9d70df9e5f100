// 11.3.1 there are no abstract methods
extern E { E(); void f(); }
control c() {
E() e = { void f() { } }; //! type-error
apply { } }
