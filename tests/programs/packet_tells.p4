// What only the packet tells: bits that are written, cases of a selection, elements of arrays, how often a table is
// applied; and a register of structs.
#include <core.p4>
#include <v1model.p4>

header eth_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header work_t {
    bit<8> rounds;
    bit<8> at;
    bit<8> key;
    bit<8> sum;
    bit<16> bits;
    bit<8> want;
    bit<8> taken;
    bit<8>[4] row;
}

struct cell_t {
    bit<8> last;
    int<8> change;
    bool seen;
}

struct headers_t {
    eth_t eth;
    work_t work;
}

struct meta_t {}

parser ParserImpl(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        p.extract(hdr.eth);
        p.extract(hdr.work);
        transition select(hdr.work.key) {
            hdr.work.want: wanted;
            hdr.work.at + 1: next;
            default: accept;
        }
    }
    state wanted {
        hdr.work.taken = 1;
        transition accept;
    }
    state next {
        hdr.work.taken = 2;
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control IngressImpl(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<cell_t>(4) cells;
    action add(bit<8> n) {
        hdr.work.sum = hdr.work.sum + n;
    }
    action leave() {
        hdr.work.sum = 0xff;
        exit;
    }
    table steps {
        key = {
            hdr.work.key: exact;
        }
        actions = {
            add;
            leave;
            NoAction;
        }
        default_action = NoAction;
        const entries = {
            1: add(1);
            2: add(0x10);
            3: add(3);
            9: leave();
        }
    }
    apply {
        sm.egress_spec = 1;
        hdr.work.bits[hdr.work.at +: 4] = 0xf;
        hdr.work.row[hdr.work.at] = hdr.work.row[hdr.work.key];
        cell_t cell;
        cells.read(cell, (bit<32>) hdr.work.at);
        if (cell.seen) {
            hdr.eth.src[7:0] = (bit<8>) cell.change;
        }
        cells.write((bit<32>) hdr.work.at, {hdr.work.key, (int<8>) hdr.work.key - (int<8>) cell.last, true});
        for (bit<8> i = 0; i < hdr.work.rounds; i = i + 1) {
            if (!steps.apply().hit) {
                break;
            }
            hdr.work.key = hdr.work.key + 1;
        }
        hdr.eth.type = 0x88b5;
    }
}

control EgressImpl(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {}
}

control UpdateImpl(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control DeparserImpl(packet_out p, in headers_t hdr) {
    apply {
        p.emit(hdr.eth);
        p.emit(hdr.work);
    }
}

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), UpdateImpl(), DeparserImpl()) main;
