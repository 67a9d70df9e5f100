// 7.1.6.2 a width is known here, not when an instance is made
control c()(int n) { apply {
bit<(n)> x; //! expected
} }
