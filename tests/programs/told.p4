// Tells the controller of every source that it does not know, and sends packets by their destination: out of a port, which may be the
// controller's, or to a multicast group. Copies leave with another EtherType; nothing else of egress depends on where they go.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct learned_t {
    bit<48> address;
    bit<9>  port;
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
    counter(8, CounterType.packets) seen;

    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src_addr, standard.ingress_port });
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    action flood(bit<16> group) {
        standard.mcast_grp = group;
    }
    action drop() {
        mark_to_drop(standard);
    }
    table sources {
        key = { hdr.ethernet.src_addr: exact; }
        actions = { NoAction; learn; }
        default_action = learn();
        size = 64;
    }
    table hosts {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; flood; drop; }
        default_action = drop();
        size = 64;
    }
    apply {
        seen.count((bit<32>) standard.ingress_port);
        sources.apply();
        hosts.apply();
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type == 5) {
            hdr.ethernet.ether_type = 0x88b6;
        }
    }
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
