// 9 sizes have no type parameters
const bit<32> x = (1w1).minSizeInBits<int>(); //! type-error
