// Sends packets by their destination, and clones those that an entry says to a mirror session, with fields or without.
// Clones say what they are, and egress counts all.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header label_t {
    bit<8>  instance;
    bit<9>  in_port;
    bit<7>  rest;
    bit<16> number;
    bit<70> wide;
    bit<2>  end;
}

struct metadata_t {
    @field_list(1)
    bit<16> number;
    @field_list(2)
    bit<70> wide;
    bit<16> lost;
}

struct headers_t {
    ethernet_t ethernet;
    label_t    label;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.label);
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
    action plain(bit<9> port, bit<32> session) {
        standard.egress_spec = port;
        clone(CloneType.I2E, session);
    }
    action numbered(bit<9> port, bit<32> session, bit<16> number) {
        standard.egress_spec = port;
        meta.number = number;
        meta.lost = number;
        clone_preserving_field_list(CloneType.I2E, session, 1);
    }
    action broad(bit<9> port, bit<32> session, bit<70> wide) {
        standard.egress_spec = port;
        meta.wide = wide;
        clone_preserving_field_list(CloneType.I2E, session, 2);
    }
    action only(bit<32> session) {
        mark_to_drop(standard);
        clone(CloneType.I2E, session);
    }
    table hosts {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; plain; numbered; broad; only; }
        default_action = forward(1);
        size = 64;
    }
    apply {
        hosts.apply();
        // A clone is of what came in.
        hdr.ethernet.src_addr = 0x020304050607;
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(8, CounterType.packets_and_bytes) left;

    apply {
        left.count((bit<32>) standard.egress_port & 7);
        hdr.label.instance = (bit<8>) standard.instance_type;
        hdr.label.in_port = standard.ingress_port;
        hdr.label.number = meta.number + meta.lost;
        hdr.label.wide = meta.wide;
        if (standard.instance_type == 1) {
            hdr.ethernet.ether_type = 0x88b6;
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.label);
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Update(), TheDeparser()) main;
