// Sixteen tables, one after the other, each keyed on what the one before left: the cost of a look-up, sixteen times.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct metadata_t {
    bit<16> tag;
}

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
    action set_0(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_0 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_0; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_1(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_1 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_1; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_2(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_2 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_2; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_3(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_3 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_3; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_4(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_4 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_4; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_5(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_5 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_5; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_6(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_6 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_6; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_7(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_7 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_7; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_8(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_8 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_8; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_9(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_9 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_9; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_10(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_10 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_10; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_11(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_11 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_11; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_12(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_12 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_12; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_13(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_13 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_13; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_14(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_14 {
        key = { hdr.ethernet.dst_addr: exact; meta.tag: exact; }
        actions = { set_14; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action set_15(bit<16> value) {
        meta.tag = meta.tag ^ value;
    }
    table stage_15 {
        key = { hdr.ethernet.src_addr: exact; meta.tag: exact; }
        actions = { set_15; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    action drop() {
        mark_to_drop(standard);
    }
    table ports {
        key = { standard.ingress_port: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 512;
    }
    apply {
        ports.apply();
        stage_0.apply();
        stage_1.apply();
        stage_2.apply();
        stage_3.apply();
        stage_4.apply();
        stage_5.apply();
        stage_6.apply();
        stage_7.apply();
        stage_8.apply();
        stage_9.apply();
        stage_10.apply();
        stage_11.apply();
        stage_12.apply();
        stage_13.apply();
        stage_14.apply();
        stage_15.apply();
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
