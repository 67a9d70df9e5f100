// 8.21 externs are not compared, in annotations neither
extern e { e(); }
e() t;
e() u;
@bad[t == u] //! type-error
const bit<8> y = 1;
