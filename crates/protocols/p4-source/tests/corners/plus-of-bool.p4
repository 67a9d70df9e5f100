// 8.5 truth values are no numbers
const bool b = +false; //! expected
