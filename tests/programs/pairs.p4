// Entries of every kind of table, and defaults, have pairs of numbers that are always the same two; a packet that sees another pair is
// counted.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct metadata_t {
    bit<64> one;
    bit<64> other;
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
    counter(8, CounterType.packets) halves;
    action set(bit<64> one, bit<64> other) {
        meta.one = one;
        meta.other = other;
    }
    table exacts {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { set; }
        default_action = set(0, 0);
        size = 16;
    }
    table prefixes {
        key = { hdr.ethernet.dst_addr: lpm; }
        actions = { set; }
        default_action = set(0, 0);
        size = 16;
    }
    table masks {
        key = { hdr.ethernet.dst_addr: ternary; }
        actions = { set; }
        default_action = set(0, 0);
        size = 16;
    }
    table defaults {
        actions = { set; }
        default_action = set(0, 0);
    }
    apply {
        standard.egress_spec = 1;
        exacts.apply();
        if (meta.one != meta.other) { halves.count(0); }
        prefixes.apply();
        if (meta.one != meta.other) { halves.count(1); }
        masks.apply();
        if (meta.one != meta.other) { halves.count(2); }
        defaults.apply();
        if (meta.one != meta.other) { halves.count(3); }
        halves.count(7);
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
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Update(), TheDeparser()) main;
