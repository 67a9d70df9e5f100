// A packet filter in the Linux kernel: parser, filter.
#ifndef _EBPF_MODEL_P4_
#define _EBPF_MODEL_P4_

#ifndef EBPF_MODEL_VERSION
#define EBPF_MODEL_VERSION 20200515
#endif

#include <core.p4>

const bit<32> __ebpf_model_version = EBPF_MODEL_VERSION;

// A dense or sparse (hash) map of 32-bit counters.
extern CounterArray {
    CounterArray(bit<32> max_index, bool sparse);
    void increment(in bit<32> index);
    void add(in bit<32> index, in bit<32> value);
}

// Table implementations.
extern array_table {
    array_table(bit<32> size);
}
extern hash_table {
    hash_table(bit<32> size);
}

parser parse<H>(packet_in packet, out H headers);
control filter<H>(inout H headers, out bool accept);

package ebpfFilter<H>(parse<H> prs, filter<H> filt);

#endif
