// 6.4.1 and 7.2.1 the braces of an enumeration are a scope: a value may name the members in front
enum bit<4> e { a = 1, b = (bit<4>) a + 1, c = b, d = a ++ 3w0 == 7w8 ? 4w9 : 4w2 }
const bit<4> three = (bit<4>) e.b + 1;
const bool good = e.c == e.b;
