// 7.1.6.5 no method returns an `int`
extern E { E();
abstract int f(); //! type-error
}
