// Corners in which switches differ: indices out of range, empty ranges, invalid headers compared, `exit` in the middle
// of an action, a copy of the metadata marked to drop. What is expected is what bmv2 does.
#include <core.p4>
#include <v1model.p4>

header ask_t {
    bit<8> what;
    bit<32> number;
    bit<32> answer;
}

header label_t {
    bit<7> label;
    bit<1> last;
}

header long_t {
    bit<8> len;
    varbit<64> data;
}

struct headers_t {
    ask_t ask;
    label_t[3] labels;
    long_t first;
    long_t second;
}

struct metadata_t {
    bit<32> index;
}

error { Odd }

parser Read(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ask);
        transition select(hdr.ask.what) {
            0x10 &&& 0xf0: labels;
            0x20: variable;
            0x30: check;
            0x31: ahead;
            0x32: skip;
            default: accept;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            0: labels;
            1: accept;
        }
    }
    state variable {
        bit<8> len = packet.lookahead<bit<8>>();
        packet.extract(hdr.first, (bit<32>) len * 8);
        transition accept;
    }
    state check {
        verify(hdr.ask.number != 7, error.Odd);
        transition accept;
    }
    state ahead {
        meta.index = packet.lookahead<bit<32>>();
        transition accept;
    }
    state skip {
        packet.advance(hdr.ask.number);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(4) cells;
    standard_metadata_t copied;

    action leave() {
        hdr.ask.answer = 1;
        if (hdr.ask.number == 1) {
            exit;
        }
        hdr.ask.answer = 2;
    }

    action stay() { }

    table leaving {
        key = { hdr.ask.what: exact; }
        actions = { leave; stay; }
        const default_action = stay();
        const entries = {
            0x01: leave();
        }
    }

    apply {
        standard.egress_spec = 2;
        if (standard.parser_error != error.NoError) {
            hdr.ask.answer = 0xee;
            standard.egress_spec = 3;
        }
        leaving.apply();
        if (hdr.ask.what == 0x01) {
            hdr.ask.answer = hdr.ask.answer + 0x100;
        } else if (hdr.ask.what == 0x02) {
            cells.write(hdr.ask.number, 0x1234);
            cells.read(hdr.ask.answer, hdr.ask.number);
        } else if (hdr.ask.what == 0x03) {
            // An empty range leaves the field.
            random(hdr.ask.answer, 9, 8);
        } else if (hdr.ask.what == 0x04) {
            copied = standard;
            mark_to_drop(copied);
            standard.mcast_grp = 0;
            if (hdr.ask.number == 1) {
                standard = copied;
            }
        } else if (hdr.ask.what == 0x05) {
            if (hdr.labels[0] == hdr.labels[1]) {
                hdr.ask.answer = 1;
            } else {
                hdr.ask.answer = 2;
            }
        } else if (hdr.ask.what == 0x06) {
            hdr.ask.answer = (bit<32>) (bit<8>) ((int<8>) (bit<8>) hdr.ask.number |+| 8s100);
            hdr.ask.number = hdr.ask.number |-| 32w16;
        } else if (hdr.ask.what == 0x11) {
            hdr.labels.push_front(1);
            hdr.labels[0].setValid();
            hdr.labels[0].label = 0x7f;
        } else if (hdr.ask.what == 0x12) {
            hdr.labels.pop_front(1);
        } else if (hdr.ask.what == 0x20) {
            hdr.second = hdr.first;
            hdr.first.setInvalid();
            hdr.first.setValid();
            hdr.first.len = 0x99;
        } else if (hdr.ask.what == 0x31) {
            hdr.ask.answer = meta.index;
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Write(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ask);
        packet.emit(hdr.labels);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
    }
}

V1Switch(Read(), Verify(), In(), Out(), Compute(), Write()) main;
