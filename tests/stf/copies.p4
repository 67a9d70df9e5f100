// What becomes of copies: clones from ingress and egress with the fields they keep, replicas of a multicast group,
// packets that go round again, truncation. The first byte of a packet says what is done with it.
#include <core.p4>
#include <v1model.p4>

header ask_t {
    bit<8> what;
    bit<8> argument;
    bit<8> seen;
    bit<8> kept;
    bit<16> length;
}

header note_t {
    bit<32> instance;
    bit<16> rid;
    bit<16> port;
}

struct headers_t {
    note_t note;
    ask_t ask;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
    @field_list(2)
    bit<8> rounds;
    bit<8> lost;
}

parser Read(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ask);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        meta.kept = hdr.ask.argument + 1;
        meta.lost = 0x77;
        if (hdr.ask.what == 1) {
            // A clone of what came in, without what is written to the header here.
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            hdr.ask.seen = 0xaa;
        } else if (hdr.ask.what == 2) {
            standard.mcast_grp = 9;
            hdr.ask.seen = 0xbb;
        } else if (hdr.ask.what == 3) {
            // Resubmitted packets come with nothing but the field list.
            if (meta.rounds < 3) {
                meta.rounds = meta.rounds + 1;
                hdr.ask.seen = 0xcc;
                resubmit_preserving_field_list(2);
            } else {
                hdr.ask.kept = meta.rounds;
            }
        } else if (hdr.ask.what == 4) {
            truncate((bit<32>) hdr.ask.argument);
        } else if (hdr.ask.what == 7) {
            // Clone and multicast and drop: the clone is made, the group goes before dropping.
            clone_preserving_field_list(CloneType.I2E, 6, 1);
            mark_to_drop(standard);
            standard.mcast_grp = 9;
        } else if (hdr.ask.what == 8) {
            clone(CloneType.I2E, 5);
            mark_to_drop(standard);
        } else if (hdr.ask.what == 9) {
            hdr.note.setValid();
            hdr.note.instance = 0x01020304;
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.ask.length = (bit<16>) standard.packet_length;
        if (standard.instance_type != 0) {
            hdr.ask.kept = meta.kept;
        }
        if (standard.instance_type == 1 || standard.instance_type == 2 || standard.instance_type == 5) {
            hdr.note.setValid();
            hdr.note.instance = standard.instance_type;
            hdr.note.rid = standard.egress_rid;
            hdr.note.port = (bit<16>) standard.egress_port;
        } else if (hdr.ask.what == 5) {
            // A clone of what leaves egress, with what is written before and after the call.
            clone_preserving_field_list(CloneType.E2E, 5, 1);
            hdr.ask.seen = 0xdd;
            meta.kept = 0x55;
        } else if (hdr.ask.what == 6) {
            hdr.ask.seen = hdr.ask.seen + 1;
            if (meta.rounds < hdr.ask.argument) {
                meta.rounds = meta.rounds + 1;
                truncate(3);
                recirculate_preserving_field_list(2);
            } else {
                hdr.ask.kept = meta.rounds;
            }
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Write(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.note);
        packet.emit(hdr.ask);
    }
}

V1Switch(Read(), Verify(), In(), Out(), Compute(), Write()) main;
