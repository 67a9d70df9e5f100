//! Programs: verified, saved, committed, reconciled, refused.

use crate::rig::*;
use UpdateType::{Delete, Insert, Modify};
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use std::time::Duration;
use tonic::Code;

fn entry(rig: &Rig, key: u64) -> EntityKind {
    EntityKind::TableEntry(rig.entry("exact_table", vec![(1, exact(key))], "counted_forward", &[1]))
}

#[test]
fn nothing_works_before_a_program_is_pushed() {
    let rig = Rig::empty();
    let mut controller = rig.controller(1);
    controller.become_primary();
    assert_eq!(controller.write(Insert, entry(&rig, 1)).unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(controller.client.read(entry(&rig, 1)).unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(controller.client.get_config(ResponseType::All), None);
    controller.send(StreamRequest::Packet(PacketOut::default()));
    let Some(StreamResponse::Error(error)) = controller.next().unwrap() else {
        panic!("an error was expected")
    };
    assert_eq!(error.canonical_code, Code::FailedPrecondition as i32);
    controller.push(ConfigAction::Verify, Some(config())).unwrap();
    assert!(rig.switch().program().is_none());
    controller.push(ConfigAction::VerifyAndCommit, Some(config())).unwrap();
    controller.done(Insert, entry(&rig, 1));
    rig.stop();
}

#[test]
fn the_config_is_given_back_as_it_was_pushed() {
    let (rig, controller) = Rig::start();
    let client = &controller.client;
    let pushed = config();
    assert_eq!(client.get_config(ResponseType::All), Some(pushed.clone()));
    let only_cookie =
        ForwardingPipelineConfig { cookie: pushed.cookie, ..ForwardingPipelineConfig::default() };
    assert_eq!(client.get_config(ResponseType::CookieOnly), Some(only_cookie.clone()));
    let with_info = ForwardingPipelineConfig { p4info: pushed.p4info.clone(), ..only_cookie.clone() };
    assert_eq!(client.get_config(ResponseType::P4infoAndCookie), Some(with_info));
    let with_program = ForwardingPipelineConfig { p4_device_config: pushed.p4_device_config, ..only_cookie };
    assert_eq!(client.get_config(ResponseType::DeviceConfigAndCookie), Some(with_program));
    rig.stop();
}

#[test]
fn what_is_wrong_with_a_program_is_said_and_the_old_one_goes_on() {
    let (rig, controller) = Rig::start();
    controller.done(Insert, entry(&rig, 1));
    let refused = |change: &dyn Fn(&mut ForwardingPipelineConfig)| {
        let mut config = config();
        change(&mut config);
        let status = controller.push(ConfigAction::VerifyAndCommit, Some(config)).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        status.message().to_owned()
    };
    let says =
        |message: String, words: &str| assert!(message.contains(words), "'{message}' does not say '{words}'");
    says(refused(&|config| config.p4info = None), "p4info is not set");
    says(refused(&|config| config.p4_device_config.clear()), "p4_device_config is empty");
    says(refused(&|config| config.p4_device_config.truncate(1000)), "line");
    says(refused(&|config| config.p4_device_config[5] = 0xff), "UTF-8 at byte 5");
    let info = |config: &mut ForwardingPipelineConfig| config.p4info.take().unwrap();
    says(
        refused(&|config| {
            let mut changed = info(config);
            changed.tables[0].preamble.as_mut().unwrap().name = "IngressImpl.polise_table".into();
            config.p4info = Some(changed);
        }),
        "did you mean 'IngressImpl.police_table'",
    );
    says(
        refused(&|config| {
            let mut changed = info(config);
            let table = changed
                .tables
                .iter_mut()
                .find(|t| t.preamble.as_ref().unwrap().alias == "lpm_table")
                .unwrap();
            table.match_fields[0].bitwidth = 47;
            config.p4info = Some(changed);
        }),
        "field 'hdr.ethernet.src': it has 47 bits, in the program 48",
    );
    says(
        refused(&|config| {
            let mut changed = info(config);
            let id = changed.tables[0].preamble.as_ref().unwrap().id;
            changed.tables[1].preamble.as_mut().unwrap().id = id;
            config.p4info = Some(changed);
        }),
        "is another's already",
    );
    says(
        refused(&|config| {
            let mut changed = info(config);
            changed.tables[0].action_refs[0].id = 12;
            config.p4info = Some(changed);
        }),
        "it refers to action 12",
    );
    assert_eq!(
        controller.push(ConfigAction::Unspecified, Some(config())).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(
        controller.push(ConfigAction::VerifyAndCommit, None).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(controller.push(ConfigAction::Commit, None).unwrap_err().code(), Code::NotFound);
    assert_eq!(
        controller.push(ConfigAction::Commit, Some(config())).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert!(matches!(controller.one(entry(&rig, 1)), EntityKind::TableEntry(_)));
    rig.stop();
}

#[test]
fn committing_clears_the_state() {
    let (rig, controller) = Rig::start();
    controller.done(Insert, entry(&rig, 1));
    let replica = Replica { instance: 0, port_kind: Some(ReplicaPort::EgressPort(1)) };
    let group = MulticastGroupEntry { multicast_group_id: 2, replicas: vec![replica], metadata: vec![] };
    let group = EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(ReplicationEntry::MulticastGroupEntry(group)),
    });
    controller.done(Insert, group.clone());
    controller.push(ConfigAction::VerifyAndCommit, Some(config())).unwrap();
    assert_eq!(controller.client.read(entry(&rig, 1)).unwrap(), []);
    assert!(rig.switch().mc_dump().groups.is_empty());
    controller.done(Insert, group);
    rig.stop();
}

#[test]
fn what_is_written_to_a_saved_program_comes_with_its_commit() {
    let (rig, controller) = Rig::start();
    controller.done(Insert, entry(&rig, 1));
    controller
        .push(ConfigAction::VerifyAndSave, Some(ForwardingPipelineConfig { cookie: None, ..config() }))
        .unwrap();
    // Reads and writes are the saved program's; the one that runs keeps its entry.
    assert_eq!(controller.client.read(entry(&rig, 1)).unwrap(), []);
    controller.done(Insert, entry(&rig, 2));
    assert_eq!(controller.refused(Insert, entry(&rig, 2)), Code::AlreadyExists);
    let table = rig.switch().table("IngressImpl.exact_table").unwrap();
    let key =
        |switch: &barewire_switch::control::Switch| format!("{:?}", switch.entries(table).unwrap()[0].key);
    let before = key(rig.switch());
    assert_eq!(rig.switch().num_entries(table).unwrap(), 1);
    controller.push(ConfigAction::Commit, None).unwrap();
    assert_eq!(controller.client.read(entry(&rig, 1)).unwrap(), []);
    assert_eq!(controller.client.read(entry(&rig, 2)).unwrap().len(), 1);
    assert_eq!(rig.switch().num_entries(table).unwrap(), 1);
    assert_ne!(key(rig.switch()), before);
    assert_eq!(
        controller.client.get_config(ResponseType::CookieOnly),
        Some(ForwardingPipelineConfig::default())
    );
    rig.stop();
}

#[test]
fn reconciling_keeps_what_was_written() {
    let (rig, controller) = Rig::start();
    let counted = TableEntry {
        counter_data: Some(CounterData { packet_count: 2, byte_count: 120 }),
        metadata: b"kept".to_vec(),
        ..rig.entry("exact_table", vec![(1, exact(5))], "counted_forward", &[1])
    };
    controller.done(Insert, EntityKind::TableEntry(counted.clone()));
    let ternary_entry = TableEntry {
        priority: 3,
        ..rig.entry("ternary_table", vec![(1, ternary(0xff, 0xff))], "tag", &[1, 2])
    };
    controller.done(Insert, EntityKind::TableEntry(ternary_entry.clone()));
    let choice = ActionProfileAction { action: Some(rig.call("forward", &[2])), weight: 1, watch_kind: None };
    let set =
        ActionChoice::ActionProfileActionSet(ActionProfileActionSet { action_profile_actions: vec![choice] });
    let in_place = TableEntry {
        action: Some(TableAction { r#type: Some(set) }),
        ..rig.entry("select_table", vec![(1, exact(6))], "drop", &[])
    };
    controller.done(Insert, EntityKind::TableEntry(in_place.clone()));
    let value =
        ValueSetMember { r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact(0x8100)) }] };
    let set = EntityKind::ValueSetEntry(ValueSetEntry {
        value_set_id: rig.object("vlan_types"),
        members: vec![value],
    });
    controller.done(Modify, set.clone());
    let counter = EntityKind::CounterEntry(CounterEntry {
        counter_id: rig.object("port_counter"),
        index: Some(Index { index: 4 }),
        data: Some(CounterData { packet_count: 1, byte_count: 2 }),
    });
    controller.done(Modify, counter.clone());

    // The same program by other numbers.
    let mut other = config();
    let info = other.p4info.as_mut().unwrap();
    let moved = |id: u32| id ^ 0x1000;
    for table in &mut info.tables {
        let preamble = table.preamble.as_mut().unwrap();
        preamble.id = moved(preamble.id);
        table.match_fields.iter_mut().for_each(|field| field.id += 10);
    }
    for meter in &mut info.direct_meters {
        meter.direct_table_id = moved(meter.direct_table_id);
    }
    controller.push(ConfigAction::ReconcileAndCommit, Some(other)).unwrap();
    let renumbered = |entry: &TableEntry| {
        let mut entry = entry.clone();
        entry.table_id = moved(entry.table_id);
        entry.r#match.iter_mut().for_each(|field| field.field_id += 10);
        entry
    };
    for entry in [counted, ternary_entry, in_place] {
        let wanted = renumbered(&entry);
        assert_eq!(controller.entries(wanted.clone()), [wanted]);
    }
    assert_eq!(controller.one(set.clone()), set);
    assert_eq!(controller.one(counter.clone()), counter);

    // A program that cannot take it all changes nothing.
    let mut smaller = config();
    let json = String::from_utf8(smaller.p4_device_config).unwrap();
    let fewer = json
        .replacen("\"max_size\" : 128", "\"max_size\" : 0", 1)
        .replace("IngressImpl.exact_table", "IngressImpl.other_table");
    smaller.p4_device_config = fewer.into_bytes();
    let info = smaller.p4info.as_mut().unwrap();
    let table = info.tables.iter_mut().find(|t| t.preamble.as_ref().unwrap().alias == "exact_table").unwrap();
    table.preamble.as_mut().unwrap().name = "IngressImpl.other_table".into();
    let status = controller.push(ConfigAction::ReconcileAndCommit, Some(smaller)).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("exact_table"), "{status:?}");
    assert_eq!(controller.one(set.clone()), set);
    rig.stop();
}

#[test]
fn a_swap_by_another_control_plane_is_noticed() {
    let (rig, controller) = Rig::start();
    controller.done(Insert, entry(&rig, 1));
    rig.switch().commit(PROGRAM).unwrap();
    // The same program: the P4Info still fits, the entries are gone.
    assert_eq!(controller.client.read(entry(&rig, 1)).unwrap(), []);
    controller.done(Insert, entry(&rig, 1));
    controller.done(Delete, entry(&rig, 1));
    rig.switch().commit(&PROGRAM.replace("IngressImpl.exact_table", "IngressImpl.other_table")).unwrap();
    assert_eq!(controller.write(Insert, entry(&rig, 1)).unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(controller.client.get_config(ResponseType::All), None);
    controller.push(ConfigAction::VerifyAndCommit, Some(config())).unwrap();
    controller.done(Insert, entry(&rig, 1));
    rig.stop();
}

fn replicas(ports: &[u32]) -> Vec<Replica> {
    let replica = |port: &u32| Replica { instance: 0, port_kind: Some(ReplicaPort::EgressPort(*port)) };
    ports.iter().map(replica).collect()
}

fn multicast(id: u32, ports: &[u32]) -> EntityKind {
    let group = MulticastGroupEntry { multicast_group_id: id, replicas: replicas(ports), metadata: vec![] };
    EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(ReplicationEntry::MulticastGroupEntry(group)),
    })
}

fn session(id: u32, ports: &[u32]) -> EntityKind {
    let session = CloneSessionEntry { session_id: id, replicas: replicas(ports), ..Default::default() };
    EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(ReplicationEntry::CloneSessionEntry(session)),
    })
}

#[test]
fn reconciling_keeps_groups_and_sessions_in_the_switch_too() {
    let (rig, controller) = Rig::start_with_ports(3);
    let (mut one, mut two, mut three) = (rig.wire(1), rig.wire(2), rig.wire(3));
    controller.done(Insert, multicast(5, &[2, 3]));
    controller.done(Insert, session(7, &[2]));
    let flood = rig.entry("lpm_table", vec![(1, lpm(0x0600_0000_0000, 8)), (2, exact(1))], "flood", &[5]);
    controller.done(Insert, EntityKind::TableEntry(flood));
    controller.push(ConfigAction::ReconcileAndCommit, Some(config())).unwrap();
    assert_eq!((rig.switch().mc_dump().groups.len(), rig.switch().mirrors().len()), (1, 1));
    let packet = frame(0xff, 0x0611_2233_4455, 0x1111);
    one.send(&packet);
    assert_eq!((two.receive(1, PATIENCE).len(), three.receive(1, PATIENCE).len()), (1, 1));
    assert_eq!(controller.refused(Insert, multicast(5, &[2])), Code::AlreadyExists);
    controller.done(Modify, session(7, &[2, 3]));
    controller.done(Delete, session(7, &[]));
    controller.done(Delete, multicast(5, &[]));
    assert_eq!((rig.switch().mc_dump().groups.len(), rig.switch().mirrors().len()), (0, 0));
    rig.stop();
}

/// The test's config with a change in a table of its JSON.
fn with_table(name: &str, change: impl FnOnce(&mut serde_json::Value)) -> ForwardingPipelineConfig {
    let mut config = config();
    let mut json: serde_json::Value = serde_json::from_slice(&config.p4_device_config).unwrap();
    let pipelines = json["pipelines"].as_array_mut().unwrap();
    let mut tables = pipelines.iter_mut().flat_map(|pipeline| pipeline["tables"].as_array_mut().unwrap());
    change(tables.find(|table| table["name"] == name).expect("the table is there"));
    config.p4_device_config = serde_json::to_vec(&json).unwrap();
    config
}

fn default_of(rig: &Rig, table: &str) -> TableEntry {
    TableEntry { table_id: rig.table(table), is_default_action: true, ..TableEntry::default() }
}

#[test]
fn reconciling_leaves_to_the_program_what_the_program_says() {
    let (rig, controller) = Rig::start();
    // The table's second action is `flood`, its fourth `drop`.
    let dropping = with_table("IngressImpl.lpm_table", |table| {
        let drop = table["action_ids"][3].clone();
        table["default_entry"]["action_id"] = drop;
    });
    let action = |table| controller.entries(default_of(&rig, table))[0].action.clone();
    let call = |name: &str| Some(TableAction { r#type: Some(ActionChoice::Action(rig.call(name, &[]))) });
    assert_eq!(action("lpm_table"), call("NoAction"));
    controller.push(ConfigAction::ReconcileAndCommit, Some(dropping.clone())).unwrap();
    assert_eq!(action("lpm_table"), call("drop"), "nobody wrote the old one");
    // A default that is const in the new program is no reason to refuse it.
    let constant = with_table("IngressImpl.lpm_table", |table| {
        table["default_entry"]["action_const"] = true.into();
        table["default_entry"]["action_entry_const"] = true.into();
    });
    controller.push(ConfigAction::ReconcileAndCommit, Some(constant.clone())).unwrap();
    assert_eq!(action("lpm_table"), call("NoAction"));
    // What a controller wrote stays, also when it is what the program says.
    controller.push(ConfigAction::ReconcileAndCommit, Some(config())).unwrap();
    for name in ["NoAction", "to_cpu"] {
        let written = TableEntry { action: call(name), ..default_of(&rig, "lpm_table") };
        controller.done(Modify, EntityKind::TableEntry(written));
        controller.push(ConfigAction::ReconcileAndCommit, Some(dropping.clone())).unwrap();
        assert_eq!(action("lpm_table"), call(name));
    }
    let status = controller.push(ConfigAction::ReconcileAndCommit, Some(constant)).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("lpm_table"), "{status:?}");
    assert_eq!(action("lpm_table"), call("to_cpu"));
    rig.stop();
}

#[test]
fn reconciling_loses_no_packet_and_no_count() {
    let (rig, controller) = Rig::start_with_ports(2);
    let (mut one, mut two) = (rig.wire(1), rig.wire(2));
    let key = |src: u64| vec![(1, lpm(src, 48)), (2, exact(1))];
    let filler =
        |src| update(Insert, EntityKind::TableEntry(rig.entry("lpm_table", key(src), "forward", &[1])));
    controller.write_batch((0..4000).map(filler).collect(), Atomicity::ContinueOnError).unwrap();
    let last = rig.entry("lpm_table", key(0x7777), "forward", &[2]);
    controller.done(Insert, EntityKind::TableEntry(last));
    let counted = rig.entry("exact_table", vec![(1, exact(9))], "counted_forward", &[2]);
    controller.done(Insert, EntityKind::TableEntry(counted.clone()));
    let packet = frame(9, 0x7777, 0x1234);
    let pushing = std::thread::spawn(move || {
        let pushed: Result<(), _> =
            (0..3).try_for_each(|_| controller.push(ConfigAction::ReconcileAndCommit, Some(config())));
        (controller, pushed)
    });
    let (mut sent, mut received) = (0, 0);
    while !pushing.is_finished() {
        (0..16).for_each(|_| one.send(&packet));
        sent += 16;
        received += two.receive(16, Duration::from_millis(200)).len();
    }
    received += two.receive(sent - received, PATIENCE).len();
    let (controller, pushed) = pushing.join().unwrap();
    pushed.unwrap();
    assert_eq!(received, sent, "packets were lost");
    let index = Some(Index { index: 1 });
    let counter = CounterEntry { counter_id: rig.object("port_counter"), index, data: None };
    let EntityKind::CounterEntry(read) = controller.one(EntityKind::CounterEntry(counter)) else { panic!() };
    assert_eq!(read.data.unwrap().packet_count, sent as i64);
    let wanted = TableEntry { counter_data: Some(CounterData::default()), ..counted };
    let read = controller.entries(wanted)[0].counter_data.unwrap();
    assert_eq!((read.packet_count, read.byte_count), (sent as i64, 60 * sent as i64));
    rig.stop();
}

#[test]
fn what_cannot_be_committed_loses_nothing() {
    let (rig, controller) = Rig::start();
    controller.done(Insert, entry(&rig, 1));
    controller.done(Insert, multicast(5, &[2]));
    controller.done(Insert, session(7, &[2]));
    // The program writes registers: it does not run on two engines.
    let second = SecondEngine::attach(rig.switch());
    let refused = |action, config| {
        let status = controller.push(action, config).unwrap_err();
        assert!(status.message().contains("engine"), "{status:?}");
    };
    refused(ConfigAction::ReconcileAndCommit, Some(config()));
    refused(ConfigAction::VerifyAndCommit, Some(config()));
    let still_there = || {
        assert_eq!(controller.client.read(entry(&rig, 1)).unwrap().len(), 1);
        assert_eq!(controller.one(multicast(0, &[])), multicast(5, &[2]));
        assert_eq!(controller.one(session(0, &[])), session(7, &[2]));
        controller.done(Modify, multicast(5, &[2]));
        controller.done(Modify, session(7, &[2]));
    };
    still_there();
    controller.push(ConfigAction::VerifyAndSave, Some(config())).unwrap();
    controller.done(Insert, entry(&rig, 2));
    refused(ConfigAction::Commit, None);
    refused(ConfigAction::ReconcileAndCommit, Some(config()));
    refused(ConfigAction::VerifyAndCommit, Some(config()));
    second.stop();
    controller.push(ConfigAction::Commit, None).unwrap();
    assert_eq!(controller.client.read(entry(&rig, 2)).unwrap().len(), 1);
    rig.stop();
}

#[test]
fn what_another_control_plane_leaves_alone_stays_known() {
    let (rig, mut controller) = Rig::start_with_ports(2);
    let mut one = rig.wire(1);
    let everything = |controller: &Controller| {
        controller.done(Insert, multicast(5, &[2]));
        controller.done(Insert, session(7, &[1, 2]));
    };
    everything(&controller);
    let digest = EntityKind::DigestEntry(DigestEntry {
        digest_id: rig.object("learned_t"),
        config: Some(DigestConfig { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: 0 }),
    });
    controller.done(Insert, digest.clone());
    // Thrift's swap keeps groups and sessions, and so does what is known of them.
    rig.switch().load(PROGRAM).unwrap();
    rig.switch().swap().unwrap();
    assert_eq!(controller.refused(Insert, multicast(5, &[2])), Code::AlreadyExists);
    controller.done(Modify, multicast(5, &[1]));
    controller.done(Delete, session(7, &[]));
    controller.done(Insert, session(7, &[1, 2]));
    assert_eq!(controller.one(digest.clone()), digest);
    let learn = rig.entry("learn_table", vec![(1, exact(3))], "learn", &[]);
    controller.done(Insert, EntityKind::TableEntry(learn));
    one.send(&frame(1, 3, 0x1234));
    loop {
        if let Some(StreamResponse::Digest(list)) = controller.next().unwrap() {
            assert_eq!(list.digest_id, rig.object("learned_t"));
            break;
        }
    }
    // Groups in place go with a reset, and members of their own may come.
    let choice = ActionProfileAction { action: Some(rig.call("forward", &[2])), weight: 1, watch_kind: None };
    let set =
        ActionChoice::ActionProfileActionSet(ActionProfileActionSet { action_profile_actions: vec![choice] });
    let in_place = EntityKind::TableEntry(TableEntry {
        action: Some(TableAction { r#type: Some(set) }),
        ..rig.entry("select_table", vec![(1, exact(6))], "drop", &[])
    });
    let member = EntityKind::ActionProfileMember(ActionProfileMember {
        action_profile_id: rig.object("ecmp"),
        member_id: 9,
        action: Some(rig.call("forward", &[2])),
    });
    controller.done(Insert, in_place.clone());
    let saved = rig.switch().serialize_state().unwrap();
    assert_eq!(controller.refused(Insert, member.clone()), Code::InvalidArgument);
    rig.switch().reset_state().unwrap();
    for gone in [multicast(0, &[]), session(0, &[])] {
        assert_eq!(controller.client.read(gone).unwrap(), []);
    }
    everything(&controller);
    controller.done(Delete, multicast(5, &[]));
    controller.done(Delete, session(7, &[]));
    controller.done(Insert, member.clone());
    assert_eq!(controller.one(digest.clone()), digest);
    // What is restored is known by what its entries say.
    rig.switch().restore_state(&saved).unwrap();
    assert_eq!(controller.refused(Insert, member.clone()), Code::InvalidArgument);
    assert_eq!(controller.one(in_place.clone()), in_place);
    controller.done(Delete, in_place);
    controller.done(Insert, member);
    rig.stop();
}
