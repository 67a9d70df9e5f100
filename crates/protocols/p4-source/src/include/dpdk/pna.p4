// Programs name the architecture by its target, too.
#include <pna.p4>
