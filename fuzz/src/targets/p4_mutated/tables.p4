header eth { bit<48> dst; bit<48> src; bit<16> type; }
header ip { bit<4> v; bit<4> l; bit<8> ttl; bit<16> sum; bit<32> src; bit<32> dst; }
struct H { eth e; ip i; }
struct M { bit<32> hop; bit<8> color; bit<16> x; bool flag; }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
    state start { b.extract(h.e); transition select(h.e.type) { 0x800: more; 0x900 &&& 0xff00: more; default: accept; } }
    state more { b.extract(h.i); transition accept; }
}
control V(inout H h, inout M m) { apply { verify_checksum(h.i.isValid(), { h.i.v, h.i.l, h.i.ttl, h.i.src, h.i.dst }, h.i.sum, HashAlgorithm.csum16); } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    counter(16, CounterType.packets_and_bytes) c;
    direct_counter(CounterType.packets) dc;
    meter(16, MeterType.bytes) me;
    direct_meter<bit<8>>(MeterType.packets) dm;
    register<bit<16>>(32) r;
    action_selector(HashAlgorithm.crc16, 32, 14) as;
    action drop() { mark_to_drop(s); }
    action go(bit<9> port, bit<32> hop) { s.egress_spec = port; m.hop = hop; h.i.ttl = h.i.ttl - 1; c.count((bit<32>) port); }
    action set(inout bit<16> y, bit<16> v) { y = y ^ v; r.read(m.x, (bit<32>) v); r.write((bit<32>) v, m.x + 1); }
    action colored() { dm.read(m.color); me.execute_meter(m.hop, m.color); }
    table lpm_t { key = { h.i.dst: lpm; } actions = { go; drop; NoAction; } default_action = drop(); size = 64; counters = dc; }
    table ternary_t {
        key = { h.e.dst: ternary; h.i.isValid(): exact; s.ingress_port: range; m.x[7:0]: optional @name("low"); }
        actions = { set(m.x); colored; @defaultonly NoAction; }
        const default_action = NoAction();
        meters = dm;
    }
    table exact_t {
        key = { h.e.type: exact; h.e.src + 1: exact @name("next"); }
        actions = { go; drop; }
        const entries = { (0x800, 1): go(1, 2); (0x900, 0xff): drop(); }
        default_action = go(3, 4);
    }
    table wild {
        key = { h.i.src: ternary; }
        actions = { go; drop; }
        entries = { priority = 1: 0x0a000000 &&& 0xff000000: drop(); priority = 3: 7: go(1, 1); priority = 9: _: go(2, 2); }
    }
    table chosen { key = { h.i.dst: lpm; h.i.src: selector; } actions = { go; drop; } implementation = as; }
    apply {
        if (h.i.isValid() && h.i.ttl > 1 && s.checksum_error == 0) {
            if (lpm_t.apply().hit) { exact_t.apply(); } else { wild.apply(); }
            switch (chosen.apply().action_run) { go: { m.x = 1; } drop: { exit; } default: { m.flag = true; } }
        } else { drop(); }
        if (!ternary_t.apply().miss || m.flag) { set(m.x, 5); return; }
        go(2, 3);
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { if (s.egress_port == s.ingress_port) mark_to_drop(s); } }
control C(inout H h, inout M m) { apply { update_checksum(h.i.isValid(), { h.i.v, h.i.l, h.i.ttl, h.i.src, h.i.dst }, h.i.sum, HashAlgorithm.csum16); } }
control D(packet_out b, in H h) { apply { b.emit(h.e); b.emit(h.i); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
