// PNA where ports say the direction: no pre control, and the deparser may write headers
#include <core.p4>
#include <tc/pna.p4>
header tag { bit<32> from; bit<32> to; PortIdInHeader_t port; }
struct headers { tag outer; }
struct data { }
parser reads(packet_in bytes, out headers all, inout data own, in pna_main_parser_input_metadata_t about) {
    state start {
        bytes.extract(all.outer);
        transition select(about.recirculated) {
            true: accept;
            default: reject;
        }
    }
}
control works(inout headers all, inout data own, in pna_main_input_metadata_t about, inout pna_main_output_metadata_t out_about) {
    action known(@tc_type("dev") PortId_t port) {
        send_to_port(port);
        set_entry_expire_time_if(true, (ExpireTimeProfileId_t) (ExpireTimeProfileIdUint_t) 1);
    }
    action fresh() {
        bit<8> unused_data = 0;
        if (add_entry("known", { (PortId_t) 32w3 }, (ExpireTimeProfileId_t) 8w2) != ADD_ENTRY_SUCCESS) {
            drop_packet();
        }
    }
    table addresses {
        key = { SelectByDirection(is_net_port(about.input_port), all.outer.from, all.outer.to): exact @name("address"); }
        actions = { known; @defaultonly fresh; }
        default_action = fresh;
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
    }
    apply {
        skb_get_meta();
        skb_set_mark(skb_get_mark() | 1);
        skb_set_meta();
        all.outer.port = pna_PortId_int_to_header(about.input_port);
        addresses.apply();
    }
}
control writes(packet_out bytes, inout headers all, in data own, in pna_main_output_metadata_t about) {
    apply {
        all.outer.from = 0;
        bytes.emit(all.outer);
    }
}
PNA_NIC(reads(), works(), writes()) main;
