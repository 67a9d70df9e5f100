// 8.13 what is wrong in a list over several lines is told where the list goes
struct pair { bit<8> first; tuple<bit<8>, bool> second; }
const pair unlike = { //! type-error
    1,
    {
        2,
        3w1
    }
};
