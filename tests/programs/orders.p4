// A packet that says what is to become of it: its second header is an order to the traffic manager, its third is where
// egress reports what it saw.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header order_t {
    bit<8>  what;
    bit<8>  priority;
    bit<16> port;
    bit<16> argument;
    bit<8>  rounds;
}

header report_t {
    bit<8>  instance;
    bit<16> rid;
    bit<16> port;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
    bit<48> enq_timestamp;
    bit<8>  color;
    bit<16> kept;
    bit<32> len;
}

struct metadata_t {
    @field_list(1)
    bit<16> kept;
    bit<16> not_kept;
}

struct headers_t {
    ethernet_t ethernet;
    order_t    order;
    report_t   report;
}

struct told_t {
    bit<16> argument;
    bit<9>  port;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.order);
        packet.extract(hdr.report);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    meter(16, MeterType.packets) packets_meter;
    meter(16, MeterType.bytes) bytes_meter;
    direct_meter<bit<8>>(MeterType.packets) entry_meter;

    action metered() {
        entry_meter.read(hdr.report.color);
    }
    table meters {
        key = { hdr.order.argument: exact; }
        actions = { metered; NoAction; }
        default_action = NoAction();
        meters = entry_meter;
        size = 64;
    }
    apply {
        standard.egress_spec = (bit<9>)hdr.order.port;
        standard.priority = (bit<3>)hdr.order.priority;
        if (hdr.order.what == 1) {
            standard.mcast_grp = hdr.order.argument;
        } else if (hdr.order.what == 2) {
            meta.kept = 0x1234;
            meta.not_kept = 0x5678;
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.order.argument, 1);
        } else if (hdr.order.what == 5) {
            digest<told_t>(1, { hdr.order.argument, standard.ingress_port });
        } else if (hdr.order.what == 6) {
            packets_meter.execute_meter((bit<32>)hdr.order.argument, hdr.report.color);
        } else if (hdr.order.what == 7) {
            bytes_meter.execute_meter((bit<32>)hdr.order.argument, hdr.report.color);
        } else if (hdr.order.what == 8) {
            meters.apply();
        } else if (hdr.order.what == 9) {
            if (standard.instance_type == 0) {
                meta.kept = 0x4321;
                resubmit_preserving_field_list(1);
            }
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.report.instance = (bit<8>)standard.instance_type;
        hdr.report.rid = standard.egress_rid;
        hdr.report.port = (bit<16>)standard.egress_port;
        hdr.report.enq_qdepth = (bit<32>)standard.enq_qdepth;
        hdr.report.deq_qdepth = (bit<32>)standard.deq_qdepth;
        hdr.report.deq_timedelta = standard.deq_timedelta;
        hdr.report.enq_timestamp = (bit<48>)standard.enq_timestamp;
        hdr.report.kept = meta.kept + meta.not_kept;
        hdr.report.len = standard.packet_length;
        if (hdr.order.what == 3 && standard.instance_type == 0) {
            // Once: the clone does not clone again.
            meta.kept = 0x2222;
            clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.order.argument, 1);
        } else if (hdr.order.what == 10) {
            // Each clone clones again, for ever.
            clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.order.argument, 1);
        } else if (hdr.order.what == 4) {
            // As often as the order says; 255 is for ever.
            if (hdr.order.rounds == 255) {
                recirculate_preserving_field_list(1);
            } else if (hdr.order.rounds > 0) {
                hdr.order.rounds = hdr.order.rounds - 1;
                meta.kept = meta.kept + 1;
                recirculate_preserving_field_list(1);
            }
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.order);
        packet.emit(hdr.report);
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Compute(), TheDeparser()) main;
