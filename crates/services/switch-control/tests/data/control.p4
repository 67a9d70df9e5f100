// One of each thing that a control plane can touch. Compile:
// p4c-bm2-ss --p4runtime-files control.p4info.txtpb -o control.json control.p4
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header vlan_t {
    bit<3> pcp;
    bit<1> cfi;
    bit<12> vid;
    bit<16> ether_type;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    vlan_t vlan;
}

struct metadata_t {
    bit<2> color;
    bit<2> entry_color;
}

struct learned_t {
    bit<48> src;
    bit<9> port;
}

const bit<9> CPU_PORT = 510;

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) vlan_types;
    state start {
        transition select(sm.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            vlan_types: vlan;
            default: accept;
        }
    }
    state vlan {
        packet.extract(hdr.vlan);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(16, CounterType.packets_and_bytes) port_counter;
    meter(8, MeterType.packets) port_meter;
    register<bit<32>>(16) seen;
    register<int<20>>(4) offset;
    direct_counter(CounterType.packets_and_bytes) forward_counter;
    direct_meter<bit<2>>(MeterType.bytes) police_meter;

    action drop() {
        mark_to_drop(sm);
    }
    action forward(bit<9> port) {
        sm.egress_spec = port;
    }
    action counted_forward(bit<9> port) {
        forward_counter.count();
        sm.egress_spec = port;
    }
    action to_cpu() {
        sm.egress_spec = CPU_PORT;
    }
    action flood(bit<16> group) {
        sm.mcast_grp = group;
    }
    action tag(bit<16> mark, bit<48> dst) {
        hdr.ethernet.dst = dst;
        meta.entry_color = (bit<2>) mark;
    }
    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src, sm.ingress_port });
    }
    action police() {
        police_meter.read(meta.entry_color);
    }

    table exact_table {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = { counted_forward; drop; @defaultonly NoAction; }
        size = 64;
        support_timeout = true;
        counters = forward_counter;
        default_action = NoAction();
    }
    table lpm_table {
        key = {
            hdr.ethernet.src: lpm;
            sm.ingress_port: exact;
        }
        actions = { forward; flood; to_cpu; drop; NoAction; }
        size = 65536;
        default_action = NoAction();
    }
    table ternary_table {
        key = {
            hdr.ethernet.src: ternary;
            hdr.ethernet.ether_type: range;
            hdr.ethernet.dst: optional;
        }
        actions = { forward; to_cpu; drop; @tableonly tag; NoAction; }
        size = 128;
        default_action = NoAction();
    }
    table const_table {
        key = {
            hdr.ethernet.ether_type: ternary;
        }
        actions = { to_cpu; NoAction; }
        const entries = {
            0x88cc &&& 0xffff: to_cpu();
            0x8800 &&& 0xff00: NoAction();
        }
        const default_action = NoAction();
    }
    table police_table {
        key = {
            sm.ingress_port: exact;
        }
        actions = { police; NoAction; }
        meters = police_meter;
        default_action = NoAction();
    }
    table learn_table {
        key = {
            hdr.ethernet.src: exact;
        }
        actions = { learn; NoAction; }
        default_action = NoAction();
    }
    action_selector(HashAlgorithm.crc16, 64, 16) ecmp;
    table select_table {
        key = {
            hdr.ethernet.ether_type: exact;
            hdr.ethernet.src: selector;
        }
        actions = { forward; drop; NoAction; }
        implementation = ecmp;
    }
    action_profile(16) vlan_actions;
    table profile_table {
        key = {
            hdr.vlan.vid: exact;
        }
        actions = { forward; drop; NoAction; }
        implementation = vlan_actions;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            port_counter.count((bit<32>) sm.ingress_port);
            port_meter.execute_meter((bit<32>) (sm.ingress_port & 7), meta.color);
            bit<32> count;
            seen.read(count, (bit<32>) sm.ingress_port);
            seen.write((bit<32>) sm.ingress_port, count + 1);
            int<20> shift;
            offset.read(shift, 0);
            offset.write(1, shift + 1);
            police_table.apply();
            learn_table.apply();
            lpm_table.apply();
            exact_table.apply();
            ternary_table.apply();
            const_table.apply();
            select_table.apply();
            if (hdr.vlan.isValid()) {
                profile_table.apply();
            }
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = sm.ingress_port;
            hdr.packet_in.pad = 0;
        }
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
