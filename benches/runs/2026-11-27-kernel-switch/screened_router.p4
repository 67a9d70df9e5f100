// A router for IPv4: the longest prefix gives the next hop and the port, the next hop gives the destination
// address, the port gives the source address. TTL counts down, the header checksum is verified and written anew.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> total_len;
    bit<16> identification;
    bit<3>  flags;
    bit<13> frag_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdr_checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

struct metadata_t {
    bit<32> next_hop;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

parser RouterParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr,
              hdr.ipv4.dst_addr },
            hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }
    action set_next_hop(bit<32> next_hop, bit<9> port) {
        meta.next_hop = next_hop;
        standard.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action set_dst_addr(bit<48> dst_addr) {
        hdr.ethernet.dst_addr = dst_addr;
    }
    table screen {
        key = { hdr.ipv4.protocol: ternary; hdr.ipv4.src_addr: ternary; }
        actions = { NoAction; }
        const entries = {
            (8w17 &&& 8w255, 32w0xac100000 &&& 32w0xffff0000): NoAction();
            (8w6 &&& 8w255, 32w0xac100100 &&& 32w0xffffff00): NoAction();
            (8w17 &&& 8w255, 32w0xac100200 &&& 32w0xffffff00): NoAction();
            (8w6 &&& 8w255, 32w0xac100300 &&& 32w0xffff0000): NoAction();
            (8w17 &&& 8w255, 32w0xac100400 &&& 32w0xffffff00): NoAction();
            (8w6 &&& 8w255, 32w0xac100500 &&& 32w0xffffff00): NoAction();
            (8w17 &&& 8w255, 32w0xac100600 &&& 32w0xffff0000): NoAction();
            (8w6 &&& 8w255, 32w0xac100700 &&& 32w0xffffff00): NoAction();
            (8w17 &&& 8w255, 32w0xac100800 &&& 32w0xffffff00): NoAction();
            (8w6 &&& 8w255, 32w0xac100900 &&& 32w0xffff0000): NoAction();
            (8w17 &&& 8w255, 32w0xac100a00 &&& 32w0xffffff00): NoAction();
            (8w6 &&& 8w255, 32w0xac100b00 &&& 32w0xffffff00): NoAction();
            (8w17 &&& 8w255, 32w0xac100c00 &&& 32w0xffff0000): NoAction();
            (8w6 &&& 8w255, 32w0xac100d00 &&& 32w0xffffff00): NoAction();
            (8w17 &&& 8w255, 32w0xac100e00 &&& 32w0xffffff00): NoAction();
            (_, _): NoAction();
        }
    }
    table ipv4_lpm {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 1048576;
    }
    table forward {
        key = { meta.next_hop: exact; }
        actions = { set_dst_addr; drop; }
        default_action = drop();
        size = 65536;
    }
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && standard.checksum_error == 0) {
            screen.apply();
            if (ipv4_lpm.apply().hit) {
                forward.apply();
            }
        } else {
            drop();
        }
    }
}

control RouterEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }
    action set_src_addr(bit<48> src_addr) {
        hdr.ethernet.src_addr = src_addr;
    }
    table send_frame {
        key = { standard.egress_port: exact; }
        actions = { set_src_addr; drop; }
        default_action = drop();
        size = 512;
    }
    apply {
        send_frame.apply();
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr,
              hdr.ipv4.dst_addr },
            hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(RouterParser(), Verify(), RouterIngress(), RouterEgress(), Compute(), RouterDeparser()) main;
