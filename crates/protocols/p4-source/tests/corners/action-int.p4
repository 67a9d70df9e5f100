// 7.1.6.5 an `int` is known when the program is compiled: no control plane gives one
control c() {
action a(int x) { } //! type-error
apply { } }
