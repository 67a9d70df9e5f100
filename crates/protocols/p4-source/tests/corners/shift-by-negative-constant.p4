// 8.9.2 a shift is not negative
bit<8> f(in bit<8> x) {
const int<6> back = -1;
return x << back; //! invalid
}
