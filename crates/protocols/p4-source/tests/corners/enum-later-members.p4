// 6.4.1 uses follow the declaration: a member behind is not known yet
enum bit<4> e { a = b, //! not-found
b = 1 }
