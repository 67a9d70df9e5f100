// Sends packets out of the port of their destination, and clones those of some to mirror session 5, which the kernel does not: such
// packets are for user space.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct metadata_t { }

struct headers_t {
    ethernet_t ethernet;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    action cloned(bit<9> port) {
        standard.egress_spec = port;
        clone(CloneType.I2E, 5);
    }
    action drop() {
        mark_to_drop(standard);
    }
    table hosts {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; cloned; drop; }
        default_action = drop();
        size = 64;
    }
    apply {
        hosts.apply();
    }
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
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Compute(), TheDeparser()) main;
