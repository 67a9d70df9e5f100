// Sends packets by their destination, and clones those that an entry says as they leave egress: with fields or without, of packets that
// are dropped, and clones of clones. A clone has a header more, and a checksum's value as egress knows it, not as the packet left with it.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header label_t {
    bit<8>  instance;
    bit<8>  more;
    bit<16> sum;
    bit<16> seen;
    bit<16> number;
    bit<70> wide;
    bit<2>  end;
}

header extra_t {
    bit<16> port;
    bit<16> length;
    bit<8>  left;
}

struct metadata_t {
    @field_list(1)
    bit<16>  number;
    @field_list(2)
    bit<70>  wide;
    @field_list(2)
    bit<128> wider;
    bit<16>  lost;
}

struct headers_t {
    ethernet_t ethernet;
    extra_t    extra;
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
    table hosts {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; }
        default_action = forward(1);
        size = 64;
    }
    apply {
        hosts.apply();
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(8, CounterType.packets_and_bytes) left;

    action plain(bit<32> session) {
        clone(CloneType.E2E, session);
    }
    action numbered(bit<32> session, bit<16> number) {
        meta.number = number;
        meta.lost = number;
        clone_preserving_field_list(CloneType.E2E, session, 1);
    }
    action broad(bit<32> session, bit<70> wide) {
        meta.wide = wide;
        meta.wider = (bit<128>) wide << 50;
        clone_preserving_field_list(CloneType.E2E, session, 2);
    }
    action only(bit<32> session) {
        mark_to_drop(standard);
        clone(CloneType.E2E, session);
    }
    table mirrors {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { plain; numbered; broad; only; NoAction; }
        default_action = NoAction;
        size = 64;
    }
    apply {
        left.count((bit<32>) standard.egress_port & 7);
        if (standard.instance_type == 2) {
            hdr.label.seen = hdr.label.sum;
            hdr.label.number = meta.number + meta.lost;
            hdr.label.wide = meta.wide ^ (bit<70>) meta.wider[127:60];
            if (hdr.label.more > 0) {
                hdr.label.more = hdr.label.more - 1;
                clone(CloneType.E2E, 6);
            }
            if (!hdr.extra.isValid()) {
                hdr.extra.setValid();
            } else {
                hdr.extra.left = hdr.extra.left + 1;
            }
            hdr.extra.port = (bit<16>) standard.egress_port;
            hdr.extra.length = (bit<16>) standard.packet_length;
        } else {
            mirrors.apply();
        }
        hdr.label.instance = (bit<8>) standard.instance_type;
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.label.isValid(), { hdr.label.instance, hdr.label.more, hdr.label.number }, hdr.label.sum,
                        HashAlgorithm.csum16);
    }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.extra);
        packet.emit(hdr.label);
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Update(), TheDeparser()) main;
