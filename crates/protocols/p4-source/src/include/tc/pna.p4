// PNA in the Linux traffic control: no pre control, ports instead of directions, the kernel's metadata.
#define BAREWIRE_PNA_SPLIT 1
#define BAREWIRE_PNA_TC 1
#include <pna.p4>
