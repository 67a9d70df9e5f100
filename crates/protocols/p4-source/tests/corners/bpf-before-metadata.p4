// ubpf_model before 20200515: a program has no metadata of its packet
#define UBPF_MODEL_VERSION 20200304
#include <ubpf_model.p4>
header tag { bit<8> kind; }
struct headers { tag outer; }
struct data { }
parser reads(packet_in bytes, out headers all, inout data own) {
    state start { bytes.extract(all.outer); transition accept; }
}
control works(inout headers all, inout data own) {
    apply { if (all.outer.kind == 0) { mark_to_drop(); } }
}
control writes(packet_out bytes, in headers all) { apply { bytes.emit(all.outer); } }
ubpf(reads(), works(), writes()) main;
