//! What bmv2 1.15 demands of JSON beyond what our own import does: it looks for an operation in an `expression`, takes numbers
//! as parameters of primitives, refuses constant actions of tables with members, knows no optional keys, and finds headers
//! of different types different. What is otherwise crashes or ends it.

use barewire_p4::ir::MatchKind;
use barewire_p4::key::MatchParam;
use barewire_p4_formats::export::export;
use barewire_p4_formats::import::import;
use barewire_p4_lower::from_source;
use barewire_p4_source::Options;
use barewire_p4_source::resolve::MemoryFiles;
use serde_json::Value;

fn json_of(parser: &str, ingress: &str) -> Value {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header h_t {{ bit<8> a; bit<8> b; }}\nheader v_t {{ bit<8> a; varbit<32> b; }}\nstruct headers {{ h_t h; v_t v; }}\nstruct meta {{ bit<8> m; }}\n\
         parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {{ {parser} }}\n\
         control V(inout headers hdr, inout meta m) {{ apply {{ }} }}\n\
         control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {{ {ingress} }}\n\
         control E(inout headers hdr, inout meta m, inout standard_metadata_t s) {{ apply {{ }} }}\n\
         control C(inout headers hdr, inout meta m) {{ apply {{ }} }}\n\
         control D(packet_out p, in headers hdr) {{ apply {{ p.emit(hdr); }} }}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    );
    let read = from_source(&MemoryFiles::one("a.p4", &text), &Options::default(), "a.p4");
    let program = read.made.flatten().unwrap_or_else(|| panic!("it is lowered:\n{text}"));
    serde_json::from_str(&export(&program).expect("it is written")).expect("it is JSON")
}

const EXTRACTS: &str = "state start { p.extract(hdr.h); transition accept; }";

/// All objects of the document.
fn all<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            out.push(value);
            object.values().for_each(|value| all(value, out));
        }
        Value::Array(list) => list.iter().for_each(|value| all(value, out)),
        _ => {}
    }
}

fn objects(value: &Value) -> Vec<&Value> {
    let mut out = Vec::new();
    all(value, &mut out);
    out
}

/// bmv2 computes it as it stands, so an `expression` has its operation at once.
fn is_condition(value: &Value) -> bool {
    value["type"] == "bool" || value["value"]["op"].is_string()
}

#[test]
fn conditions_are_not_wrapped_once_more() {
    let parser = "state start { p.extract(hdr.h); verify(hdr.h.a > 1, error.HeaderTooShort); verify(false, error.NoMatch);\n\
                  transition select(hdr.h.b) { 1: accept; 2: start; } }";
    let json = json_of(parser, "apply { if (hdr.h.isValid() && hdr.h.a == 3) { s.egress_spec = 1; } }");
    let verified: Vec<&Value> =
        objects(&json).into_iter().filter(|o| o["op"] == "verify").map(|o| &o["parameters"][0]).collect();
    // The third is that of a selection that nothing fits.
    assert_eq!(verified.len(), 3);
    assert!(verified.iter().all(|value| is_condition(value)), "{verified:#?}");
    let conditions = json["pipelines"][0]["conditionals"].as_array().expect("conditions");
    assert_eq!(conditions.len(), 1);
    assert!(is_condition(&conditions[0]["expression"]), "{conditions:#?}");
}

#[test]
fn assertions_take_numbers() {
    let json = json_of(EXTRACTS, "apply { assert(hdr.h.a == 1); assume(hdr.h.isValid()); }");
    let calls: Vec<&Value> =
        objects(&json).into_iter().filter(|o| o["op"] == "assert" || o["op"] == "assume").collect();
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(call["parameters"][0]["value"]["value"]["op"], "b2d", "{call:#?}");
    }
}

#[test]
fn a_table_with_members_has_no_constant_action() {
    let ingress = "action set(bit<9> port) { s.egress_spec = port; }\n\
                   table t { key = { hdr.h.a: exact; } actions = { set; NoAction; } const default_action = NoAction();\n\
                     implementation = action_profile(16); }\n\
                   table u { key = { hdr.h.a: exact; } actions = { set; NoAction; } const default_action = NoAction(); }\n\
                   apply { t.apply(); u.apply(); }";
    let json = json_of(EXTRACTS, ingress);
    let tables = json["pipelines"][0]["tables"].as_array().expect("tables");
    let constant = |name: &str| {
        let table = tables.iter().find(|t| t["name"] == name).expect("the table is there");
        (table["type"].as_str().expect("a type"), table["default_entry"]["action_const"] == true)
    };
    assert_eq!(constant("I.t"), ("indirect", false));
    assert_eq!(constant("I.u"), ("simple", true));
}

#[test]
fn an_optional_key_is_written_as_a_ternary_one_and_comes_back_as_optional() {
    let ingress = "action set(bit<9> port) { s.egress_spec = port; }\n\
                   table t { key = { hdr.h.a: optional; hdr.h.b: ternary; } actions = { set; NoAction; }\n\
                     const entries = { (7, 1 &&& 3): set(1); (_, _): set(2); } }\n\
                   apply { t.apply(); }";
    let json = json_of(EXTRACTS, ingress);
    let table = &json["pipelines"][0]["tables"][0];
    let kinds = |list: &Value| -> Vec<String> {
        let list = list.as_array().expect("a list").iter();
        list.map(|key| key["match_type"].as_str().expect("a kind").to_owned()).collect()
    };
    assert_eq!(table["match_type"], "ternary");
    assert_eq!(kinds(&table["key"]), ["ternary", "ternary"]);
    let entries = table["entries"].as_array().expect("entries");
    let masks: Vec<&Value> = entries.iter().map(|entry| &entry["match_key"][0]["mask"]).collect();
    assert_eq!(masks, ["0xff", "0x00"]);
    assert!(entries.iter().all(|entry| kinds(&entry["match_key"]) == ["ternary", "ternary"]), "{entries:#?}");

    let program = import(&json.to_string()).expect("it is read back");
    let table = &program.tables[0];
    let kinds: Vec<MatchKind> = table.key.iter().map(|key| key.kind).collect();
    assert_eq!(kinds, [MatchKind::Optional, MatchKind::Ternary]);
    let masks: Vec<u32> = table
        .entries
        .iter()
        .map(|entry| match &entry.key[0] {
            MatchParam::Ternary { mask, .. } => mask.count_ones() as u32,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(masks, [8, 0]);
    // A mask in between is no optional entry.
    let mut changed = json;
    changed["pipelines"][0]["tables"][0]["entries"][0]["match_key"][0]["mask"] = "0x0f".into();
    let error = import(&changed.to_string()).expect_err("it is refused").to_string();
    assert!(error.contains("the mask is 0 or all 8 bits"), "{error}");
}

#[test]
fn varbits_that_are_compared_have_one_type() {
    let parser = "state start { p.extract(hdr.v, 16); transition accept; }";
    let ingress = "apply { v_t k = hdr.v; if (hdr.v.b == k.b) { s.egress_spec = 1; } }";
    let json = json_of(parser, ingress);
    let compared: Vec<&str> = objects(&json)
        .into_iter()
        .filter(|o| o["op"] == "==" && o["left"]["type"] == "header")
        .flat_map(|o| [&o["left"]["value"], &o["right"]["value"]])
        .map(|name| name.as_str().expect("a name"))
        .collect();
    assert_eq!(compared.len(), 2, "{compared:?}");
    let headers = json["headers"].as_array().expect("headers");
    let ty =
        |name: &str| &headers.iter().find(|h| h["name"] == name).expect("the header is there")["header_type"];
    assert_eq!(ty(compared[0]), ty(compared[1]));
}

/// A program of PSA whose ingress does this, and whose deparsers, one control applied by both, do that.
fn psa(ingress: &str, deparser: &str) -> Result<Value, String> {
    let text = format!(
        "#include <core.p4>\n#include <psa.p4>\n\
         header h_t {{ bit<8> a; bit<8> b; }}\nstruct headers {{ h_t h; h_t i; }}\nstruct empty {{ }}\n\
         parser IP(packet_in p, out headers hdr, inout empty m, in psa_ingress_parser_input_metadata_t s,\n\
             in empty r, in empty c) {{ state start {{ p.extract(hdr.h); p.extract(hdr.i); transition accept; }} }}\n\
         control I(inout headers hdr, inout empty m, in psa_ingress_input_metadata_t s,\n\
             inout psa_ingress_output_metadata_t o) {{ {ingress} }}\n\
         control D(packet_out p, inout headers hdr) {{ {deparser} }}\n\
         control ID(packet_out p, out empty a, out empty b, out empty c, inout headers hdr, in empty m,\n\
             in psa_ingress_output_metadata_t o) {{ D() d; apply {{ d.apply(p, hdr); }} }}\n\
         parser EP(packet_in p, out headers hdr, inout empty m, in psa_egress_parser_input_metadata_t s,\n\
             in empty n, in empty i, in empty e) {{ state start {{ p.extract(hdr.h); transition accept; }} }}\n\
         control E(inout headers hdr, inout empty m, in psa_egress_input_metadata_t s,\n\
             inout psa_egress_output_metadata_t o) {{ apply {{ }} }}\n\
         control ED(packet_out p, out empty a, out empty b, inout headers hdr, in empty m,\n\
             in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t e) {{ D() d; apply {{ d.apply(p, hdr); }} }}\n\
         IngressPipeline(IP(), I(), ID()) ip;\nEgressPipeline(EP(), E(), ED()) ep;\n\
         PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;\n"
    );
    let read = from_source(&MemoryFiles::one("a.p4", &text), &Options::default(), "a.p4");
    let program = read.made.flatten().unwrap_or_else(|| panic!("it is lowered:\n{text}"));
    let json = export(&program).map_err(|e| e.to_string())?;
    assert!(import(&json).is_ok(), "it is read again");
    Ok(serde_json::from_str(&json).expect("it is JSON"))
}

const EMITS: &str = "apply { p.emit(hdr.h); p.emit(hdr.i); }";

/// `psa_switch` has primitives for counters and meters that are externs only.
#[test]
fn counters_and_meters_of_psa_are_externs() {
    let ingress = "Counter<bit<32>, bit<8>>(64, PSA_CounterType_t.BYTES) count; Meter<bit<8>>(32, PSA_MeterType_t.BYTES) rate;\n\
                   apply { count.count(hdr.h.a); if (rate.execute(hdr.h.b) == PSA_MeterColor_t.RED) { ingress_drop(o); } }";
    let json = psa(ingress, EMITS).unwrap();
    let externs: Vec<_> = json["extern_instances"].as_array().unwrap().iter().collect();
    let of = |kind: &str| externs.iter().find(|e| e["type"] == kind).unwrap_or_else(|| panic!("{externs:?}"));
    let attribute = |kind: &str, name: &str| {
        let list = of(kind)["attribute_values"].as_array().unwrap();
        list.iter().find(|a| a["name"] == name).map(|a| a["value"].clone()).unwrap()
    };
    assert_eq!(
        (attribute("Counter", "n_counters"), attribute("Meter", "n_meters")),
        ("0x40".into(), "0x20".into())
    );
    assert_eq!(attribute("Meter", "type"), "bytes");
    assert!(json["meter_arrays"].as_array().unwrap().is_empty());
    // Commands find it there.
    assert_eq!(json["counter_arrays"][0]["name"], of("Counter")["name"]);
    let all = objects(&json["actions"]);
    for (op, kind) in [("_Counter_count", "Counter"), ("_Meter_execute", "Meter")] {
        let call = all.iter().find(|o| o["op"] == op).unwrap_or_else(|| panic!("no {op}: {json}"));
        assert_eq!(
            (&call["parameters"][0]["type"], &call["parameters"][0]["value"]),
            (&"extern".into(), &of(kind)["name"])
        );
    }
}

/// bmv2 makes room for the headers of a deparser before it does what the deparser says, and writes beyond it if they are longer then.
#[test]
fn what_a_deparser_emits_is_settled_before() {
    let json = psa("apply { send_to_port(o, (PortId_t) 1); }", EMITS).unwrap();
    for deparser in json["deparsers"].as_array().unwrap() {
        assert_eq!(
            deparser["primitives"],
            Value::Array(Vec::new()),
            "a control that both apply emits the headers themselves"
        );
        assert_eq!(deparser["order"], serde_json::json!(["h", "i"]));
    }
    let changes = psa("apply { }", "apply { p.emit(hdr.h); hdr.i.setInvalid(); p.emit(hdr.i); }");
    let why = changes.expect_err("its length would change");
    assert!(why.contains("bmv2 makes room for them before"), "{why}");
}
