// Sends packets round: as they came (kind 1), or as they would leave (kinds 2 to 5), as often as they say themselves. Fields of metadata go
// with them, one of them wide, and each round is counted. With SLOW, the second round of kind 5 logs a message.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header trip_t {
    bit<8>   kind;
    bit<8>   left;
    bit<8>   rounds;
    bit<8>   lost;
    bit<100> wide;
    bit<4>   rest;
}

header mark_t {
    bit<16> mark;
}

struct metadata_t {
    @field_list(1)
    bit<8>   rounds;
    @field_list(1)
    bit<100> wide;
    @field_list(2)
    bit<8>   other;
    bit<8>   lost;
}

struct headers_t {
    ethernet_t ethernet;
    trip_t     trip;
    mark_t     mark;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.trip);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(8, CounterType.packets_and_bytes) seen;
#ifndef SLOW
    register<bit<32>>(2) passes;
#endif

    apply {
        standard.egress_spec = 2;
        meta.lost = meta.lost + 1;
#ifdef SLOW
        if (hdr.trip.kind == 5 && standard.instance_type == 4) {
            log_msg("again");
        }
#else
        bit<32> so_far;
        passes.read(so_far, 0);
        passes.write(0, so_far + (bit<32>) standard.packet_length);
#endif
        seen.count((bit<32>) standard.instance_type);
        if (hdr.trip.kind == 1 && meta.rounds < hdr.trip.left) {
            meta.rounds = meta.rounds + 1;
            meta.wide = meta.wide[91:0] ++ meta.rounds;
            resubmit_preserving_field_list(1);
        } else if (hdr.trip.kind == 6 && standard.instance_type == 0) {
            meta.other = 9;
            meta.rounds = 1;
            resubmit_preserving_field_list(2);
        }
        if (hdr.trip.kind == 7 && standard.instance_type == 6) {
            mark_to_drop(standard);
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.trip.rounds = meta.rounds + meta.other;
        hdr.trip.lost = meta.lost;
        hdr.trip.wide = meta.wide;
        if (hdr.trip.kind > 1 && hdr.trip.kind < 6 && hdr.trip.left > 0) {
            hdr.trip.left = hdr.trip.left - 1;
            meta.rounds = meta.rounds + 1;
            meta.wide = meta.wide[91:0] ++ meta.rounds;
            if (hdr.trip.kind == 3) {
                hdr.mark.setValid();
                hdr.mark.mark = 0xa5a5;
            }
            if (hdr.trip.kind == 4) {
                // What goes round is not cut; and the last round is none of these.
                truncate(32w40);
            }
            recirculate_preserving_field_list(1);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.trip);
        packet.emit(hdr.mark);
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Update(), TheDeparser()) main;
