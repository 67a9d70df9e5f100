// A learning Ethernet switch: unknown sources are told to the control plane by a digest, unknown destinations are
// flooded to multicast group 1 (egress drops the copy for the port the packet came from). Idle entries age.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct learned_t {
    bit<48> src_addr;
    bit<9>  port;
}

struct metadata_t {
    bit<9> from;
}

struct headers_t {
    ethernet_t ethernet;
}

parser L2Parser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control L2Ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src_addr, standard.ingress_port });
    }
    action flood() {
        standard.mcast_grp = 1;
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    table sources {
        key = { hdr.ethernet.src_addr: exact; standard.ingress_port: exact; }
        actions = { NoAction; learn; }
        default_action = learn();
        support_timeout = true;
        size = 65536;
    }
    table destinations {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; flood; }
        default_action = flood();
        size = 65536;
    }
    apply {
        meta.from = standard.ingress_port;
        sources.apply();
        destinations.apply();
    }
}

control L2Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == meta.from) {
            mark_to_drop(standard);
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control L2Deparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(L2Parser(), Verify(), L2Ingress(), L2Egress(), Compute(), L2Deparser()) main;
