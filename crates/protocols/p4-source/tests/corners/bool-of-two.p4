// 8.11.1 only 0 and 1 are truth values
const bool b = (bool) 1;
const bool c = (bool) 2; //! invalid
