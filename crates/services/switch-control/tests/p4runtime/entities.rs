//! Each kind of entity but groups: written, read, refused.

use crate::rig::*;
use UpdateType::{Delete, Insert, Modify};
use barewire_switch_control::p4runtime::data::{P4Data, P4DataKind};
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use tonic::Code;

fn table(entry: TableEntry) -> EntityKind {
    EntityKind::TableEntry(entry)
}

#[test]
fn entries_are_read_as_they_were_written() {
    let (rig, controller) = Rig::start();
    let exact_entry = TableEntry {
        idle_timeout_ns: 1_500_000_001,
        controller_metadata: 77,
        metadata: b"opaque".to_vec(),
        ..rig.entry("exact_table", vec![(1, exact(0xaabb_ccdd_eeff))], "counted_forward", &[2])
    };
    let lpm_entry = rig.entry("lpm_table", vec![(1, lpm(0x0a00_0000_0000, 8)), (2, exact(1))], "flood", &[5]);
    let any_lpm = rig.entry("lpm_table", vec![(2, exact(1))], "drop", &[]);
    let ternary_entry = TableEntry {
        priority: 10,
        ..rig.entry(
            "ternary_table",
            vec![(1, ternary(0x1200, 0xff00)), (2, range(0x800, 0x8ff)), (3, optional(9))],
            "tag",
            &[3, 0x1122_3344_5566],
        )
    };
    let any_ternary = TableEntry { priority: i32::MAX, ..rig.entry("ternary_table", vec![], "drop", &[]) };
    for entry in [&exact_entry, &lpm_entry, &any_lpm, &ternary_entry, &any_ternary] {
        controller.done(Insert, table(entry.clone()));
        let pattern = TableEntry {
            table_id: entry.table_id,
            r#match: entry.r#match.clone(),
            priority: entry.priority,
            ..TableEntry::default()
        };
        assert_eq!(controller.entries(pattern), [entry.clone()]);
        assert_eq!(controller.refused(Insert, table(entry.clone())), Code::AlreadyExists);
    }
    let all = controller.entries(TableEntry::default());
    let of_const_table = all.iter().filter(|entry| entry.table_id == rig.table("const_table")).count();
    assert_eq!((all.len(), of_const_table), (7, 2));
    let of_lpm = TableEntry { table_id: lpm_entry.table_id, ..TableEntry::default() };
    assert_eq!(controller.entries(of_lpm.clone()).len(), 2);
    let dropping = Action { action_id: rig.action("drop"), params: vec![] };
    let filter =
        TableEntry { action: Some(TableAction { r#type: Some(ActionChoice::Action(dropping)) }), ..of_lpm };
    assert_eq!(controller.entries(filter), [any_lpm]);
    let by_metadata =
        TableEntry { table_id: exact_entry.table_id, metadata: b"opaque".to_vec(), ..TableEntry::default() };
    assert_eq!(controller.entries(by_metadata).len(), 1);
    let by_cookie =
        TableEntry { table_id: exact_entry.table_id, controller_metadata: 78, ..TableEntry::default() };
    assert_eq!(controller.entries(by_cookie), []);

    let changed = TableEntry {
        metadata: vec![],
        idle_timeout_ns: 0,
        action: rig.entry("exact_table", vec![], "drop", &[]).action,
        ..exact_entry.clone()
    };
    controller.done(Modify, table(changed.clone()));
    let pattern = TableEntry { table_id: exact_entry.table_id, ..TableEntry::default() };
    assert_eq!(controller.entries(pattern.clone()), [changed.clone()]);
    // Without an action the old one stays.
    controller.done(Modify, table(TableEntry { action: None, controller_metadata: 5, ..changed.clone() }));
    assert_eq!(controller.entries(pattern.clone()), [TableEntry { controller_metadata: 5, ..changed }]);
    // Only the key counts.
    let nonsense = TableEntry { action: None, idle_timeout_ns: -4, metadata: vec![1], ..exact_entry };
    controller.done(Delete, table(nonsense.clone()));
    assert_eq!(controller.entries(pattern), []);
    assert_eq!(controller.refused(Delete, table(nonsense.clone())), Code::NotFound);
    assert_eq!(
        controller.refused(Modify, table(TableEntry { idle_timeout_ns: 0, ..nonsense })),
        Code::NotFound
    );
    rig.stop();
}

#[test]
fn malformed_entries_are_refused_with_the_right_code() {
    let (rig, controller) = Rig::start();
    let lpm_with = |matches| rig.entry("lpm_table", matches, "forward", &[1]);
    let ternary_with =
        |matches, priority| TableEntry { priority, ..rig.entry("ternary_table", matches, "forward", &[1]) };
    let raw_exact = |value: &[u8]| MatchValue::Exact(ExactMatch { value: value.to_vec() });
    let wide_argument = rig.entry("lpm_table", vec![(2, exact(1))], "forward", &[512]);
    let missing_argument = rig.entry("lpm_table", vec![(2, exact(1))], "forward", &[]);
    let extra_argument = rig.entry("lpm_table", vec![(2, exact(1))], "forward", &[1, 2]);
    let member = Some(TableAction { r#type: Some(ActionChoice::ActionProfileMemberId(1)) });
    let cases = vec![
        (lpm_with(vec![(1, lpm(0, 0)), (2, exact(1))]), Code::InvalidArgument),
        (lpm_with(vec![(1, lpm(1, 8)), (2, exact(1))]), Code::InvalidArgument),
        (lpm_with(vec![(1, lpm(0, 49)), (2, exact(1))]), Code::InvalidArgument),
        (lpm_with(vec![(1, lpm(0, -1)), (2, exact(1))]), Code::InvalidArgument),
        (lpm_with(vec![(1, exact(1)), (2, exact(1))]), Code::InvalidArgument),
        (lpm_with(vec![(2, exact(1)), (2, exact(1))]), Code::InvalidArgument),
        (lpm_with(vec![(3, exact(1)), (2, exact(1))]), Code::InvalidArgument),
        (lpm_with(vec![]), Code::InvalidArgument),
        (lpm_with(vec![(2, exact(512))]), Code::OutOfRange),
        (lpm_with(vec![(2, raw_exact(&[]))]), Code::OutOfRange),
        (ternary_with(vec![(1, ternary(1, 0))], 1), Code::InvalidArgument),
        (ternary_with(vec![(1, ternary(1, 2))], 1), Code::InvalidArgument),
        (ternary_with(vec![(2, range(5, 4))], 1), Code::InvalidArgument),
        (ternary_with(vec![(2, range(0, 0xffff))], 1), Code::InvalidArgument),
        (ternary_with(vec![], 0), Code::InvalidArgument),
        (ternary_with(vec![], -1), Code::InvalidArgument),
        (TableEntry { priority: 1, ..lpm_with(vec![(2, exact(1))]) }, Code::InvalidArgument),
        (TableEntry { is_const: true, ..lpm_with(vec![(2, exact(1))]) }, Code::InvalidArgument),
        (TableEntry { idle_timeout_ns: 1, ..lpm_with(vec![(2, exact(1))]) }, Code::InvalidArgument),
        (
            TableEntry { counter_data: Some(CounterData::default()), ..lpm_with(vec![(2, exact(1))]) },
            Code::InvalidArgument,
        ),
        (
            TableEntry { meter_config: Some(MeterConfig::default()), ..lpm_with(vec![(2, exact(1))]) },
            Code::InvalidArgument,
        ),
        (TableEntry { action: None, ..lpm_with(vec![(2, exact(1))]) }, Code::InvalidArgument),
        (TableEntry { action: member, ..lpm_with(vec![(2, exact(1))]) }, Code::InvalidArgument),
        (TableEntry { table_id: 99, ..lpm_with(vec![(2, exact(1))]) }, Code::NotFound),
        (wide_argument, Code::OutOfRange),
        (missing_argument, Code::InvalidArgument),
        (extra_argument, Code::InvalidArgument),
        (rig.entry("lpm_table", vec![(2, exact(1))], "police", &[]), Code::InvalidArgument),
        (rig.entry("exact_table", vec![(1, exact(1))], "NoAction", &[]), Code::PermissionDenied),
        (
            TableEntry { priority: 1, ..rig.entry("const_table", vec![], "to_cpu", &[]) },
            Code::PermissionDenied,
        ),
    ];
    for (entry, code) in cases {
        assert_eq!(controller.refused(Insert, table(entry.clone())), code, "{entry:?}");
    }
    let pattern = |table_id| TableEntry { table_id, ..TableEntry::default() };
    assert_eq!(controller.entries(pattern(rig.table("lpm_table"))), []);
    assert_eq!(controller.refused(UpdateType::Unspecified, table(pattern(1))), Code::InvalidArgument);
    let nothing = Update { r#type: Insert as i32, entity: None };
    let status = controller.write_batch(vec![nothing], Atomicity::ContinueOnError).unwrap_err();
    assert_eq!(codes(&status), [Code::InvalidArgument as i32]);
    rig.stop();
}

#[test]
fn default_entries_are_modified_and_reset() {
    let (rig, controller) = Rig::start();
    let default_of = |name: &str| TableEntry {
        table_id: rig.table(name),
        is_default_action: true,
        ..TableEntry::default()
    };
    let read = |name: &str| controller.entries(default_of(name)).remove(0);
    let no_action = rig.entry("lpm_table", vec![], "NoAction", &[]).action;
    assert_eq!(read("lpm_table").action, no_action);
    let forward = TableEntry {
        controller_metadata: 9,
        action: rig.entry("lpm_table", vec![], "forward", &[7]).action,
        ..default_of("lpm_table")
    };
    controller.done(Modify, table(forward.clone()));
    assert_eq!(read("lpm_table"), forward);
    controller.done(Modify, table(default_of("lpm_table")));
    assert_eq!(read("lpm_table"), TableEntry { action: no_action, ..default_of("lpm_table") });
    let refused = |kind, entry: TableEntry| controller.refused(kind, table(entry));
    assert_eq!(refused(Insert, forward.clone()), Code::InvalidArgument);
    assert_eq!(refused(Delete, forward.clone()), Code::InvalidArgument);
    assert_eq!(refused(Modify, TableEntry { priority: 1, ..forward.clone() }), Code::InvalidArgument);
    assert_eq!(refused(Modify, TableEntry { idle_timeout_ns: 1, ..forward }), Code::InvalidArgument);
    let table_only = TableEntry {
        action: rig.entry("ternary_table", vec![], "tag", &[1, 2]).action,
        ..default_of("ternary_table")
    };
    assert_eq!(refused(Modify, table_only), Code::PermissionDenied);
    let of_const = TableEntry {
        action: rig.entry("const_table", vec![], "to_cpu", &[]).action,
        ..default_of("const_table")
    };
    assert_eq!(refused(Modify, of_const), Code::PermissionDenied);
    let of_profile = TableEntry {
        action: rig.entry("select_table", vec![], "drop", &[]).action,
        ..default_of("select_table")
    };
    assert_eq!(refused(Modify, of_profile), Code::PermissionDenied);
    assert_eq!(controller.entries(TableEntry { is_default_action: true, ..TableEntry::default() }).len(), 8);
    rig.stop();
}

#[test]
fn constant_entries_have_priorities_that_count_down() {
    let (rig, controller) = Rig::start();
    let entries =
        controller.entries(TableEntry { table_id: rig.table("const_table"), ..TableEntry::default() });
    let mut seen: Vec<(i32, bool, MatchValue)> = entries
        .iter()
        .map(|entry| (entry.priority, entry.is_const, entry.r#match[0].field_match_type.clone().unwrap()))
        .collect();
    seen.sort_by_key(|(priority, ..)| -priority);
    assert_eq!(seen, [(2, true, ternary(0x88cc, 0xffff)), (1, true, ternary(0x8800, 0xff00))]);
    let key = TableEntry { action: None, is_const: false, ..entries[0].clone() };
    assert_eq!(controller.refused(Delete, table(key.clone())), Code::PermissionDenied);
    assert_eq!(
        controller.refused(Modify, table(TableEntry { action: entries[0].action.clone(), ..key })),
        Code::PermissionDenied
    );
    rig.stop();
}

#[test]
fn counters_meters_and_registers() {
    let (rig, controller) = Rig::start();
    let client = &controller.client;
    let index = |index| Some(Index { index });
    let counter_id = rig.object("port_counter");
    let counter = |at: i64, packet_count, byte_count| {
        EntityKind::CounterEntry(CounterEntry {
            counter_id,
            index: index(at),
            data: Some(CounterData { byte_count, packet_count }),
        })
    };
    let pattern =
        |at: Option<Index>| EntityKind::CounterEntry(CounterEntry { counter_id, index: at, data: None });
    controller.done(Modify, counter(3, 4, 500));
    assert_eq!(controller.one(pattern(index(3))), counter(3, 4, 500));
    assert_eq!(client.read(pattern(None)).unwrap().len(), 16);
    assert_eq!(client.read(EntityKind::CounterEntry(CounterEntry::default())).unwrap().len(), 16);
    assert_eq!(controller.refused(Modify, counter(16, 0, 0)), Code::OutOfRange);
    assert_eq!(controller.refused(Modify, counter(-1, 0, 0)), Code::InvalidArgument);
    assert_eq!(controller.refused(Modify, counter(1, -1, 0)), Code::InvalidArgument);
    assert_eq!(controller.refused(Insert, counter(1, 0, 0)), Code::InvalidArgument);
    assert_eq!(controller.refused(Delete, counter(1, 0, 0)), Code::InvalidArgument);
    assert_eq!(client.read_refused(pattern(index(16))), Code::OutOfRange as i32);
    // Without an index: all; without data: none.
    let all =
        CounterEntry { counter_id, index: None, data: Some(CounterData { byte_count: 8, packet_count: 1 }) };
    controller.done(Modify, EntityKind::CounterEntry(all));
    controller.done(Modify, pattern(index(2)));
    let sum: i64 =
        client
            .read(pattern(None))
            .unwrap()
            .iter()
            .map(|entity| {
                if let EntityKind::CounterEntry(entry) = entity { entry.data.unwrap().byte_count } else { 0 }
            })
            .sum();
    assert_eq!(sum, 128);

    let meter_id = rig.object("port_meter");
    let config = MeterConfig { cir: 1_000, cburst: 10, pir: 2_000, pburst: 20, eburst: 0 };
    let meter = |at, config| {
        EntityKind::MeterEntry(MeterEntry { meter_id, index: index(at), config, counter_data: None })
    };
    assert_eq!(controller.one(meter(1, None)), meter(1, None));
    controller.done(Modify, meter(1, Some(config)));
    assert_eq!(controller.one(meter(1, None)), meter(1, Some(config)));
    controller.done(Modify, meter(1, None));
    assert_eq!(controller.one(meter(1, None)), meter(1, None));
    assert_eq!(client.read(EntityKind::MeterEntry(MeterEntry::default())).unwrap().len(), 8);
    for wrong in [
        MeterConfig { cir: -1, ..config },
        MeterConfig { pir: 999, ..config },
        MeterConfig { eburst: 1, ..config },
    ] {
        assert_eq!(controller.refused(Modify, meter(1, Some(wrong))), Code::InvalidArgument);
    }
    assert_eq!(controller.refused(Modify, meter(8, Some(config))), Code::OutOfRange);
    let coloured = MeterEntry {
        meter_id,
        index: index(0),
        config: None,
        counter_data: Some(MeterCounterData::default()),
    };
    assert_eq!(controller.refused(Modify, EntityKind::MeterEntry(coloured)), Code::Unimplemented);

    let data = |value: Vec<u8>| Some(P4Data { data: Some(P4DataKind::Bitstring(value)) });
    let register =
        |register_id, at, data| EntityKind::RegisterEntry(RegisterEntry { register_id, index: at, data });
    let (seen, offset) = (rig.object("seen"), rig.object("offset"));
    controller.done(Modify, register(seen, index(5), data(number(0xdead_beef))));
    assert_eq!(
        controller.one(register(seen, index(5), None)),
        register(seen, index(5), data(number(0xdead_beef)))
    );
    controller.done(Modify, register(seen, None, data(vec![0, 7])));
    let all = client.read(register(seen, None, None)).unwrap();
    assert_eq!(
        (
            all.len(),
            all.iter().all(|one| matches!(one, EntityKind::RegisterEntry(r) if r.data == data(vec![7])))
        ),
        (16, true)
    );
    // int<20>: minus three.
    controller.done(Modify, register(offset, index(0), data(vec![0xff, 0xfd])));
    assert_eq!(
        controller.one(register(offset, index(0), None)),
        register(offset, index(0), data(vec![0xfd]))
    );
    assert_eq!(client.read(register(0, None, None)).unwrap().len(), 20);
    assert_eq!(controller.refused(Modify, register(seen, index(16), data(vec![1]))), Code::OutOfRange);
    assert_eq!(
        controller.refused(Modify, register(seen, index(0), data(vec![1, 0, 0, 0, 0]))),
        Code::OutOfRange
    );
    assert_eq!(
        controller.refused(Modify, register(offset, index(0), data(vec![0x08, 0, 0]))),
        Code::OutOfRange
    );
    assert_eq!(controller.refused(Modify, register(seen, index(0), None)), Code::InvalidArgument);
    let truth = Some(P4Data { data: Some(P4DataKind::Bool(true)) });
    assert_eq!(controller.refused(Modify, register(seen, index(0), truth)), Code::InvalidArgument);
    assert_eq!(controller.refused(Insert, register(seen, index(0), data(vec![1]))), Code::InvalidArgument);
    assert_eq!(controller.refused(Modify, register(1, index(0), data(vec![1]))), Code::NotFound);
    rig.stop();
}

#[test]
fn direct_counters_and_meters_belong_to_their_entries() {
    let (rig, controller) = Rig::start();
    let value = |packet_count| CounterData { packet_count, byte_count: packet_count * 60 };
    let counted = |at: u64| rig.entry("exact_table", vec![(1, exact(at))], "counted_forward", &[1]);
    controller.done(Insert, table(TableEntry { counter_data: Some(value(5)), ..counted(1) }));
    controller.done(Insert, table(counted(2)));
    let key = |at: u64| TableEntry { action: None, ..counted(at) };
    let counter = |entry: TableEntry, data| {
        EntityKind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(entry), data })
    };
    assert_eq!(controller.one(counter(key(1), None)), counter(key(1), Some(value(5))));
    controller.done(Modify, counter(key(2), Some(value(7))));
    let with_counters = TableEntry { counter_data: Some(CounterData::default()), ..TableEntry::default() };
    let mut counts: Vec<i64> = controller
        .entries(with_counters.clone())
        .iter()
        .filter_map(|entry| entry.counter_data)
        .map(|data| data.packet_count)
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [5, 7]);
    assert_eq!(controller.entries(counted(1))[0].counter_data, None);
    // MODIFY without counter data keeps it.
    controller.done(Modify, table(counted(1)));
    assert_eq!(controller.one(counter(key(1), None)), counter(key(1), Some(value(5))));
    assert_eq!(controller.client.read(counter(TableEntry::default(), None)).unwrap().len(), 2);
    assert_eq!(controller.client.read_refused(counter(key(3), None)), Code::NotFound as i32);
    assert_eq!(controller.refused(Insert, counter(key(1), Some(value(1)))), Code::InvalidArgument);
    let of_lpm = rig.entry("lpm_table", vec![(2, exact(1))], "drop", &[]);
    controller.done(Insert, table(of_lpm.clone()));
    assert_eq!(controller.refused(Modify, counter(of_lpm, Some(value(1)))), Code::InvalidArgument);

    let config = MeterConfig { cir: 1_000_000, cburst: 1500, pir: 2_000_000, pburst: 3000, eburst: 0 };
    let policed = TableEntry {
        meter_config: Some(config),
        ..rig.entry("police_table", vec![(1, exact(4))], "police", &[])
    };
    controller.done(Insert, table(policed.clone()));
    let key = TableEntry { action: None, meter_config: None, ..policed.clone() };
    let meter = |config| {
        EntityKind::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(key.clone()),
            config,
            counter_data: None,
        })
    };
    assert_eq!(controller.one(meter(None)), meter(Some(config)));
    let with_meters = TableEntry {
        meter_config: Some(MeterConfig::default()),
        table_id: key.table_id,
        ..TableEntry::default()
    };
    assert_eq!(controller.entries(with_meters.clone()), [policed.clone()]);
    let other = MeterConfig { cburst: 9000, pburst: 9000, ..config };
    controller.done(Modify, meter(Some(other)));
    assert_eq!(controller.one(meter(None)), meter(Some(other)));
    // MODIFY of the entry without a configuration resets it.
    controller.done(Modify, table(TableEntry { meter_config: None, ..policed }));
    assert_eq!(controller.one(meter(None)), meter(None));
    assert_eq!(controller.refused(Delete, meter(None)), Code::InvalidArgument);
    rig.stop();
}

#[test]
fn value_sets_digests_and_replication() {
    let (rig, controller) = Rig::start();
    let value_set_id = rig.object("vlan_types");
    let set = |values: &[u64]| {
        let member = |value: &u64| ValueSetMember {
            r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact(*value)) }],
        };
        EntityKind::ValueSetEntry(ValueSetEntry {
            value_set_id,
            members: values.iter().map(member).collect(),
        })
    };
    controller.done(Modify, set(&[0x8100, 0x88a8]));
    assert_eq!(controller.one(set(&[])), set(&[0x8100, 0x88a8]));
    assert_eq!(controller.refused(Modify, set(&[1, 2, 3, 4, 5])), Code::ResourceExhausted);
    assert_eq!(controller.refused(Modify, set(&[1, 1])), Code::AlreadyExists);
    assert_eq!(controller.refused(Modify, set(&[0x1_0000])), Code::OutOfRange);
    assert_eq!(controller.refused(Insert, set(&[1])), Code::InvalidArgument);
    assert_eq!(controller.one(set(&[])), set(&[0x8100, 0x88a8]));
    controller.done(Modify, set(&[]));
    assert_eq!(controller.one(set(&[])), set(&[]));

    let digest_id = rig.object("learned_t");
    let digest = |max_timeout_ns| {
        let config = DigestConfig { max_timeout_ns, max_list_size: 10, ack_timeout_ns: 1_000_000_000 };
        EntityKind::DigestEntry(DigestEntry { digest_id, config: Some(config) })
    };
    assert_eq!(controller.refused(Modify, digest(1)), Code::NotFound);
    controller.done(Insert, digest(5_000_000));
    assert_eq!(controller.refused(Insert, digest(5_000_000)), Code::AlreadyExists);
    controller.done(Modify, digest(7_000_000));
    assert_eq!(controller.one(EntityKind::DigestEntry(DigestEntry::default())), digest(7_000_000));
    assert_eq!(controller.refused(Modify, digest(-1)), Code::InvalidArgument);
    controller.done(Delete, digest(0));
    assert_eq!(controller.refused(Delete, digest(0)), Code::NotFound);

    let engine = |entry| {
        EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(entry) })
    };
    let port = |port: u64, instance| Replica { instance, port_kind: Some(ReplicaPort::Port(number(port))) };
    let old_port = |port, instance| Replica { instance, port_kind: Some(ReplicaPort::EgressPort(port)) };
    let group = |multicast_group_id, replicas: &[Replica]| {
        let entry =
            MulticastGroupEntry { multicast_group_id, replicas: replicas.to_vec(), metadata: b"m".to_vec() };
        engine(ReplicationEntry::MulticastGroupEntry(entry))
    };
    controller.done(Insert, group(7, &[port(1, 1), old_port(2, 2), port(2, 3)]));
    assert_eq!(controller.one(group(7, &[])), group(7, &[port(1, 1), old_port(2, 2), port(2, 3)]));
    assert_eq!(controller.refused(Insert, group(7, &[])), Code::AlreadyExists);
    controller.done(Modify, group(7, &[port(3, 0)]));
    assert_eq!(controller.one(group(0, &[])), group(7, &[port(3, 0)]));
    for wrong in [
        group(0, &[]),
        group(8, &[port(1, 1), port(1, 1)]),
        group(8, &[port(1, 1 << 16)]),
        group(40_000, &[]),
    ] {
        assert_eq!(controller.refused(Insert, wrong), Code::InvalidArgument);
    }
    assert_eq!(controller.refused(Insert, group(8, &[Replica::default()])), Code::InvalidArgument);
    controller.done(Delete, group(7, &[]));
    assert_eq!(controller.refused(Delete, group(7, &[])), Code::NotFound);
    assert!(rig.switch().mc_dump().groups.is_empty() && rig.switch().mc_dump().nodes.is_empty());

    let session = |session_id, replicas: &[Replica], packet_length_bytes| {
        let entry = CloneSessionEntry {
            session_id,
            replicas: replicas.to_vec(),
            class_of_service: 0,
            packet_length_bytes,
        };
        engine(ReplicationEntry::CloneSessionEntry(entry))
    };
    controller.done(Insert, session(100, &[port(0xffff_fffd, 0)], 64));
    assert_eq!(controller.one(session(100, &[], 0)), session(100, &[port(0xffff_fffd, 0)], 64));
    let mirror = rig.switch().mirror(100).unwrap();
    assert_eq!((mirror.egress_port, mirror.truncate_bytes), (Some(CPU_PORT), 64));
    controller.done(Modify, session(100, &[port(1, 1), port(2, 2)], 0));
    let mirror = rig.switch().mirror(100).unwrap();
    assert_eq!((mirror.egress_port, mirror.truncate_bytes), (None, 0));
    assert_eq!(rig.switch().mc_dump().groups.len(), 1);
    controller.done(Modify, session(100, &[port(2, 0)], 0));
    assert!(rig.switch().mc_dump().groups.is_empty());
    assert_eq!(controller.refused(Insert, session(0, &[], 0)), Code::InvalidArgument);
    assert_eq!(controller.refused(Insert, session(32_768, &[], 0)), Code::InvalidArgument);
    assert_eq!(controller.refused(Insert, session(5, &[], -1)), Code::InvalidArgument);
    let with_class = |class_of_service| {
        let replicas = vec![port(2, 0)];
        let entry = CloneSessionEntry { session_id: 101, replicas, class_of_service, packet_length_bytes: 0 };
        engine(ReplicationEntry::CloneSessionEntry(entry))
    };
    controller.done(Insert, with_class(5));
    assert_eq!(controller.one(session(101, &[], 0)), with_class(5));
    assert_eq!(rig.switch().mirror(101).unwrap().class_of_service, 5);
    assert_eq!(controller.refused(Modify, with_class(8)), Code::InvalidArgument);
    controller.done(Delete, session(100, &[], 0));
    assert!(rig.switch().mirror(100).is_err());
    let nothing = EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: None });
    assert_eq!(controller.refused(Insert, nothing), Code::InvalidArgument);
    rig.stop();
}

#[test]
fn batches_report_each_update_and_roll_back_when_asked() {
    let (rig, controller) = Rig::start();
    let entry = |at: u64| table(rig.entry("exact_table", vec![(1, exact(at))], "counted_forward", &[1]));
    let bad = || table(rig.entry("exact_table", vec![(1, exact(9))], "counted_forward", &[]));
    let batch = || {
        vec![
            update(Insert, entry(1)),
            update(Insert, bad()),
            update(Insert, entry(2)),
            update(Insert, entry(1)),
        ]
    };
    let pattern = || TableEntry { table_id: rig.table("exact_table"), ..TableEntry::default() };
    let status = controller.write_batch(batch(), Atomicity::ContinueOnError).unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(codes(&status), [0, 3, 0, 6]);
    assert_eq!(controller.entries(pattern()).len(), 2);

    // What was there before a batch that fails is there after it.
    let register = |value| {
        let data = Some(P4Data { data: Some(P4DataKind::Bitstring(vec![value])) });
        EntityKind::RegisterEntry(RegisterEntry {
            register_id: rig.object("seen"),
            index: Some(Index { index: 1 }),
            data,
        })
    };
    controller.done(Modify, register(5));
    let marked = TableEntry {
        metadata: b"keep".to_vec(),
        counter_data: Some(CounterData { packet_count: 3, byte_count: 200 }),
        ..rig.entry("exact_table", vec![(1, exact(1))], "counted_forward", &[1])
    };
    controller.done(Modify, table(marked.clone()));
    let before = controller.entries(TableEntry { counter_data: Some(CounterData::default()), ..pattern() });
    let group = |replicas: Vec<Replica>| {
        let entry = MulticastGroupEntry { multicast_group_id: 3, replicas, metadata: vec![] };
        let kind = Some(ReplicationEntry::MulticastGroupEntry(entry));
        EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: kind })
    };
    let failing = vec![
        update(Insert, entry(3)),
        update(Delete, entry(1)),
        update(Modify, table(rig.entry("exact_table", vec![(1, exact(2))], "drop", &[]))),
        update(Modify, register(6)),
        update(Insert, group(vec![Replica { instance: 1, port_kind: Some(ReplicaPort::EgressPort(1)) }])),
        update(Insert, bad()),
        update(Insert, entry(4)),
    ];
    let status = controller.write_batch(failing, Atomicity::RollbackOnError).unwrap_err();
    assert_eq!(codes(&status), [10, 10, 10, 10, 10, 3, 10]);
    let sorted = |mut entries: Vec<TableEntry>| {
        entries.sort_by_key(|entry| format!("{:?}", entry.r#match));
        entries
    };
    let after = controller.entries(TableEntry { counter_data: Some(CounterData::default()), ..pattern() });
    assert_eq!(sorted(after), sorted(before));
    assert_eq!(controller.one(register(0)), register(5));
    assert!(rig.switch().mc_dump().groups.is_empty());

    let both = vec![update(Insert, entry(3)), update(Delete, entry(2))];
    controller.write_batch(both, Atomicity::RollbackOnError).unwrap();
    assert_eq!(controller.entries(pattern()).len(), 2);

    // At once, or not at all.
    let some = vec![update(Insert, entry(5)), update(Insert, entry(6)), update(Delete, entry(3))];
    controller.write_batch(some, Atomicity::DataplaneAtomic).unwrap();
    assert_eq!(controller.entries(pattern()).len(), 3);
    let twice = vec![update(Insert, entry(7)), update(Insert, entry(5)), update(Delete, entry(6))];
    let status = controller.write_batch(twice, Atomicity::DataplaneAtomic).unwrap_err();
    assert_eq!(codes(&status), [10, 6, 10]);
    assert_eq!(controller.entries(pattern()).len(), 3);
    let mixed = vec![update(Insert, entry(7)), update(Modify, register(1))];
    let status = controller.write_batch(mixed, Atomicity::DataplaneAtomic).unwrap_err();
    assert_eq!(codes(&status), [12, 12]);
    rig.stop();
}

#[test]
fn reads_report_each_pattern() {
    let (rig, controller) = Rig::start();
    let entities = vec![
        entity(EntityKind::CounterEntry(CounterEntry {
            counter_id: rig.object("port_counter"),
            ..CounterEntry::default()
        })),
        entity(EntityKind::CounterEntry(CounterEntry { counter_id: 5, ..CounterEntry::default() })),
        Entity { entity: None },
        entity(EntityKind::ExternEntry(ExternEntry { extern_type_id: 200, ..ExternEntry::default() })),
    ];
    let request = ReadRequest { device_id: DEVICE, entities, ..ReadRequest::default() };
    let (found, status) = controller.client.read_request(request);
    assert_eq!(found.len(), 16);
    assert_eq!(codes(&status.unwrap_err()), [0, 5, 3, 12]);
    rig.stop();
}

#[test]
fn twenty_thousand_entries_are_written_and_read_in_pieces() {
    let (rig, controller) = Rig::start();
    let entry = |at: u64| {
        table(rig.entry("lpm_table", vec![(1, lpm(at << 16, 32)), (2, exact(1))], "forward", &[at & 0xff]))
    };
    let started = barewire_engine::now();
    for first in (0..20_000).step_by(500) {
        let updates = (first..first + 500).map(|at| update(Insert, entry(at))).collect();
        controller.write_batch(updates, Atomicity::ContinueOnError).unwrap();
    }
    let ns = barewire_engine::now().as_nanos() - started.as_nanos();
    eprintln!("20000 entries in batches of 500: {:.0} writes/s", 20_000e9 / ns as f64);
    let wanted = TableEntry { table_id: rig.table("lpm_table"), ..TableEntry::default() };
    let request = ReadRequest {
        device_id: DEVICE,
        entities: vec![entity(table(wanted.clone()))],
        ..ReadRequest::default()
    };
    let (found, messages) = controller.client.read_request(request);
    assert_eq!(found.len(), 20_000);
    assert!(messages.unwrap() > 10);
    let updates: Vec<Update> = (0..20_000).map(|at| update(Delete, entry(at))).collect();
    controller.write_batch(updates, Atomicity::ContinueOnError).unwrap();
    assert_eq!(controller.entries(wanted), []);
    rig.stop();
}
