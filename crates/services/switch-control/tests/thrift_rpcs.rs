//! Every method of every service, called by a client over loopback on a running switch.

mod rig;

use barewire_switch_control::thrift::codec::{Value, wire};
use barewire_switch_control::thrift::services::{
    BAREWIRE, PSA_SWITCH, SERVICES, SIMPLE_PRE, SIMPLE_PRE_LAG, SIMPLE_SWITCH, STANDARD,
};
use barewire_switch_control::thrift::types::{ENGINE, action_type};
use barewire_switch_control::thrift::{CallError, Calls};
use rig::{PROGRAM, Rig, Script};

const CXT: Value = Value::I32(0);

fn text(text: &str) -> Value {
    Value::text(text)
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec())
}

fn data(args: &[&[u8]]) -> Value {
    Value::List(wire::BYTES, args.iter().map(|arg| bytes(arg)).collect())
}

fn body(kind: i32, fields: Vec<(i16, Value)>) -> Value {
    Value::Struct(vec![(1, Value::I32(kind)), (kind as i16 + 2, Value::Struct(fields))])
}

fn exact(key: &[u8]) -> Value {
    body(0, vec![(1, bytes(key))])
}

fn key(params: Vec<Value>) -> Value {
    Value::structs(params)
}

fn priority(priority: i32) -> Value {
    Value::Struct(vec![(1, Value::I32(priority))])
}

fn counter(bytes: i64, packets: i64) -> Value {
    Value::Struct(vec![(1, Value::I64(bytes)), (2, Value::I64(packets))])
}

fn rates(rates: &[(f64, i32)]) -> Value {
    let rate =
        |(rate, burst): &(f64, i32)| Value::Struct(vec![(1, Value::Double(*rate)), (2, Value::I32(*burst))]);
    Value::structs(rates.iter().map(rate).collect())
}

fn on(table: &str) -> Vec<Value> {
    vec![CXT, text(table)]
}

fn entry(table: &str, handle: i32) -> Vec<Value> {
    vec![CXT, text(table), Value::I32(handle)]
}

fn with(mut args: Vec<Value>, more: Vec<Value>) -> Vec<Value> {
    args.extend(more);
    args
}

fn direct_tables(s: &mut Script) {
    let add = |a: u8| {
        vec![
            CXT,
            text("In.exact"),
            key(vec![exact(&[10, 0, 0, a])]),
            text("set_port"),
            data(&[&[0, 3]]),
            priority(0),
        ]
    };
    assert_eq!(s.done(&STANDARD, "bm_mt_add_entry", add(1)), Value::I32(0));
    assert_eq!(s.done(&STANDARD, "bm_mt_add_entry", add(2)), Value::I32(1));
    assert_eq!(s.refused(&STANDARD, "bm_mt_add_entry", add(1)), "DUPLICATE_ENTRY");
    assert_eq!(s.done(&STANDARD, "bm_mt_get_num_entries", on("In.exact")), Value::I64(2));
    assert_eq!(
        s.done(&STANDARD, "bm_mt_get_num_entries", on("exact")),
        Value::I64(2),
        "a name's end is enough"
    );
    assert_eq!(s.refused(&STANDARD, "bm_mt_get_num_entries", on("In.exakt")), "INVALID_TABLE_NAME");

    // What is wrong has its own code.
    let bad = |table: &str, params: Vec<Value>, action: &str, args: &[&[u8]]| {
        vec![CXT, text(table), key(params), text(action), data(args), priority(1)]
    };
    let four = || vec![exact(&[10, 0, 0, 9])];
    let mut refused = |args| s.refused(&STANDARD, "bm_mt_add_entry", args);
    assert_eq!(refused(bad("In.exact", vec![exact(&[1, 2, 3])], "set_port", &[&[1]])), "BAD_MATCH_KEY");
    assert_eq!(refused(bad("In.exact", vec![], "set_port", &[&[1]])), "BAD_MATCH_KEY");
    assert_eq!(refused(bad("In.route", four(), "set_port", &[&[1]])), "BAD_MATCH_KEY");
    assert_eq!(refused(bad("In.exact", four(), "set_prt", &[&[1]])), "INVALID_ACTION_NAME");
    assert_eq!(refused(bad("In.exact", four(), "In.learn", &[])), "INVALID_ACTION_NAME");
    assert_eq!(refused(bad("In.exact", four(), "set_port", &[])), "BAD_ACTION_DATA");
    assert_eq!(refused(bad("In.exact", four(), "set_port", &[&[2, 0]])), "BAD_ACTION_DATA");
    assert_eq!(refused(bad("In.ecmp", vec![exact(&[0, 1])], "set_port", &[&[1]])), "WRONG_TABLE_TYPE");
    assert_eq!(
        refused(bad("In.fixed", vec![exact(&[1, 2])], "set_port", &[&[1]])),
        "IMMUTABLE_TABLE_ENTRIES"
    );
    for a in 3..=8 {
        s.done(&STANDARD, "bm_mt_add_entry", add(a));
    }
    assert_eq!(s.refused(&STANDARD, "bm_mt_add_entry", add(9)), "TABLE_FULL");

    let modify = vec![text("In.tag"), data(&[&[0xff], &[0, 0, 0, 0, 0, 9]])];
    s.done(&STANDARD, "bm_mt_modify_entry", with(entry("In.exact", 1), modify));
    let got = s.done(&STANDARD, "bm_mt_get_entry", entry("In.exact", 1));
    let action = got.field(4).unwrap();
    assert_eq!(action.field(1), Some(&Value::I32(action_type::ACTION_DATA)));
    assert_eq!(action.field(2).unwrap().lossy(), "In.tag");
    assert_eq!(action.field(3), Some(&data(&[&[0xff], &[9]])), "arguments in as few bytes as they need");
    assert_eq!(got.field(1), Some(&key(vec![exact(&[10, 0, 0, 2])])));
    assert_eq!(got.field(2), Some(&priority(-1)), "a table without priorities");
    assert_eq!(got.field(5), None, "no time-out, no life");

    s.done(&STANDARD, "bm_mt_set_entry_ttl", with(entry("In.exact", 1), vec![Value::I32(60_000)]));
    let got = s.done(&STANDARD, "bm_mt_get_entry", entry("In.exact", 1));
    assert_eq!(got.field(5).unwrap().field(1), Some(&Value::I32(60_000)));
    assert!((0..60_000).contains(&got.field(5).unwrap().field(2).unwrap().int()));
    let all = s.done(&STANDARD, "bm_mt_get_entries", on("In.exact"));
    assert_eq!(all.items().len(), 8);
    assert!(
        all.items().iter().all(|entry| entry.field(5).is_some() == (entry.field(3) == Some(&Value::I32(1))))
    );
    let ttl = with(entry("In.route", 0), vec![Value::I32(5)]);
    assert_eq!(s.refused(&STANDARD, "bm_mt_set_entry_ttl", ttl), "AGEING_DISABLED");

    s.done(&STANDARD, "bm_mt_delete_entry", entry("In.exact", 1));
    assert_eq!(s.refused(&STANDARD, "bm_mt_delete_entry", entry("In.exact", 1)), "INVALID_HANDLE");
    // The place is used again, with the next version in its highest 8 bits.
    assert_eq!(s.done(&STANDARD, "bm_mt_add_entry", add(9)), Value::I32(0x0100_0001));
    assert_eq!(s.refused(&STANDARD, "bm_mt_delete_entry", entry("In.exact", 1)), "EXPIRED_HANDLE");
    s.done(&STANDARD, "bm_mt_delete_entry", entry("In.exact", 0x0100_0001));
    assert_eq!(s.refused(&STANDARD, "bm_mt_delete_entry", entry("In.exact", -1)), "INVALID_HANDLE");

    let found = s.done(
        &STANDARD,
        "bm_mt_get_entry_from_key",
        with(on("In.exact"), vec![key(vec![exact(&[10, 0, 0, 1])]), priority(0)]),
    );
    assert_eq!(found.field(3), Some(&Value::I32(0)));
    let empty =
        s.done(&STANDARD, "bm_mt_get_entry_from_key", with(on("In.exact"), vec![key(vec![]), priority(0)]));
    assert_eq!(
        empty.field(4).unwrap().field(2).unwrap().lossy(),
        "NoAction",
        "an empty key asks for the default"
    );

    s.done(
        &STANDARD,
        "bm_mt_set_default_action",
        with(on("In.exact"), vec![text("set_port"), data(&[&[5]])]),
    );
    let default = |s: &mut Script, table: &str| s.done(&STANDARD, "bm_mt_get_default_entry", on(table));
    assert_eq!(default(s, "In.exact").field(3), Some(&data(&[&[5]])));
    s.done(&STANDARD, "bm_mt_reset_default_entry", on("In.exact"));
    assert_eq!(default(s, "In.exact").field(2).unwrap().lossy(), "NoAction");
    assert_eq!(default(s, "In.ecmp").field(1), Some(&Value::I32(action_type::NONE)));
    let fixed = with(on("In.fixed"), vec![text("set_port"), data(&[&[5]])]);
    assert_eq!(s.refused(&STANDARD, "bm_mt_set_default_action", fixed), "DEFAULT_ENTRY_IS_CONST");

    s.done(&STANDARD, "bm_mt_write_counter", with(entry("In.exact", 0), vec![counter(100, 2)]));
    assert_eq!(s.done(&STANDARD, "bm_mt_read_counter", entry("In.exact", 0)), counter(100, 2));
    s.done(&STANDARD, "bm_mt_reset_counters", on("In.exact"));
    assert_eq!(s.done(&STANDARD, "bm_mt_read_counter", entry("In.exact", 0)), counter(0, 0));
    assert_eq!(s.refused(&STANDARD, "bm_mt_reset_counters", on("In.route")), "COUNTERS_DISABLED");

    s.done(&STANDARD, "bm_mt_clear_entries", with(on("In.exact"), vec![Value::Bool(true)]));
    assert_eq!(s.done(&STANDARD, "bm_mt_get_num_entries", on("In.exact")), Value::I64(0));
}

fn match_kinds(s: &mut Script) {
    let port = || vec![text("set_port"), data(&[&[1]])];
    let add = |s: &mut Script, table: &str, params: Vec<Value>, at: i32| {
        let args = with(with(on(table), vec![key(params)]), with(port(), vec![priority(at)]));
        s.done(&STANDARD, "bm_mt_add_entry", args).int() as i32
    };
    let shown =
        |s: &mut Script, table: &str, handle: i32| s.done(&STANDARD, "bm_mt_get_entry", entry(table, handle));

    let lpm = |last: u8, length: i32| body(1, vec![(1, bytes(&[10, 0, 0, last])), (2, Value::I32(length))]);
    let route = add(s, "In.route", vec![lpm(1, 12)], 0);
    assert_eq!(
        shown(s, "In.route", route).field(1),
        Some(&key(vec![lpm(0, 12)])),
        "bits beyond the prefix are cut"
    );

    let mac =
        |last: u8| body(2, vec![(1, bytes(&[0, 0, 0, 0, 0, last])), (2, bytes(&[0, 0, 0, 0, 0, 0x0f]))]);
    let acl = add(s, "In.acl", vec![mac(7), exact(&[0, 80])], 12);
    let got = shown(s, "In.acl", acl);
    assert_eq!(
        (got.field(1), got.field(2)),
        (Some(&key(vec![mac(7), exact(&[0, 80])])), Some(&priority(12)))
    );
    let from_key = |at| with(on("In.acl"), vec![key(vec![mac(7), exact(&[0, 80])]), priority(at)]);
    assert_eq!(s.done(&STANDARD, "bm_mt_get_entry_from_key", from_key(12)).field(3), Some(&Value::I32(acl)));
    assert_eq!(s.refused(&STANDARD, "bm_mt_get_entry_from_key", from_key(13)), "BAD_MATCH_KEY");

    let range = body(4, vec![(1, bytes(&[0, 80])), (2, bytes(&[1, 0xbb]))]);
    let ranges = add(s, "In.ranges", vec![range.clone()], 1);
    assert_eq!(shown(s, "In.ranges", ranges).field(1), Some(&key(vec![range])));
    let backwards = body(4, vec![(1, bytes(&[1, 0])), (2, bytes(&[0, 1]))]);
    let args = with(with(on("In.ranges"), vec![key(vec![backwards])]), with(port(), vec![priority(1)]));
    assert_eq!(s.refused(&STANDARD, "bm_mt_add_entry", args), "BAD_MATCH_KEY");

    let v6 = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let valid = vec![body(3, vec![(1, Value::Bool(true))]), exact(&v6)];
    let args = with(on("In.valid"), vec![key(valid.clone()), text("In.count_it"), data(&[]), priority(0)]);
    let handle = s.done(&STANDARD, "bm_mt_add_entry", args).int() as i32;
    assert_eq!(shown(s, "In.valid", handle).field(1), Some(&key(valid)));

    // A direct meter belongs to an entry.
    let two = rates(&[(0.5, 10), (1.5, 20)]);
    s.done(&STANDARD, "bm_mt_set_meter_rates", with(entry("In.route", route), vec![two.clone()]));
    assert_eq!(s.done(&STANDARD, "bm_mt_get_meter_rates", entry("In.route", route)), two);
    let fall = with(entry("In.route", route), vec![rates(&[(2.0, 1), (1.0, 1)])]);
    assert_eq!(s.refused(&STANDARD, "bm_mt_set_meter_rates", fall), "INVALID_METER_OPERATION");
    let none = with(entry("In.acl", acl), vec![two]);
    assert_eq!(s.refused(&STANDARD, "bm_mt_set_meter_rates", none), "METERS_DISABLED");
}

fn profiles(s: &mut Script) {
    let ap = || vec![CXT, text("In.hops")];
    let member = |port: u8| with(ap(), vec![text("set_port"), data(&[&[port]])]);
    assert_eq!(s.done(&STANDARD, "bm_mt_act_prof_add_member", member(1)), Value::I32(0));
    assert_eq!(s.done(&STANDARD, "bm_mt_act_prof_add_member", member(2)), Value::I32(1));
    assert_eq!(s.done(&STANDARD, "bm_mt_act_prof_create_group", ap()), Value::I32(0));
    let handles = |m: i32, g: i32| with(ap(), vec![Value::I32(m), Value::I32(g)]);
    s.done(&STANDARD, "bm_mt_act_prof_add_member_to_group", handles(0, 0));
    s.done(&STANDARD, "bm_mt_act_prof_add_member_to_group", handles(1, 0));
    assert_eq!(
        s.refused(&STANDARD, "bm_mt_act_prof_add_member_to_group", handles(0, 0)),
        "MBR_ALREADY_IN_GRP"
    );
    assert_eq!(
        s.refused(&STANDARD, "bm_mt_act_prof_add_member_to_group", handles(9, 0)),
        "INVALID_MBR_HANDLE"
    );
    assert_eq!(
        s.refused(&STANDARD, "bm_mt_act_prof_add_member_to_group", handles(0, 9)),
        "INVALID_GRP_HANDLE"
    );
    s.done(&STANDARD, "bm_mt_act_prof_remove_member_from_group", handles(1, 0));
    assert_eq!(
        s.refused(&STANDARD, "bm_mt_act_prof_remove_member_from_group", handles(1, 0)),
        "MBR_NOT_IN_GRP"
    );
    let modify = with(ap(), vec![Value::I32(1), text("set_port"), data(&[&[7]])]);
    s.done(&STANDARD, "bm_mt_act_prof_modify_member", modify);
    let one = |handle: i32| with(ap(), vec![Value::I32(handle)]);
    let got = s.done(&STANDARD, "bm_mt_act_prof_get_member", one(1));
    assert_eq!((got.field(2).unwrap().lossy(), got.field(3)), ("set_port".into(), Some(&data(&[&[7]]))));
    assert_eq!(s.done(&STANDARD, "bm_mt_act_prof_get_members", ap()).items().len(), 2);
    let group = s.done(&STANDARD, "bm_mt_act_prof_get_group", one(0));
    assert_eq!(group.field(2), Some(&Value::List(wire::I32, vec![Value::I32(0)])));
    assert_eq!(s.done(&STANDARD, "bm_mt_act_prof_get_groups", ap()).items(), [group]);
    let unknown = vec![CXT, text("In.hopz")];
    assert_eq!(s.refused(&STANDARD, "bm_mt_act_prof_get_members", unknown), "INVALID_ACTION_PROFILE_NAME");

    // Entries that point at them.
    let b = |low: u8| key(vec![exact(&[0, low])]);
    let add = |low: u8, to: i32| with(on("In.ecmp"), vec![b(low), Value::I32(to), priority(0)]);
    let at_member = s.done(&STANDARD, "bm_mt_indirect_add_entry", add(1, 1)).int() as i32;
    let at_group = s.done(&STANDARD, "bm_mt_indirect_ws_add_entry", add(2, 0)).int() as i32;
    assert_eq!(s.refused(&STANDARD, "bm_mt_indirect_add_entry", add(3, 9)), "INVALID_MBR_HANDLE");
    assert_eq!(s.refused(&STANDARD, "bm_mt_indirect_ws_add_entry", add(3, 9)), "INVALID_GRP_HANDLE");
    // A group without members is nothing to point at.
    let empty = s.done(&STANDARD, "bm_mt_act_prof_create_group", ap()).int() as i32;
    assert_eq!(s.refused(&STANDARD, "bm_mt_indirect_ws_add_entry", add(3, empty)), "EMPTY_GRP");
    let to_empty = with(entry("In.ecmp", at_member), vec![Value::I32(empty)]);
    assert_eq!(s.refused(&STANDARD, "bm_mt_indirect_ws_modify_entry", to_empty), "EMPTY_GRP");
    s.done(&STANDARD, "bm_mt_act_prof_delete_group", one(empty));
    let direct = with(on("In.exact"), vec![key(vec![exact(&[0, 0, 0, 1])]), Value::I32(0), priority(0)]);
    assert_eq!(s.refused(&STANDARD, "bm_mt_indirect_add_entry", direct), "WRONG_TABLE_TYPE");
    assert_eq!(s.refused(&STANDARD, "bm_mt_act_prof_delete_member", one(1)), "MBR_STILL_USED");
    assert_eq!(s.refused(&STANDARD, "bm_mt_act_prof_delete_group", one(0)), "GRP_STILL_USED");
    let action = |s: &mut Script, handle: i32| {
        s.done(&STANDARD, "bm_mt_get_entry", entry("In.ecmp", handle)).field(4).unwrap().clone()
    };
    assert_eq!(action(s, at_member), Value::Struct(vec![(1, Value::I32(2)), (4, Value::I32(1))]));
    assert_eq!(action(s, at_group), Value::Struct(vec![(1, Value::I32(3)), (5, Value::I32(0))]));
    s.done(
        &STANDARD,
        "bm_mt_indirect_ws_modify_entry",
        with(entry("In.ecmp", at_member), vec![Value::I32(0)]),
    );
    s.done(&STANDARD, "bm_mt_indirect_modify_entry", with(entry("In.ecmp", at_group), vec![Value::I32(1)]));
    assert_eq!(action(s, at_member), Value::Struct(vec![(1, Value::I32(3)), (5, Value::I32(0))]));
    let ttl = with(entry("In.ecmp", at_group), vec![Value::I32(5)]);
    assert_eq!(s.refused(&STANDARD, "bm_mt_indirect_set_entry_ttl", ttl), "AGEING_DISABLED");

    let default = |handle: i32| with(on("In.ecmp"), vec![Value::I32(handle)]);
    s.done(&STANDARD, "bm_mt_indirect_set_default_member", default(1));
    let got = s.done(&STANDARD, "bm_mt_get_default_entry", on("In.ecmp"));
    assert_eq!(got, Value::Struct(vec![(1, Value::I32(2)), (4, Value::I32(1))]));
    s.done(&STANDARD, "bm_mt_indirect_ws_set_default_group", default(0));
    let got = s.done(&STANDARD, "bm_mt_get_default_entry", on("In.ecmp"));
    assert_eq!(got, Value::Struct(vec![(1, Value::I32(3)), (5, Value::I32(0))]));
    s.done(&STANDARD, "bm_mt_indirect_reset_default_entry", on("In.ecmp"));
    let got = s.done(&STANDARD, "bm_mt_get_default_entry", on("In.ecmp"));
    assert_eq!(got.field(1), Some(&Value::I32(action_type::NONE)));

    for handle in [at_member, at_group] {
        s.done(&STANDARD, "bm_mt_indirect_delete_entry", entry("In.ecmp", handle));
    }
    s.done(&STANDARD, "bm_mt_act_prof_delete_group", one(0));
    s.done(&STANDARD, "bm_mt_act_prof_delete_member", one(1));
    assert_eq!(s.done(&STANDARD, "bm_mt_act_prof_get_members", ap()).items().len(), 1);
}

fn arrays(s: &mut Script) {
    let at = |name: &str, index: i32| vec![CXT, text(name), Value::I32(index)];
    s.done(&STANDARD, "bm_counter_write", with(at("In.packets", 3), vec![counter(640, 10)]));
    assert_eq!(s.done(&STANDARD, "bm_counter_read", at("In.packets", 3)), counter(640, 10));
    assert_eq!(s.refused(&STANDARD, "bm_counter_read", at("In.packets", 4)), "INVALID_INDEX");
    assert_eq!(s.refused(&STANDARD, "bm_counter_read", at("In.packets", -1)), "INVALID_INDEX");
    assert_eq!(s.refused(&STANDARD, "bm_counter_read", at("In.paquets", 0)), "INVALID_COUNTER_NAME");
    s.done(&STANDARD, "bm_counter_reset_all", vec![CXT, text("In.packets")]);
    assert_eq!(s.done(&STANDARD, "bm_counter_read", at("In.packets", 3)), counter(0, 0));

    let two = || rates(&[(1.0, 1), (2.0, 1)]);
    s.done(&STANDARD, "bm_meter_array_set_rates", vec![CXT, text("In.rates"), rates(&[(3.0, 4), (5.0, 6)])]);
    s.done(&STANDARD, "bm_meter_set_rates", with(at("In.rates", 0), vec![two()]));
    assert_eq!(s.done(&STANDARD, "bm_meter_get_rates", at("In.rates", 0)), two());
    assert_eq!(s.done(&STANDARD, "bm_meter_get_rates", at("In.rates", 3)), rates(&[(3.0, 4), (5.0, 6)]));
    let mut refused = |index: i32, list: &[(f64, i32)]| {
        s.refused(&STANDARD, "bm_meter_set_rates", with(at("In.rates", index), vec![rates(list)]))
    };
    assert_eq!(refused(4, &[(1.0, 1), (2.0, 1)]), "INVALID_INDEX");
    assert_eq!(refused(0, &[(2.0, 1), (1.0, 1)]), "INVALID_INFO_RATE_VALUE");
    assert_eq!(refused(0, &[(2.0, 1)]), "BAD_RATES_LIST");
    assert_eq!(refused(0, &[(1.0, -1), (2.0, 1)]), "INVALID_BURST_SIZE_VALUE");

    let reg = |index: i32| at("In.reg", index);
    s.done(&STANDARD, "bm_register_write", with(reg(0), vec![Value::I64(-1)]));
    assert_eq!(s.done(&STANDARD, "bm_register_read", reg(0)), Value::I64(0xffff_ffff));
    s.done(
        &STANDARD,
        "bm_register_write_range",
        vec![CXT, text("In.reg"), Value::I32(1), Value::I32(3), Value::I64(9)],
    );
    let all = s.done(&STANDARD, "bm_register_read_all", vec![CXT, text("In.reg")]);
    assert_eq!(all, Value::List(wire::I64, [0xffff_ffff, 9, 9, 0].map(Value::I64).to_vec()));
    assert_eq!(s.refused(&STANDARD, "bm_register_read", reg(4)), "INVALID_INDEX");
    assert_eq!(
        s.refused(&STANDARD, "bm_register_write", with(reg(16), vec![Value::I64(1)])),
        "INVALID_INDEX"
    );
    assert_eq!(s.refused(&STANDARD, "bm_register_read", at("In.rag", 0)), "INVALID_REGISTER_NAME");
    s.done(&STANDARD, "bm_register_reset", vec![CXT, text("In.reg")]);
    assert_eq!(s.done(&STANDARD, "bm_register_read", reg(0)), Value::I64(0));

    // Wider than bmv2's methods can carry.
    let wide: Vec<u8> = (1..=16).collect();
    let range = |from: i64, to: i64| vec![text("In.wide"), Value::I64(from), Value::I64(to)];
    s.done(&BAREWIRE, "write_registers", with(range(1, 2), vec![bytes(&wide)]));
    assert_eq!(s.done(&BAREWIRE, "read_registers", range(0, -1)), data(&[&[0; 16], &wide]));
    assert_eq!(s.done(&STANDARD, "bm_register_read", at("In.wide", 1)), Value::I64(0x090a_0b0c_0d0e_0f10));
    let too_wide = with(range(1, 2), vec![bytes(&[1; 17])]);
    assert_eq!(s.refused(&BAREWIRE, "write_registers", too_wide), "ERROR");

    let pvs = || vec![CXT, text("In.ports")];
    s.done(&STANDARD, "bm_parse_vset_add", with(pvs(), vec![bytes(&[0, 80])]));
    s.done(&STANDARD, "bm_parse_vset_add", with(pvs(), vec![bytes(&[1, 0xbb])]));
    let mut values = s.done(&STANDARD, "bm_parse_vset_get", pvs()).items().to_vec();
    values.sort_by(|a, b| a.bytes().cmp(b.bytes()));
    assert_eq!(values, [bytes(&[0, 80]), bytes(&[1, 0xbb])]);
    s.done(&STANDARD, "bm_parse_vset_remove", with(pvs(), vec![bytes(&[0, 80])]));
    assert_eq!(s.done(&STANDARD, "bm_parse_vset_get", pvs()).items().len(), 1);
    s.done(&STANDARD, "bm_parse_vset_clear", pvs());
    assert!(s.done(&STANDARD, "bm_parse_vset_get", pvs()).items().is_empty());
    let short = with(pvs(), vec![bytes(&[80])]);
    assert_eq!(s.refused(&STANDARD, "bm_parse_vset_add", short), "ERROR");
    let unknown = vec![CXT, text("In.port")];
    assert_eq!(s.refused(&STANDARD, "bm_parse_vset_clear", unknown), "INVALID_PARSE_VSET_NAME");

    let list = |id: i32| vec![CXT, Value::I32(id)];
    let samples = Value::List(wire::I32, vec![Value::I32(0), Value::I32(1)]);
    s.done(&STANDARD, "bm_learning_ack", with(list(1), vec![Value::I64(0), samples]));
    s.done(&STANDARD, "bm_learning_ack_buffer", with(list(1), vec![Value::I64(0)]));
    s.done(&STANDARD, "bm_learning_set_timeout", with(list(1), vec![Value::I32(50)]));
    s.done(&STANDARD, "bm_learning_set_buffer_size", with(list(1), vec![Value::I32(4)]));
    let unknown = with(list(9), vec![Value::I32(4)]);
    assert_eq!(s.refused(&STANDARD, "bm_learning_set_buffer_size", unknown), "INVALID_LIST_ID");
}

fn device(s: &mut Script) {
    let port = |name: &str, number: i32, pcap: &str| vec![text(name), Value::I32(number), text(pcap)];
    s.done(&STANDARD, "bm_dev_mgr_add_port", port("mem:thrift-rpcs", 4, ""));
    let ports = s.done(&STANDARD, "bm_dev_mgr_show_ports", vec![]);
    assert_eq!(ports.items().len(), 1);
    assert_eq!(ports.items()[0].field(1), Some(&Value::I32(4)));
    for (name, number, pcap) in
        [("mem:thrift-rpcs-2", 4, ""), ("nonsense:x", 5, ""), ("mem:x", -1, ""), ("mem:y", 6, "file.pcap")]
    {
        assert_eq!(s.refused(&STANDARD, "bm_dev_mgr_add_port", port(name, number, pcap)), "ERROR");
    }
    s.done(&STANDARD, "bm_dev_mgr_remove_port", vec![Value::I32(4)]);
    assert_eq!(s.refused(&STANDARD, "bm_dev_mgr_remove_port", vec![Value::I32(4)]), "ERROR");

    let info = s.done(&STANDARD, "bm_mgmt_get_info", vec![]);
    assert_eq!(info.field(1), Some(&Value::I64(7)));
    assert_ne!(info.field(2), Some(&Value::I32(0)), "the port it answers on");
    assert_eq!(info.field(3).unwrap().lossy(), "ipc:///nowhere");
    assert_eq!(info.field(ENGINE).unwrap().lossy(), "interpreter");

    let crc = |int: fn(i32) -> Value| {
        Value::Struct(vec![
            (1, int(0x1021)),
            (2, int(-1)),
            (3, int(0)),
            (4, Value::Bool(true)),
            (5, Value::Bool(false)),
        ])
    };
    let calc = |name: &str, config: Value| vec![CXT, text(name), config];
    let i16: fn(i32) -> Value = |n| Value::I16(n as i16);
    let i32: fn(i32) -> Value = Value::I32;
    s.done(&STANDARD, "bm_set_crc16_custom_parameters", calc("calc16", crc(i16)));
    s.done(&STANDARD, "bm_set_crc32_custom_parameters", calc("calc32", crc(i32)));
    s.done(&STANDARD, "bm_set_toeplitz_hash_key", calc("calct", bytes(&[1; 40])));
    let mut refused = |method: &str, args| s.refused(&STANDARD, method, args);
    assert_eq!(refused("bm_set_crc16_custom_parameters", calc("calcx", crc(i16))), "WRONG_TYPE_CALCULATION");
    assert_eq!(refused("bm_set_crc16_custom_parameters", calc("none", crc(i16))), "INVALID_CALCULATION_NAME");
    assert_eq!(refused("bm_set_toeplitz_hash_key", calc("calct", bytes(&[1; 7]))), "INVALID_KEY");

    let id = |kind: i32, name: &str| vec![CXT, Value::I32(kind), text(name)];
    for (kind, name, number) in [
        (0, "In.route", 1),
        (1, "In.hops", 0),
        (2, "In.exact_counter", 1),
        (3, "In.route_meter", 1),
        (4, "In.wide", 1),
        (5, "In.digest", 1),
    ] {
        assert_eq!(s.done(&STANDARD, "bm_get_id_from_name", id(kind, name)), Value::I32(number), "{name}");
    }
    assert_eq!(s.refused(&STANDARD, "bm_get_id_from_name", id(6, "In.route")), "INVALID_RESOURCE_TYPE");
    assert_eq!(s.refused(&STANDARD, "bm_get_id_from_name", id(0, "In.rout")), "INVALID_RESOURCE_NAME");

    assert_eq!(s.done(&STANDARD, "bm_get_config", vec![]).lossy(), PROGRAM);
    assert_eq!(s.done(&STANDARD, "bm_get_config_md5", vec![]).bytes().len(), 16);

    // State that is saved, lost and restored.
    let add = || {
        vec![
            CXT,
            text("In.exact"),
            key(vec![exact(&[1, 2, 3, 4])]),
            text("set_port"),
            data(&[&[9]]),
            priority(0),
        ]
    };
    s.done(&STANDARD, "bm_mt_add_entry", add());
    let saved = s.done(&STANDARD, "bm_serialize_state", vec![]);
    s.done(&STANDARD, "bm_reset_state", vec![]);
    assert_eq!(s.done(&STANDARD, "bm_mt_get_num_entries", on("In.exact")), Value::I64(0));
    s.done(&BAREWIRE, "restore_state", vec![saved]);
    assert_eq!(s.done(&STANDARD, "bm_mt_get_num_entries", on("In.exact")), Value::I64(1));
    assert!(matches!(s.call(&BAREWIRE, "restore_state", vec![text("{]")]), Err(CallError::Application(_))));
    assert!(matches!(s.done(&BAREWIRE, "drops", vec![]), Value::Map(..)));

    // Another program, and what is none.
    assert_eq!(s.refused(&STANDARD, "bm_swap_configs", vec![]), "NO_ONGOING_SWAP");
    let bad = s.call(&STANDARD, "bm_load_new_config", vec![text("{\"tables\": 3}")]);
    assert!(matches!(bad, Err(CallError::Application(_))), "{bad:?}");
    let other = PROGRAM.replace("In.route", "In.paths");
    s.done(&STANDARD, "bm_load_new_config", vec![text(&other)]);
    assert_eq!(s.refused(&STANDARD, "bm_load_new_config", vec![text(&other)]), "ONGOING_SWAP");
    // All goes to the program that waits.
    assert_eq!(s.done(&STANDARD, "bm_get_config", vec![]).lossy(), other);
    assert_eq!(s.refused(&STANDARD, "bm_mt_get_num_entries", on("In.route")), "INVALID_TABLE_NAME");
    assert_eq!(s.done(&STANDARD, "bm_mt_get_num_entries", on("In.exact")), Value::I64(0));
    s.done(&STANDARD, "bm_mt_add_entry", add());
    let element = || vec![CXT, text("In.packets"), Value::I32(1)];
    let counted = Value::Struct(vec![(1, Value::I64(60)), (2, Value::I64(1))]);
    s.done(&STANDARD, "bm_counter_write", with(element(), vec![counted.clone()]));
    assert_eq!(s.done(&STANDARD, "bm_counter_read", element()), counted);
    s.done(&STANDARD, "bm_swap_configs", vec![]);
    assert_eq!(s.done(&STANDARD, "bm_counter_read", element()), counted);
    assert_eq!(s.done(&STANDARD, "bm_mt_get_num_entries", on("In.exact")), Value::I64(1));
    assert_eq!(s.done(&STANDARD, "bm_mt_get_num_entries", on("In.paths")), Value::I64(0));
    assert_eq!(s.refused(&STANDARD, "bm_mt_get_num_entries", on("In.route")), "INVALID_TABLE_NAME");
}

fn multicast(s: &mut Script) {
    for (service, lags) in [(&SIMPLE_PRE, false), (&SIMPLE_PRE_LAG, true)] {
        let more = |args: Vec<Value>| if lags { with(args, vec![text("1010")]) } else { args };
        assert_eq!(s.done(service, "bm_mc_mgrp_create", vec![CXT, Value::I32(1)]), Value::I32(1));
        let node = s.done(service, "bm_mc_node_create", more(vec![CXT, Value::I32(2), text("100100010")]));
        let pair = || vec![CXT, Value::I32(1), node.clone()];
        s.done(service, "bm_mc_node_associate", pair());
        s.done(service, "bm_mc_node_update", more(vec![CXT, node.clone(), text("110")]));
        let dump = s.done(service, "bm_mc_get_entries", vec![CXT]).lossy();
        let dump: serde_json::Value = serde_json::from_str(&dump).unwrap();
        assert_eq!(dump["mgrps"], serde_json::json!([{"id": 1, "l1_handles": [node.int()]}]));
        assert_eq!(dump["l1_handles"][0]["rid"], 2);
        assert_eq!(dump["l2_handles"][0]["ports"], serde_json::json!([1, 2]));
        assert_eq!(dump.get("lags").is_some(), lags);
        s.done(service, "bm_mc_node_dissociate", pair());
        s.done(service, "bm_mc_node_destroy", vec![CXT, node.clone()]);
        assert_eq!(s.refused(service, "bm_mc_node_destroy", vec![CXT, node.clone()]), "INVALID_L1_HANDLE");
        s.done(service, "bm_mc_mgrp_destroy", vec![CXT, Value::I32(1)]);
        assert_eq!(s.refused(service, "bm_mc_mgrp_destroy", vec![CXT, Value::I32(1)]), "INVALID_MGRP_HANDLE");
        let bad = more(vec![CXT, Value::I32(2), text("12")]);
        assert_eq!(s.refused(service, "bm_mc_node_create", bad), "ERROR");
    }
    s.done(&SIMPLE_PRE_LAG, "bm_mc_set_lag_membership", vec![CXT, Value::I16(1), text("1001001000000")]);
    let dump = s.done(&SIMPLE_PRE_LAG, "bm_mc_get_entries", vec![CXT]).lossy();
    let dump: serde_json::Value = serde_json::from_str(&dump).unwrap();
    assert_eq!(dump["lags"], serde_json::json!([{"id": 1, "ports": [6, 9, 12]}]));
}

fn targets(s: &mut Script) {
    let one = |id: i32| vec![Value::I32(id)];
    for service in [&SIMPLE_SWITCH, &PSA_SWITCH] {
        let config = Value::Struct(vec![(1, Value::I32(4)), (2, Value::I32(9))]);
        s.done(service, "mirroring_session_add", vec![Value::I32(3), config.clone()]);
        assert_eq!(s.done(service, "mirroring_session_get", one(3)), config);
        s.done(service, "mirroring_session_delete", one(3));
        assert_eq!(s.refused(service, "mirroring_session_get", one(3)), "SESSION_NOT_FOUND");
        assert_eq!(s.refused(service, "mirroring_session_delete", one(3)), "SESSION_NOT_FOUND");
        assert_eq!(s.refused(service, "mirroring_session_get", one(-1)), "SESSION_NOT_FOUND");
        s.done(service, "set_egress_queue_depth", vec![Value::I32(1), Value::I32(128)]);
        s.done(service, "set_all_egress_queue_depths", vec![Value::I32(64)]);
        s.done(service, "set_egress_queue_rate", vec![Value::I32(1), Value::I64(1000)]);
        s.done(service, "set_all_egress_queue_rates", vec![Value::I64(0)]);
        let negative = s.call(service, "set_all_egress_queue_rates", vec![Value::I64(-1)]);
        assert!(matches!(negative, Err(CallError::Application(_))));
        let then = s.done(service, "get_time_elapsed_us", vec![]).int();
        assert!(s.done(service, "get_time_elapsed_us", vec![]).int() >= then);
        // After 2020, in microseconds.
        assert!(s.done(service, "get_time_since_epoch_us", vec![]).int() > 1_577_836_800_000_000);
    }
    let three = |last: Value| vec![Value::I32(1), Value::I32(0), last];
    s.done(&SIMPLE_SWITCH, "set_egress_priority_queue_depth", three(Value::I32(32)));
    s.done(&SIMPLE_SWITCH, "set_egress_priority_queue_rate", three(Value::I64(10)));
    s.done(&SIMPLE_SWITCH, "mirroring_mapping_add", vec![Value::I32(5), Value::I32(2)]);
    assert_eq!(s.done(&SIMPLE_SWITCH, "mirroring_mapping_get_egress_port", one(5)), Value::I32(2));
    assert_eq!(s.done(&SIMPLE_SWITCH, "mirroring_mapping_delete", one(5)), Value::I32(1));
    assert_eq!(s.done(&SIMPLE_SWITCH, "mirroring_mapping_get_egress_port", one(5)), Value::I32(-1));
}

#[test]
fn every_method_of_every_service() {
    let rig = Rig::start();
    let mut script = rig.script();
    direct_tables(&mut script);
    match_kinds(&mut script);
    profiles(&mut script);
    arrays(&mut script);
    multicast(&mut script);
    targets(&mut script);
    device(&mut script);
    let missed: Vec<String> = SERVICES
        .iter()
        .flat_map(|service| service.methods().map(|method| (service.name, method.name.to_owned())))
        .filter(|method| !script.called.contains(method))
        .map(|(service, method)| format!("{service}:{method}"))
        .collect();
    assert!(missed.is_empty(), "not called: {missed:?}");
    assert_eq!(STANDARD.methods().count(), 70, "as many as bmv2's standard service has");
    rig.stop();
}

#[test]
fn methods_and_services_that_do_not_exist_are_refused_by_name() {
    let rig = Rig::start();
    let mut client = rig.client();
    let mut ask = |name: &str, body: Value| {
        let message = barewire_switch_control::thrift::codec::Message {
            name: name.into(),
            kind: barewire_switch_control::thrift::codec::MessageType::Call,
            sequence: 0,
            body,
        };
        let reply = client.exchange(message).unwrap();
        (reply.body.field(2).unwrap().int(), reply.body.field(1).unwrap().lossy())
    };
    let nothing = || Value::Struct(vec![]);
    assert_eq!(
        ask("standard:bm_mt_add_entri", nothing()),
        (1, "service standard has no method 'bm_mt_add_entri', did you mean 'bm_mt_add_entry'?".into())
    );
    assert_eq!(ask("standart:x", nothing()), (1, "no service 'standart', did you mean 'standard'?".into()));
    assert_eq!(ask("bm_get_config", nothing()).0, 1);
    assert_eq!(
        ask("standard:bm_mt_get_num_entries", nothing()),
        (7, "bm_mt_get_num_entries: argument 2 (table_name) is missing".into())
    );
    let wrong = Value::Struct(vec![(1, Value::I32(0)), (2, Value::I32(0))]);
    assert_eq!(ask("standard:bm_mt_get_num_entries", wrong).0, 7);
    let context = Value::Struct(vec![(1, Value::I32(1)), (2, text("In.exact"))]);
    assert_eq!(
        ask("standard:bm_mt_get_num_entries", context),
        (6, "context 1 does not exist: there is one, 0".into())
    );
    rig.stop();
}
