// Writes its own version into each packet and sends it out of port 2: which program a packet met can be read from it.
// `-DVERSION=2` makes it another program: it has a table, a register and one header more.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header extra_t {
    bit<64> untouched;
    bit<24> also;
}

struct metadata_t {
    bit<32> count;
}

struct headers_t {
    ethernet_t ethernet;
    extra_t    extra;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
#if VERSION == 2
        packet.extract(hdr.extra);
#endif
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#if VERSION == 2
    register<bit<32>>(16) seen;
    action stamp(bit<48> version) {
        hdr.ethernet.src_addr = version;
        standard.egress_spec = 2;
    }
    table stamps {
        key = { hdr.ethernet.ether_type: exact; }
        actions = { stamp; }
        const default_action = stamp(2);
    }
    apply {
        seen.read(meta.count, 0);
        seen.write(0, meta.count + 1);
        stamps.apply();
    }
#else
    action other(bit<9> port) {
        hdr.ethernet.src_addr = 7;
        standard.egress_spec = port;
    }
    table others {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { other; NoAction; }
        default_action = NoAction();
    }
    apply {
        hdr.ethernet.src_addr = VERSION;
        standard.egress_spec = 2;
        others.apply();
    }
#endif
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.extra);
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Compute(), TheDeparser()) main;
