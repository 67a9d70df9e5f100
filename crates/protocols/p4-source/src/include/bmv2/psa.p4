// Programs name the architecture by its target, too.
#include <psa.p4>
