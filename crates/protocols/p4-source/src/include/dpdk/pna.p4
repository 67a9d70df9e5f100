// PNA as the DPDK target has it: counters and meters that take a length.
#define BAREWIRE_PNA_DPDK 1
#include <pna.p4>
