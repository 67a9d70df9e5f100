// PSA: sends packets by their destination, counts them before and behind the traffic manager, numbers them in a register, and says in
// front of the payload by which way and port they came to egress. A port may be the one by which packets come in again.
#include <core.p4>
#include <psa.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header label_t {
    bit<32> number;
    bit<32> port;
    bit<32> instance;
    bit<16> sum;
}

struct empty_t { }

struct metadata_t {
    bit<32> number;
}

struct headers_t {
    ethernet_t ethernet;
    label_t    label;
}

parser InParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     in psa_ingress_parser_input_metadata_t standard, in empty_t resubmitted, in empty_t recirculated) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(standard.packet_path, hdr.ethernet.ether_type) {
            (PSA_PacketPath_t.RECIRCULATE, 0x88b6): labelled;
            default: accept;
        }
    }
    state labelled {
        packet.extract(hdr.label);
        transition accept;
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t standard,
                   inout psa_ingress_output_metadata_t out_) {
    Counter<bit<64>, bit<8>>(8, PSA_CounterType_t.PACKETS_AND_BYTES) seen;
    Register<bit<32>, bit<8>>(4) numbers;
    action forward(PortId_t port) {
        send_to_port(out_, port);
    }
    action drop() {
        ingress_drop(out_);
    }
    table hosts {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 64;
    }
    apply {
        meta.number = numbers.read(1);
        meta.number = meta.number + 1;
        numbers.write(1, meta.number);
        if (standard.packet_path == PSA_PacketPath_t.RECIRCULATE) {
            seen.count(2);
            send_to_port(out_, (PortId_t) 2);
        } else {
            seen.count(1);
            hosts.apply();
        }
        hdr.ethernet.src_addr = (bit<48>) meta.number;
    }
}

control InDeparser(packet_out packet, out empty_t cloned, out empty_t resubmitted, out empty_t normal,
                        inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t standard) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.label);
    }
}

parser OutParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    in psa_egress_parser_input_metadata_t standard, in empty_t normal, in empty_t of_ingress,
                    in empty_t of_egress) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x88b6: labelled;
            default: accept;
        }
    }
    state labelled {
        packet.extract(hdr.label);
        transition accept;
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t standard,
                  inout psa_egress_output_metadata_t out_) {
    Counter<bit<64>, bit<8>>(8, PSA_CounterType_t.PACKETS_AND_BYTES) left;
    apply {
        left.count((bit<8>) (bit<32>) standard.egress_port & 7);
        hdr.label.setValid();
        hdr.label.number = hdr.label.number + 1;
        hdr.label.port = (bit<32>) standard.egress_port;
        hdr.label.instance = (bit<32>) (bit<16>) standard.instance;
        hdr.ethernet.ether_type = 0x88b6;
        if (hdr.ethernet.dst_addr == 5) {
            egress_drop(out_);
        }
    }
}

control OutDeparser(packet_out packet, out empty_t cloned, out empty_t recirculated, inout headers_t hdr,
                       in metadata_t meta, in psa_egress_output_metadata_t standard,
                       in psa_egress_deparser_input_metadata_t deparsed) {
    InternetChecksum() sum;
    apply {
        sum.clear();
        sum.add({ hdr.ethernet.dst_addr, hdr.label.number, hdr.label.port });
        sum.subtract({ hdr.ethernet.ether_type });
        hdr.label.sum = sum.get();
        packet.emit(hdr.ethernet);
        packet.emit(hdr.label);
    }
}

IngressPipeline(InParser(), TheIngress(), InDeparser()) before;
EgressPipeline(OutParser(), TheEgress(), OutDeparser()) behind;
PSA_Switch(before, PacketReplicationEngine(), behind, BufferingQueueingEngine()) main;
