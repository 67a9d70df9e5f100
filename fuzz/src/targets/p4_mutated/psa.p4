header h_t { bit<8> a; bit<16> b; bit<8> c; }
struct H { h_t h; }
struct M { bit<8> a; bit<16> b; }
struct N { }
parser IP(packet_in b, out H h, inout M m, in psa_ingress_parser_input_metadata_t i, in N r, in N c) {
    InternetChecksum() ck;
    state start { b.extract(h.h); ck.clear(); ck.add({ h.h.a, h.h.c }); m.b = ck.get(); transition accept; }
}
control I(inout H h, inout M m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    Counter<bit<32>, bit<8>>(8, PSA_CounterType_t.PACKETS) c;
    Meter<bit<8>>(8, PSA_MeterType_t.BYTES) me;
    Register<bit<16>, bit<8>>(8, 3) r;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) ha;
    ActionSelector(PSA_HashAlgorithm_t.CRC32, 16, 16) as;
    action go(PortId_t p) { send_to_port(o, p); c.count(h.h.a); }
    action copy(MulticastGroup_t g) { multicast(o, g); }
    table t { key = { h.h.a: exact; h.h.b: selector; } actions = { go; copy; NoAction; } psa_implementation = as; }
    apply {
        if (i.parser_error != error.NoError) { ingress_drop(o); return; }
        t.apply();
        m.b = r.read(h.h.c) + ha.get_hash({ h.h.a, h.h.b });
        r.write(h.h.c, m.b);
        if (me.execute(h.h.a) == PSA_MeterColor_t.RED) { o.drop = true; } else { o.clone = true; o.clone_session_id = (CloneSessionId_t) 3; }
    }
}
control ID(packet_out b, out N c, out N r, out N n, inout H h, in M m, in psa_ingress_output_metadata_t o) { apply { b.emit(h.h); } }
parser EP(packet_in b, out H h, inout M m, in psa_egress_parser_input_metadata_t i, in N n, in N c, in N d) { state start { b.extract(h.h); transition accept; } }
control E(inout H h, inout M m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) { apply { h.h.a = h.h.a + 1; o.drop = h.h.b == 0; } }
control ED(packet_out b, out N c, out N r, inout H h, in M m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t i) { apply { b.emit(h); } }
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
