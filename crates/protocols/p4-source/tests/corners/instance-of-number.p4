// 11.3 numbers have no instances
bit<32>() x; //! invalid
