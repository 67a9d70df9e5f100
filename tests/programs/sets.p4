// Takes what follows Ethernet for a header of its own where the EtherType is in one set of the control plane, or EtherType and address are
// in another; each way leaves by its own port.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header label_t {
    bit<8>  kind;
    bit<24> number;
}

struct pair_t {
    bit<16> ether_type;
    bit<48> dst_addr;
}

struct metadata_t { }

struct headers_t {
    ethernet_t ethernet;
    label_t    label;
    label_t    second;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<bit<16>>(4) types;
    value_set<pair_t>(4) pairs;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            types: labelled;
            default: look;
        }
    }
    state look {
        transition select(hdr.ethernet.ether_type, hdr.ethernet.dst_addr) {
            pairs: twice;
            default: accept;
        }
    }
    state twice {
        packet.extract(hdr.second);
        transition accept;
    }
    state labelled {
        packet.extract(hdr.label);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(4, CounterType.packets) seen;
    register<bit<32>>(1) last;

    apply {
        if (hdr.label.isValid()) {
            hdr.label.kind = 0x11;
            standard.egress_spec = 1;
            last.write(0, (bit<32>) hdr.label.number);
        } else if (hdr.second.isValid()) {
            hdr.second.kind = 0x22;
            standard.egress_spec = 2;
        } else {
            standard.egress_spec = 3;
        }
        seen.count((bit<32>) standard.egress_spec);
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.label);
        packet.emit(hdr.second);
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Update(), TheDeparser()) main;
