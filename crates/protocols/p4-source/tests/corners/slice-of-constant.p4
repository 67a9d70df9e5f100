// 8.8 a slice has no negative bits
const bit<4> x = 0xff[3:-1]; //! expected
