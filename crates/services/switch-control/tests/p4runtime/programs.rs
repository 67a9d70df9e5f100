//! Programs: verified, saved, committed, reconciled, refused.

use crate::rig::*;
use UpdateType::{Delete, Insert, Modify};
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
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
