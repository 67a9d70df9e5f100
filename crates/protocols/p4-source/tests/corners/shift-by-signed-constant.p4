// 8.9.2 a shift goes by a `bit<S>`, or by a number that is known and not negative, whatever its type
enum int<6> by { two = 2 }
bit<8> f(in bit<8> x, in int<8> y) {
const int<6> one = 1;
return (x << one) ^ (x >> by.two) ^ (bit<8>) (y >> 5s3);
}
control c()(int<6> n) { apply { bit<8> z = 8w1 << n; } }
