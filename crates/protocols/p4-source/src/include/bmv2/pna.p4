// PNA of bmv2: no pre control, ports instead of directions.
#define BAREWIRE_PNA_SPLIT 1
#include <pna.p4>
