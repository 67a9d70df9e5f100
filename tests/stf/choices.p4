// Whatever chooses: value sets, match kinds of all sorts with priorities, an action selector, direct and indirect meters
// and counters, hashes of every kind, digests. STF has no words for most of it: the comparison with bmv2 fills it.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ports_t {
    bit<16> src;
    bit<16> dst;
}

header sums_t {
    bit<32> crc32;
    bit<32> crc32_own;
    bit<16> crc16;
    bit<16> crc16_own;
    bit<16> csum;
    bit<16> xor;
    bit<32> same;
    bit<8> chosen;
    bit<8> colour;
    bit<8> colour_there;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ports_t ports;
    sums_t sums;
}

struct metadata_t {
    bit<8> chosen;
    bit<2> colour;
    bit<2> colour_there;
    bit<1> small;
}

struct seen_t {
    bit<48> src;
    bit<9> port;
}

parser Read(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<bit<16>>(4) tunnels;
    value_set<bit<8>>(4) protocols;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x800: ipv4;
            tunnels: tunnel;
            default: accept;
        }
    }
    state tunnel {
        meta.small = 1;
        packet.extract(hdr.ports);
        transition accept;
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            17: ports;
            6: ports;
            protocols: ports;
            default: accept;
        }
    }
    state ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length,
            hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(16, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) pace;
    meter(8, MeterType.bytes) bytes;
    action_selector(HashAlgorithm.crc16, 16, 14) hops;

    action out_of(bit<9> port) {
        standard.egress_spec = port;
    }
    action counted(bit<9> port) {
        standard.egress_spec = port;
        hits.count();
    }
    action paced(bit<8> number) {
        pace.read(meta.colour);
        meta.chosen = number;
    }
    action away() {
        mark_to_drop(standard);
    }
    action tell() {
        digest<seen_t>(1, { hdr.ethernet.src, standard.ingress_port });
    }
    action nothing() { }

    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { counted; away; nothing; }
        default_action = nothing();
        counters = hits;
        size = 1024;
    }
    table rules {
        key = {
            hdr.ipv4.src: ternary;
            hdr.ports.dst: range;
            hdr.ipv4.protocol: optional;
            standard.ingress_port: exact;
        }
        actions = { paced; nothing; }
        default_action = nothing();
        meters = pace;
        size = 1024;
    }
    table ways {
        key = {
            hdr.ethernet.type: exact;
            hdr.ipv4.src: selector;
            hdr.ipv4.dst: selector;
            hdr.ports.src: selector;
        }
        actions = { out_of; away; nothing; }
        implementation = hops;
        size = 64;
    }
    table fixed {
        key = { hdr.ethernet.dst: ternary; }
        actions = { out_of; nothing; tell; }
        const default_action = nothing();
        const entries = {
            0x000000000001 &&& 0xffffffffffff: out_of(4);
            0x000000000000 &&& 0xff0000000001: out_of(5);
            0x010000000000 &&& 0x010000000000: tell();
        }
    }

    apply {
        standard.egress_spec = 1;
        fixed.apply();
        if (hdr.ipv4.isValid()) {
            if (routes.apply().hit) {
                hdr.ipv4.ttl = hdr.ipv4.ttl |-| 1;
            }
            rules.apply();
        }
        ways.apply();
        seen.count((bit<32>) standard.ingress_port);
        bit<2> colour = 0;
        bytes.execute_meter((bit<32>) standard.ingress_port, colour);
        meta.colour_there = colour;
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.sums.setValid();
        if (hdr.ipv4.isValid() && hdr.ports.isValid()) {
            hash(hdr.sums.crc32, HashAlgorithm.crc32, 32w0, { hdr.ethernet.dst, hdr.ipv4.src, hdr.ports.dst }, 32w0xffffffff);
            hash(hdr.sums.crc32_own, HashAlgorithm.crc32_custom, 32w16, { hdr.ipv4.dst, hdr.ipv4.id }, 32w0x10000);
            hash(hdr.sums.crc16, HashAlgorithm.crc16, 16w3, { hdr.ethernet.src, meta.small }, 16w1000);
            hash(hdr.sums.crc16_own, HashAlgorithm.crc16_custom, 16w0, { hdr.ethernet.src, hdr.ipv4.src }, 16w0xffff);
            hash(hdr.sums.csum, HashAlgorithm.csum16, 16w0, { hdr.ethernet.src, hdr.ethernet.dst }, 16w0xffff);
            hash(hdr.sums.xor, HashAlgorithm.xor16, 16w0, { hdr.ethernet.src, hdr.ethernet.type }, 16w0xffff);
            hash(hdr.sums.same, HashAlgorithm.identity, 32w0, { hdr.ethernet.type, hdr.ethernet.type }, 32w0xffffffff);
        }
        hdr.sums.chosen = meta.chosen;
        hdr.sums.colour = (bit<8>) meta.colour;
        hdr.sums.colour_there = (bit<8>) meta.colour_there;
        if (standard.checksum_error == 1) {
            hdr.sums.colour_there[7:7] = 1;
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length,
            hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Write(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.sums);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(Read(), Verify(), In(), Out(), Compute(), Write()) main;
