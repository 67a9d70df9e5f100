// Writes the colours that its two meters give a packet into the packet's source address, and sends it out of port 2: the lowest byte
// is that of the destination's entry (packets), the next that of the port it came in by (bytes).
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<32> src_rest;
    bit<8>  src_bytes;
    bit<8>  src_packets;
    bit<16> ether_type;
}

struct metadata_t {
    bit<2> packets;
    bit<2> bytes;
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
    direct_meter<bit<2>>(MeterType.packets) pace;
    meter(8, MeterType.bytes) wires;

    action metered() {
        pace.read(meta.packets);
    }
    table hosts {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { metered; NoAction; }
        default_action = NoAction();
        meters = pace;
        size = 64;
    }
    apply {
        meta.packets = 3;
        hosts.apply();
        wires.execute_meter((bit<32>) standard.ingress_port, meta.bytes);
        hdr.ethernet.src_packets = (bit<8>) meta.packets;
        hdr.ethernet.src_bytes = (bit<8>) meta.bytes;
        standard.egress_spec = 2;
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
