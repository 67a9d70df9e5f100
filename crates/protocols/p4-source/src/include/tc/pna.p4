// PNA in the Linux traffic control: no pre control.
#define BAREWIRE_PNA_TC 1
#include <pna.p4>
