// 7.1.6.1 the platform has its limits
const bit<2147483648> x = 1; //! overlimit
