// v1model: what older programs say of copies is deprecated, not unknown
#include <core.p4>
#include <v1model.p4>
struct headers { }
struct data { bit<8> round; bit<2> color; }
parser reads(packet_in bytes, out headers all, inout data own, inout standard_metadata_t about) {
    state start { transition accept; }
}
control checks(inout headers all, inout data own) { apply { } }
control first(inout headers all, inout data own, inout standard_metadata_t about) {
    apply {
        resubmit<data>(own);
        clone3(CloneType.I2E, 5, { about, own.round });
        if (own.color == V1MODEL_METER_COLOR_RED) { mark_to_drop(about); }
    }
}
control second(inout headers all, inout data own, inout standard_metadata_t about) {
    apply { recirculate(own); }
}
control writes(packet_out bytes, in headers all) { apply { } }
V1Switch(reads(), checks(), first(), second(), checks(), writes()) main;
