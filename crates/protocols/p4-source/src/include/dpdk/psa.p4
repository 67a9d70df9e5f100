// PSA as the DPDK target has it: counters and meters that take a length.
#define BAREWIRE_PSA_DPDK 1
#include <psa.p4>
