//! What is wrong with a file is said with its place and, where there is one, the right word.

mod import_common;

use barewire_p4::ir::{CalcInput, Expr, FieldRef, HeaderId, HeaderRef, ListItem, StackId};
use barewire_p4_formats::import::{ImportError, MAX_NESTING, import, import_with_notes};
use import_common::{base, doing, field, hex, op, patch, read, refusal, with, without};
use serde_json::{Value, json};

#[track_caller]
fn refused(program: &Value, path: &str, text: &str) {
    let error = refusal(program);
    let place = error.place().expect("a place");
    assert_eq!(place.path, path, "{error}");
    assert!(place.at.line > 0 && place.at.column > 0);
    assert!(error.to_string().contains(text), "{error}\n  should contain: {text}");
}

#[test]
fn the_base_itself_imports() {
    let program = read(&base());
    assert_eq!(program.name, "hand.p4");
    assert_eq!(program.tables.len(), 1);
}

#[test]
fn syntax_errors_have_line_and_column() {
    let error = import("{\n  \"a\": tru\n}").unwrap_err();
    assert_eq!(error.to_string(), "not JSON: line 2, column 8: expected a value, found 't'");
    let deep = "[".repeat(MAX_NESTING + 2);
    assert!(matches!(import(&deep), Err(ImportError::Syntax { at, .. }) if at.line == 1));
    let error = import("{\"é\": 1, \"é\": 2}").unwrap_err();
    assert_eq!(error.to_string(), "not JSON: line 1, column 10: the object has two members named 'é'");
    assert!(import("").is_err());
    assert!(import("[]").unwrap_err().to_string().contains("expected an object"));
}

#[test]
fn unknown_members_are_noted() {
    let text = serde_json::to_string(&with("/acions", json!([]))).unwrap();
    let (_, notes) = import_with_notes(&text).unwrap();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].to_string().ends_with("'acions' is not part of the format, did you mean 'actions'?"));
    assert_eq!(notes[0].place.path, "acions");
    let text = serde_json::to_string(&with("/__meta__/version", json!([2, 99]))).unwrap();
    assert!(import_with_notes(&text).unwrap().1[0].text.contains("2.99 is newer than 2.24"));
}

#[test]
fn places_have_path_name_line_and_column() {
    let text = serde_json::to_string_pretty(&with("/pipelines/0/tables/0/key/1/target/0", json!("ethernt")))
        .unwrap();
    let error = import(&text).unwrap_err();
    let place = error.place().unwrap();
    assert_eq!(place.path, "pipelines[0].tables[0].key[1].target[0]");
    assert_eq!(place.name.as_deref(), Some("dst"));
    let line = text.lines().nth(place.at.line as usize - 1).unwrap();
    assert_eq!(&line[place.at.column as usize - 1..], "\"ethernt\",");
    assert!(error.to_string().ends_with("unknown header 'ethernt', did you mean 'ethernet'?"), "{error}");
}

#[test]
fn versions_and_targets() {
    refused(&with("/__meta__/version", json!([3, 0])), "__meta__.version", "version 3.0");
    refused(&with("/__meta__/version", json!([2])), "__meta__.version", "expected 2, found 1");
    refused(&with("/parsers/0/name", json!("main_parser")), "parsers", "Portable NIC");
    refused(&with("/parsers/0/name", json!("ingress_parser")), "parsers", "no 'egress_parser'");
    refused(&with("/parsers/0/name", json!("parse")), "parsers", "no 'parser'");
    refused(&with("/pipelines/1/name", json!("out")), "pipelines", "no 'egress'");
    refused(
        &with("/header_types/0/fields/0/0", json!("port")),
        "headers",
        "the target needs a field 'standard_metadata.ingress_port'",
    );
    for primitive in ["drop_packet", "send_to_port", "mirror_packet", "add_entry"] {
        let program = doing(json!([{"op": primitive, "parameters": []}]));
        let text = format!("primitive '{primitive}' is not supported: it belongs to the Portable NIC");
        refused(&program, "actions[1].primitives[0]", &text);
    }
}

#[test]
fn headers() {
    let types = "header_types[2].fields[0]";
    refused(&with("/header_types/2/fields/0/1", json!(4097)), &format!("{types}[1]"), "the limit is 4096");
    refused(&with("/header_types/2/fields/0/1", json!(-1)), &format!("{types}[1]"), "negative");
    refused(&with("/header_types/2/fields/0/1", json!("x")), &format!("{types}[1]"), "expected an integer");
    refused(&with("/header_types/2/fields/0", json!(["dst"])), types, "expected 2 to 4, found 1");
    refused(
        &with("/header_types/2/fields/1/0", json!("dst")),
        "header_types[2].fields[1]",
        "a second field 'dst'",
    );
    refused(&with("/header_types/2/id", json!(1)), "header_types[2].id", "a second header type number '1'");
    refused(&without("/header_types/2/name"), "header_types[2]", "'name' is missing");
    refused(&with("/header_types/3/fields/0/1", json!("*")), "header_types[3]", "at most 1, found 2");
    refused(
        &with("/header_types/3/max_length", json!(0)),
        "header_types[3]",
        "is less than the other fields take",
    );
    refused(
        &with("/header_types/4/fields/2/1", json!(13)),
        "headers[4]",
        "17 bits: headers must be whole bytes",
    );
    refused(
        &with("/headers/2/header_type", json!("ethrnet_t")),
        "headers[2].header_type",
        "unknown header type 'ethrnet_t', did you mean 'ethernet_t'?",
    );
    refused(&with("/headers/3/name", json!("ethernet")), "headers[3].name", "a second header 'ethernet'");
    refused(&with("/header_stacks/0/header_ids/1", json!(44)), "header_stacks[0].header_ids[1]", "'44'");
    refused(
        &with("/header_stacks/0/header_ids/1", json!(2)),
        "header_stacks[0]",
        "not of the stack's header type",
    );
    refused(&with("/header_stacks/0/header_ids/1", json!(4)), "header_stacks[0].header_ids[1]", "already");
    refused(&with("/header_stacks/0/header_ids/1", json!(1)), "header_stacks[0].header_ids[1]", "metadata");
    refused(&with("/header_stacks/0/header_ids", json!([])), "header_stacks[0]", "without elements");
    refused(&with("/header_stacks/0/size", json!(3)), "header_stacks[0]", "expected 3, found 2");
    refused(&with("/header_unions/0/header_ids", json!([6])), "header_unions[0]", "expected 2, found 1");
    refused(
        &with("/header_unions/0/union_type", json!("v_t")),
        "header_unions[0].union_type",
        "did you mean 'u_t'?",
    );
    refused(
        &with("/header_union_stacks/0/header_union_ids", json!([1, 1])),
        "header_union_stacks[0].header_union_ids[1]",
        "in a stack already",
    );
    refused(&with("/field_aliases/0/1/1", json!("mcast")), "field_aliases[0][1][1]", "unknown field");
    refused(&with("/errors/2/1", json!(1)), "errors[2][1]", "a second error number '1'");
    refused(&with("/enums/0/entries/0", json!(["one"])), "enums[0].entries[0]", "expected 2, found 1");
}

#[test]
fn parsers() {
    let start = "parsers[0].parse_states[0]";
    let op = |value: Value| with("/parsers/0/parse_states/0/parser_ops/0", value);
    refused(
        &with("/parsers/0/init_state", json!("strat")),
        "parsers[0].init_state",
        "unknown parse state 'strat', did you mean 'start'?",
    );
    refused(
        &with("/parsers/0/parse_states/0/transitions/0/next_state", json!("tag")),
        &format!("{start}.transitions[0].next_state"),
        "did you mean 'tags'?",
    );
    refused(
        &with("/parsers/0/parse_states/0/transitions/0/value", json!("0x810000")),
        &format!("{start}.transitions[0].value"),
        "expected 2, found 3",
    );
    refused(
        &with("/parsers/0/parse_states/0/transitions/0/mask", json!("0xff")),
        &format!("{start}.transitions[0].mask"),
        "expected 2, found 1",
    );
    refused(
        &with("/parsers/0/parse_states/0/transitions/0/type", json!("hex")),
        &format!("{start}.transitions[0].type"),
        "unknown transition type 'hex'",
    );
    refused(
        &with("/parsers/0/parse_states/0/transitions/0", json!({"type": "parse_vset", "value": "set"})),
        &format!("{start}.transitions[0].value"),
        "a value set of 28 bits tested with a key of 16 bits",
    );
    refused(
        &with("/parsers/0/parse_states/0/transition_key/0/type", json!("fields")),
        &format!("{start}.transition_key[0].type"),
        "did you mean 'field'?",
    );
    let ops = format!("{start}.parser_ops[0]");
    refused(&op(json!({"op": "extrct", "parameters": []})), &format!("{ops}.op"), "did you mean 'extract'?");
    refused(
        &op(json!({"op": "extract", "parameters": [{"type": "regular", "value": "options"}]})),
        &format!("{ops}.parameters[0]"),
        "use 'extract_VL'",
    );
    refused(
        &op(json!({"op": "extract", "parameters": [{"type": "regular", "value": "scalars"}]})),
        &format!("{ops}.parameters[0].value"),
        "metadata is never on the wire",
    );
    refused(
        &op(json!({"op": "extract", "parameters": [{"type": "union_stack", "value": ["us", "z"]}]})),
        &format!("{ops}.parameters[0].value[1]"),
        "unknown union member 'z'",
    );
    refused(
        &op(
            json!({"op": "extract_VL", "parameters": [{"type": "regular", "value": "ethernet"}, hex("0x8")]}),
        ),
        &format!("{ops}.parameters[0]"),
        "without a varbit field",
    );
    refused(
        &op(json!({"op": "set", "parameters": [hex("0x1"), hex("0x2")]})),
        &format!("{ops}.parameters[0]"),
        "expected a field to write to, found a number",
    );
    refused(
        &op(json!({"op": "verify", "parameters": [{"type": "bool", "value": true}, 99]})),
        &format!("{ops}.parameters[1]"),
        "unknown error number '99'",
    );
    refused(
        &op(json!({"op": "primitive", "parameters": [{"op": "_jump", "parameters": [hex("0x0")]}]})),
        &format!("{ops}.parameters[0]"),
        "'_jump' in a parser",
    );
    refused(
        &with("/deparsers/0/order/0", json!("ethernet2")),
        "deparsers[0].order[0]",
        "unknown header 'ethernet2', did you mean 'ethernet'?",
    );
}

#[test]
fn actions_and_expressions() {
    let at = |rest: &str| format!("actions[1].primitives[0]{rest}");
    let one = |primitive: Value| doing(json!([primitive]));
    let assign = |value: Value| one(json!({"op": "assign", "parameters": [field("scalars", "a"), value]}));
    refused(
        &one(json!({"op": "asign", "parameters": []})),
        &at(".op"),
        "unknown primitive 'asign', did you mean 'assign'?",
    );
    refused(
        &one(json!({"op": "assign", "parameters": []})),
        &at(""),
        "parameters of 'assign': expected 2, found 0",
    );
    refused(
        &assign(json!({"type": "runtime_data", "value": 1})),
        &at(".parameters[1].value"),
        "parameter 1 of",
    );
    refused(
        &assign(field("scalars", "aa")),
        &at(".parameters[1].value[1]"),
        "'scalars_t.aa', did you mean 'a'?",
    );
    refused(&assign(field("ethernet", "$valid")), &at(".parameters[1].value[1]"), "unknown field");
    refused(&assign(hex("0xgg")), &at(".parameters[1].value"), "no hexadecimal number");
    refused(&assign(hex(&"f".repeat(20_000))), &at(".parameters[1].value"), "bits of a constant is 80000");
    refused(
        &assign(json!({"type": "hexstrr", "value": "0"})),
        &at(".parameters[1].type"),
        "did you mean 'hexstr'?",
    );
    refused(
        &assign(op("plus", hex("0x1"), hex("0x1"))),
        &at(".parameters[1].value.op"),
        "unknown operator 'plus'",
    );
    refused(
        &assign(op("+", hex("0x1"), json!({"type": "header", "value": "ethernet"}))),
        &at(".parameters[1].value.right"),
        "expected a number, found a header",
    );
    refused(
        &assign(op(
            "==",
            json!({"type": "header", "value": "ethernet"}),
            json!({"type": "header", "value": "tag[0]"}),
        )),
        &at(".parameters[1].value"),
        "headers of different types",
    );
    refused(
        &assign(op("two_comp_mod", hex("0x1"), hex("0x0"))),
        &at(".parameters[1].value.right"),
        "a cast to 0 bits",
    );
    let header = json!({"type": "header", "value": "tag[0]"});
    refused(&assign(op("access_field", header, json!(4))), &at(".parameters[1].value.right"), "field 4 of");
    refused(
        &one(json!({"op": "assign", "parameters": [{"type": "runtime_data", "value": 0}, hex("0x1")]})),
        &at(".parameters[0]"),
        "an action parameter as destination is not supported",
    );
    refused(
        &one(json!({"op": "assign", "parameters": [field("ethernet", "$valid$"), hex("0x1")]})),
        &at(".parameters[0].value"),
        "is not supported",
    );
    refused(
        &one(json!({"op": "_jump", "parameters": [hex("0x3")]})),
        &at(".parameters[0]"),
        "primitive 3 of 1",
    );
    refused(
        &one(json!({"op": "_jump", "parameters": [hex("-0x1")]})),
        &at(".parameters[0]"),
        "primitive -1 of 1",
    );
    refused(
        &one(
            json!({"op": "count", "parameters": [{"type": "counter_array", "value": "countr"}, hex("0x0")]}),
        ),
        &at(".parameters[0].value"),
        "unknown counter array 'countr', did you mean 'counter'?",
    );
    refused(
        &one(json!({"op": "count", "parameters": [{"type": "meter_array", "value": "meter"}, hex("0x0")]})),
        &at(".parameters[0].type"),
        "expected counter_array, found 'meter_array'",
    );
    refused(
        &one(json!({"op": "push", "parameters": [{"type": "header", "value": "tag[0]"}, hex("0x1")]})),
        &at(".parameters[0]"),
        "'push' of something that is no stack",
    );
    refused(
        &one(json!({"op": "generate_digest", "parameters": [hex("0x0"), hex("0x9")]})),
        &at(".parameters[1].value"),
        "unknown learn list number '9'",
    );
    refused(
        &one(json!({"op": "resubmit", "parameters": [hex("0x9")]})),
        &at(".parameters[0].value"),
        "unknown field list number '9'",
    );
    refused(
        &one(json!({"op": "_Hash_get_hash", "parameters": [{"type": "extern", "value": "h"}]})),
        &at(".parameters[0].value"),
        "unknown extern instance 'h'",
    );
    refused(&one(json!({"op": "my_extern", "parameters": []})), &at(".op"), "unknown primitive 'my_extern'");
    refused(
        &one(json!({"op": "remove_header", "parameters": [{"type": "header", "value": "scalars"}]})),
        &at(""),
        "metadata is always valid",
    );
    refused(&with("/actions/1/id", json!(0)), "actions[1].id", "a second action number '0'");
    refused(
        &with("/actions/1/runtime_data/0/bitwidth", json!(5000)),
        "actions[1].runtime_data[0].bitwidth",
        "4096",
    );
}

#[test]
fn expressions_too_deep_are_refused_without_using_the_stack_up() {
    let nest = |levels: usize| {
        let mut text = String::new();
        for _ in 0..levels {
            text +=
                r#"{"type":"expression","value":{"op":"+","left":{"type":"hexstr","value":"0x1"},"right":"#;
        }
        text += r#"{"type":"hexstr","value":"0x1"}"#;
        text += &"}}".repeat(levels);
        let program = serde_json::to_string(&doing(json!([{"op": "assign", "parameters": [
            field("scalars", "a"), "HERE"]}])));
        program.unwrap().replace("\"HERE\"", &text)
    };
    // On a stack of one megabyte: half of what a thread has.
    let run = |text: String| {
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        thread.spawn(move || import(&text).map(|_| ())).unwrap().join().unwrap()
    };
    run(nest(500)).unwrap();
    let error = run(nest(520)).unwrap_err();
    assert!(error.to_string().contains("an expression's depth is 513, the limit is 512"), "{error}");
    assert!(matches!(run(nest(1000)), Err(ImportError::Syntax { .. })));
}

#[test]
fn pipelines() {
    let table = "pipelines[0].tables[0]";
    let change = |rest: &str, value: Value| with(&format!("/pipelines/0/tables/0/{rest}"), value);
    refused(
        &change("key/0/match_type", json!("exat")),
        &format!("{table}.key[0].match_type"),
        "mean 'exact'?",
    );
    refused(
        &change("match_type", json!("exact")),
        &format!("{table}.match_type"),
        "asks for a ternary lookup",
    );
    refused(&change("type", json!("simpel")), &format!("{table}.type"), "did you mean 'simple'?");
    refused(&change("type", json!("indirect")), table, "needs an 'action_profile'");
    refused(&change("max_size", json!(1_u64 << 40)), &format!("{table}.max_size"), "the limit is");
    refused(&without("/pipelines/0/tables/0/max_size"), table, "'max_size' is missing");
    refused(
        &change("action_ids/1", json!(5)),
        &format!("{table}.action_ids[1]"),
        "unknown action number '5'",
    );
    refused(
        &change("action_ids/1", json!(0)),
        &format!("{table}.action_ids[1]"),
        "a second action of the table",
    );
    refused(&change("next_tables/send", json!("nod")), &format!("{table}.next_tables.send"), "mean 'node'?");
    refused(&change("next_tables/sned", json!(null)), &format!("{table}.next_tables.sned"), "mean 'send'?");
    refused(
        &change("next_tables", json!({"NoAction": null})),
        &format!("{table}.next_tables"),
        "'send' is missing",
    );
    refused(
        &change("next_tables/__HIT__", json!(null)),
        &format!("{table}.next_tables"),
        "together and alone",
    );
    refused(&change("direct_meters", json!("meter")), &format!("{table}.direct_meters"), "not a direct one");
    refused(&change("default_entry/action_id", json!(7)), &format!("{table}.default_entry.action_id"), "'7'");
    refused(
        &change("default_entry/action_data", json!(["0x1"])),
        &format!("{table}.default_entry.action_data"),
        "arguments of action 'NoAction': expected 0, found 1",
    );
    let two = change("key/1/match_type", json!("lpm"));
    let two = patch(two, "/pipelines/0/tables/0/key/0/match_type", json!("lpm"));
    refused(&two, &format!("{table}.key"), "'lpm' fields of a key: expected at most 1, found 2");
    refused(
        &with("/pipelines/0/init_table", json!("tabel")),
        "pipelines[0].init_table",
        "did you mean 'table'?",
    );
    refused(
        &with("/pipelines/0/action_calls/0/action_id", json!(1)),
        "pipelines[0].action_calls[0].action_id",
        "expected 0, found 1",
    );
    let cycle = with("/pipelines/0/action_calls/0/next_node", json!("table"));
    refused(&cycle, "pipelines[0].tables[0]", "the pipeline returns to 'table': a control must not loop");
    let twice = with("/pipelines/0/conditionals/0/name", json!("table"));
    refused(&twice, "pipelines[0].conditionals[0]", "a second control node 'table'");
    let neither =
        with("/pipelines/0/conditionals/0", json!({"name": "node", "id": 0, "expression": hex("0x1")}));
    refused(&neither, "pipelines[0].conditionals[0]", "'true_next' or 'false_next'");
}

#[test]
fn entries() {
    let entry = |key: Value, action: i64, data: Value| {
        json!({"source_info": {}, "match_key": key, "priority": 1,
            "action_entry": {"action_id": action, "action_data": data}})
    };
    let exact = |text: &str| json!({"match_type": "exact", "key": text});
    let ternary = |text: &str, mask: &str| json!({"match_type": "ternary", "key": text, "mask": mask});
    let good = entry(json!([exact("0x0800"), ternary("0x1", "0xff")]), 1, json!(["0x003"]));
    let with_entries = |list: Value| with("/pipelines/0/tables/0/entries", list);
    read(&with_entries(json!([good])));
    let at = |rest: &str| format!("pipelines[0].tables[0].entries{rest}");
    refused(&with_entries(json!([good, good])), &at("[1]"), "a second entry of table 'table'");
    refused(
        &with_entries(json!([entry(json!([exact("0x0800")]), 1, json!(["0x1"]))])),
        &at("[0].match_key"),
        "expected 2, found 1",
    );
    refused(
        &with_entries(json!([entry(json!([exact("0x10800"), ternary("0x1", "0xff")]), 1, json!(["0x1"]))])),
        &at("[0].match_key[0].key"),
        "does not fit the field's 16 bits",
    );
    refused(
        &with_entries(json!([entry(json!([exact("0x0800"), exact("0x1")]), 1, json!(["0x1"]))])),
        &at("[0].match_key[1].match_type"),
        "the entry matches field 'dst' by 'exact'",
    );
    refused(
        &with_entries(json!([entry(json!([exact("0x0800"), ternary("0x1", "0xff")]), 1, json!([]))])),
        &at("[0].action_entry.action_data"),
        "expected 1, found 0",
    );
    let mut other = patch(base(), "/pipelines/0/tables/0/entries", json!([good]));
    other = patch(other, "/pipelines/0/tables/0/action_ids", json!([0]));
    other = patch(other, "/pipelines/0/tables/0/next_tables", json!({"NoAction": null}));
    refused(&other, &at("[0].action_entry.action_id"), "action 'send' is not one of table 'table'");
}

#[test]
fn externs() {
    refused(
        &with("/calculations/0/algo", json!("crc17")),
        "calculations[0].algo",
        "hash algorithm 'crc17', did you",
    );
    refused(
        &with("/calculations/0/input/0/type", json!("feild")),
        "calculations[0].input[0].type",
        "mean 'field'?",
    );
    refused(&with("/counter_arrays/0/size", json!(1 << 30)), "counter_arrays[0].size", "the limit is");
    refused(&without("/register_arrays/0/bitwidth"), "register_arrays[0]", "'bitwidth' is missing");
    refused(
        &with("/meter_arrays/0/type", json!("packet")),
        "meter_arrays[0].type",
        "did you mean 'packets'?",
    );
    refused(
        &with("/meter_arrays/1/result_target/1", json!("d")),
        "meter_arrays[1].result_target[1]",
        "unknown field",
    );
    let big = with("/register_arrays/0", json!({"name": "reg", "id": 0, "size": 1 << 26, "bitwidth": 4096}));
    refused(&big, "register_arrays[0]", "bytes of counters, meters and registers");
    let checksum = |ty: &str, calculation: &str| {
        with(
            "/checksums",
            json!([{"name": "ck", "id": 0, "type": ty, "target": ["ethernet", "type"], "calculation": calculation}]),
        )
    };
    refused(&checksum("generic", "clac"), "checksums[0].calculation", "did you mean 'calc'?");
    refused(&checksum("genric", "calc"), "checksums[0].type", "did you mean 'generic'?");
    let ext =
        with("/extern_instances", json!([{"name": "x", "id": 0, "type": "Hsah", "attribute_values": []}]));
    refused(&ext, "extern_instances[0].type", "extern type 'Hsah' is not supported");
    let ext =
        with("/extern_instances", json!([{"name": "x", "id": 0, "type": "Counter", "attribute_values": []}]));
    refused(&ext, "extern_instances[0]", "'n_counters' is missing");
    refused(
        &with("/learn_lists/0/elements/0", json!({"type": "payload"})),
        "learn_lists[0].elements[0]",
        "is not supported: a digest is made of fields",
    );
    refused(
        &with("/field_lists/0/elements/0/type", json!("x")),
        "field_lists[0].elements[0].type",
        "unknown field",
    );
}

/// Whoever makes a program, an importer or another front end: what a digest or a kept list cannot carry is refused, and not left out
/// or zero where packets are.
#[test]
fn lists_that_the_datapath_could_not_carry_are_no_program() {
    let good = read(&base());
    good.check().unwrap();
    let last = FieldRef { header: HeaderRef::StackLast(StackId(0)), field: 0 };
    for item in [
        CalcInput::Payload,
        CalcInput::Header(HeaderRef::Header(HeaderId(0))),
        CalcInput::Field(last.clone()),
        CalcInput::Expr { value: Expr::Int(5.into()), width: 8 },
    ] {
        let mut program = good.clone();
        program.learn_lists[0].items.push((item.clone(), 8));
        let error = program.check().expect_err("it cannot be told").to_string();
        assert!(error.contains("learn list"), "{item:?}: {error}");
    }
    let mut program = good;
    program.field_lists[0].items.push(ListItem::Field(last));
    let error = program.check().expect_err("it cannot be kept").to_string();
    assert!(error.contains("field list"), "{error}");
}
