// 14.2.1.3 the default action of a table that says none has no parameters
action NoAction(bit<8> x) { } //! Target model error
control c() { table t { actions = { } } apply { t.apply(); } }
