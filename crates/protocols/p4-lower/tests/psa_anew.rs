//! PSA's packet tests whose sources are not among the shared ones: their programs, written anew by what the reference compiler
//! made of them, leave the packets of the tests.

use barewire_p4::ir::Program;
use barewire_p4_formats::export::export;
use barewire_p4_formats::import::import;
use barewire_p4_lower::from_source;
use barewire_p4_source::Options;
use barewire_p4_source::resolve::MemoryFiles;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::stf;
use std::sync::Arc;

/// What a program has that others have not.
#[derive(Clone, Copy)]
struct Parts {
    /// Headers beside Ethernet: their types, and their fields in the struct of headers.
    types: &'static str,
    fields: &'static str,
    /// States of the parsers from their first statement on.
    ingress_parser: &'static str,
    egress_parser: &'static str,
    /// What stands in front of `apply`, and in it.
    ingress: (&'static str, &'static str),
    egress: (&'static str, &'static str),
    /// Headers that are emitted.
    ingress_emits: &'static str,
    egress_emits: &'static str,
}

const ETHERNET: Parts = Parts {
    types: "",
    fields: "",
    ingress_parser: "b.extract(h.ethernet); transition accept; }",
    egress_parser: "b.extract(h.ethernet); transition accept; }",
    ingress: ("", ""),
    egress: ("", ""),
    ingress_emits: "b.emit(h.ethernet);",
    egress_emits: "b.emit(h.ethernet);",
};

const WORDS: &str = "header output_data_t { bit<32> word0; bit<32> word1; bit<32> word2; bit<32> word3; }";

fn source(parts: &Parts) -> String {
    let Parts { types, fields, ingress_parser, egress_parser, ingress, egress, ingress_emits, egress_emits } =
        parts;
    format!(
        "#include <core.p4>\n#include <bmv2/psa.p4>\n\
         header ethernet_t {{ bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }}\n{types}\n\
         struct none_t {{ }}\nstruct headers_t {{ ethernet_t ethernet; {fields} }}\n\
         parser cIngressParser(packet_in b, out headers_t h, inout none_t m, in psa_ingress_parser_input_metadata_t i,\n\
           in none_t resubmitted, in none_t recirculated) {{ state start {{ {ingress_parser} }}\n\
         control cIngress(inout headers_t h, inout none_t m, in psa_ingress_input_metadata_t i,\n\
           inout psa_ingress_output_metadata_t o) {{ {} apply {{ {} }} }}\n\
         control cIngressDeparser(packet_out b, out none_t cloned, out none_t resubmitted, out none_t normal,\n\
           inout headers_t h, in none_t m, in psa_ingress_output_metadata_t i) {{ apply {{ {ingress_emits} }} }}\n\
         parser cEgressParser(packet_in b, out headers_t h, inout none_t m, in psa_egress_parser_input_metadata_t i,\n\
           in none_t normal, in none_t from_ingress, in none_t from_egress) {{ state start {{ {egress_parser} }}\n\
         control cEgress(inout headers_t h, inout none_t m, in psa_egress_input_metadata_t i,\n\
           inout psa_egress_output_metadata_t o) {{ {} apply {{ {} }} }}\n\
         control cEgressDeparser(packet_out b, out none_t cloned, out none_t recirculated, inout headers_t h,\n\
           in none_t m, in psa_egress_output_metadata_t i, in psa_egress_deparser_input_metadata_t d)\n\
           {{ apply {{ {egress_emits} }} }}\n\
         IngressPipeline(cIngressParser(), cIngress(), cIngressDeparser()) ip;\n\
         EgressPipeline(cEgressParser(), cEgress(), cEgressDeparser()) ep;\n\
         PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;\n",
        ingress.0, ingress.1, egress.0, egress.1
    )
}

/// Each test by its name.
fn programs() -> [(&'static str, Parts); 7] {
    [
        (
            "psa-drop-all-corrected-bmv2",
            Parts {
                types: "header ipv4_t { bit<4> version; bit<4> ihl; bit<8> diffserv; bit<16> totalLen;\n\
                        bit<16> identification; bit<3> flags; bit<13> fragOffset; bit<8> ttl; bit<8> protocol;\n\
                        bit<16> hdrChecksum; bit<32> srcAddr; bit<32> dstAddr; }",
                fields: "ipv4_t ipv4;",
                ingress_parser: "b.extract(h.ethernet);\n\
                                 transition select(h.ethernet.etherType) { 0x0800: parse_ipv4; default: accept; } }\n\
                                 state parse_ipv4 { b.extract(h.ipv4); transition accept; }",
                egress_parser: "b.extract(h.ethernet); b.extract(h.ipv4); transition accept; }",
                ingress_emits: "b.emit(h);",
                egress_emits: "b.emit(h);",
                ..ETHERNET
            },
        ),
        (
            "psa-e2e-cloning-basic-bmv2",
            Parts {
                ingress: (
                    "",
                    "if (h.ethernet.dstAddr == 8 && i.packet_path != PSA_PacketPath_t.RECIRCULATE) {\n\
                     send_to_port(o, PSA_PORT_RECIRCULATE); } else {\n\
                     send_to_port(o, (PortId_t) (PortIdUint_t) h.ethernet.dstAddr); }",
                ),
                egress: (
                    "action clone() { o.clone = true; o.clone_session_id = (CloneSessionId_t) 8; }",
                    "if (i.packet_path == PSA_PacketPath_t.CLONE_E2E) { h.ethernet.etherType = 0xface; } else {\n\
                     clone();\n\
                     if (h.ethernet.dstAddr == 9) { egress_drop(o); o.clone_session_id = (CloneSessionId_t) 9; }\n\
                     if (i.egress_port == PSA_PORT_RECIRCULATE) { h.ethernet.srcAddr = 0xbeef;\n\
                     o.clone_session_id = (CloneSessionId_t) 10; } else {\n\
                     if (h.ethernet.dstAddr == 8) { o.clone_session_id = (CloneSessionId_t) 11; }\n\
                     h.ethernet.srcAddr = 0xcafe; } }",
                ),
                ..ETHERNET
            },
        ),
        (
            "psa-fwd-bmv2",
            Parts {
                ingress_parser: "transition next; } state next { b.extract(h.ethernet); transition accept; }",
                ..ETHERNET
            },
        ),
        (
            "psa-register-complex-bmv2",
            Parts {
                ingress: (
                    "Register<bit<48>, bit<32>>(128) regfile;",
                    "regfile.write(1, 3); regfile.write(2, 4);\n\
                     h.ethernet.dstAddr = regfile.read(1) + regfile.read(2) - 5;\n\
                     if (h.ethernet.dstAddr == 2) { send_to_port(o, (PortId_t) (PortIdUint_t) h.ethernet.dstAddr); }",
                ),
                ..ETHERNET
            },
        ),
        (
            "psa-register-read-write-2-bmv2",
            Parts {
                types: WORDS,
                fields: "output_data_t output_data;",
                ingress_parser: "b.extract(h.ethernet); b.extract(h.output_data); transition accept; }",
                egress_parser: "transition accept; }",
                ingress: (
                    "Register<bit<16>, bit<8>>(6) reg;",
                    "if (h.ethernet.isValid()) {\n\
                     bit<16> orig; bit<16> next; bit<8> command = h.ethernet.dstAddr[15:8];\n\
                     if (command >= 1 && command <= 3) { orig = reg.read(h.ethernet.dstAddr[7:0]); }\n\
                     if (command == 1) { next = h.ethernet.dstAddr[47:32]; }\n\
                     else if (command == 2) { next = orig; }\n\
                     else if (command == 3) { next = orig + 1; }\n\
                     else { orig = 0xdead; next = 0xbeef; }\n\
                     reg.write(h.ethernet.dstAddr[7:0], next);\n\
                     h.output_data.word0 = (bit<32>) orig; h.output_data.word1 = (bit<32>) next; }\n\
                     send_to_port(o, (PortId_t) 32w1);",
                ),
                ingress_emits: "b.emit(h.ethernet); b.emit(h.output_data);",
                egress_emits: "",
                ..ETHERNET
            },
        ),
        (
            "psa-register-read-write-bmv2",
            Parts {
                ingress: (
                    "Register<bit<48>, bit<32>>(128) regfile;",
                    "regfile.write(1, 3); h.ethernet.dstAddr = regfile.read(1);\n\
                     send_to_port(o, (PortId_t) (PortIdUint_t) h.ethernet.dstAddr);\n\
                     if (h.ethernet.dstAddr == 0) { ingress_drop(o); }",
                ),
                ..ETHERNET
            },
        ),
        (
            "psa-resubmit-bmv2",
            Parts {
                types: WORDS,
                fields: "output_data_t output_data;",
                ingress_parser: "b.extract(h.ethernet); b.extract(h.output_data); transition accept; }",
                ingress: (
                    "action path() { h.output_data.word0 = 8;\n\
                     if (i.packet_path == PSA_PacketPath_t.NORMAL) { h.output_data.word0 = 1; }\n\
                     else if (i.packet_path == PSA_PacketPath_t.RESUBMIT) { h.output_data.word0 = 6; } }",
                    "o.drop = false;\n\
                     if (i.packet_path != PSA_PacketPath_t.RESUBMIT) { h.ethernet.srcAddr = 256; o.resubmit = true; }\n\
                     else { h.ethernet.etherType = 0xf00d; send_to_port(o, (PortId_t) (PortIdUint_t) h.ethernet.dstAddr);\n\
                     path(); }",
                ),
                ingress_emits: "b.emit(h.ethernet); b.emit(h.output_data);",
                egress_emits: "b.emit(h.ethernet); b.emit(h.output_data);",
                ..ETHERNET
            },
        ),
    ]
}

fn run(program: Program, kind: EngineKind, test: &str) -> Result<(), String> {
    let prepared = Prepared::new(Arc::new(program), kind).map_err(|e| format!("prepare: {e}"))?;
    let outcome =
        stf::run(Arc::new(prepared), TargetConfig::default(), test).map_err(|e| format!("run: {e}"))?;
    if outcome.passed() { Ok(()) } else { Err(outcome.wrong.join("; ")) }
}

#[test]
fn programs_written_anew_leave_the_packets_of_their_tests() {
    let Some(folder) = barewire_testing::shared("data/p4/psa") else { return };
    for (name, parts) in programs() {
        let text = source(&parts);
        let read = from_source(&MemoryFiles::one("a.p4", text.as_str()), &Options::default(), "a.p4");
        let Some(program) = read.made.flatten() else {
            let found: Vec<&str> = read.found.iter().map(|d| d.message.as_str()).collect();
            panic!("{name}: {found:?}\n{text}");
        };
        let json = export(&program).unwrap_or_else(|why| panic!("{name}: {why}"));
        let again = import(&json).unwrap_or_else(|error| panic!("{name}: our JSON: {error}"));
        let test = std::fs::read_to_string(folder.join(format!("{name}.stf"))).expect("it stands there");
        for (how, program, kind) in [
            ("interpreter", &program, EngineKind::Interpreter),
            ("native", &program, EngineKind::Native),
            ("from our JSON", &again, EngineKind::Native),
        ] {
            if let Err(why) = run(program.clone(), kind, &test) {
                panic!("{name}, {how}: {why}\n{text}");
            }
        }
    }
}
