//! Groups whose ports are down, and members and groups that other control planes made.

use super::*;
use barewire_switch::control::TableAction as OfStore;

/// An entry of the table with the selector.
fn on_group(key: u8, group: u32) -> TableEntry {
    let choice = ActionChoice::ActionProfileGroupId(group);
    let EntityKind::TableEntry(entry) = entry_of("select_table", exact(key), choice) else { panic!() };
    entry
}

fn write(device: &Device, updates: &[Update], atomicity: Atomicity) -> Vec<super::super::error::Result<()>> {
    lock(&device.forwarding).live.as_mut().unwrap().write(updates, atomicity)
}

fn one(device: &Device, kind: UpdateType, entry: &TableEntry) {
    let updates = [update(kind, EntityKind::TableEntry(entry.clone()))];
    write(device, &updates, Atomicity::ContinueOnError).remove(0).unwrap();
}

fn reconcile(device: &Device, prepared: &Arc<Prepared>, config: &ForwardingPipelineConfig) {
    let pipeline = super::super::config::pipeline(config.clone(), Arc::clone(&prepared.program)).unwrap();
    let mut forwarding = lock(&device.forwarding);
    device.reconcile(&mut forwarding, Arc::clone(prepared), Arc::new(pipeline)).unwrap();
}

/// Entries of the table with the selector: what they do, and whether a controller's data is with them.
fn there(switch: &Switch) -> Vec<OfStore> {
    let table = switch.table("IngressImpl.select_table").unwrap();
    switch.entries(table).unwrap().into_iter().map(|entry| entry.action).collect()
}

fn watching(ports: &[u8]) -> ActionChoice {
    let choice = |port: &u8| ActionProfileAction {
        action: Some(call("forward", &[*port])),
        weight: 1,
        watch_kind: Some(ActionWatch::WatchPort(vec![*port])),
    };
    let action_profile_actions = ports.iter().map(choice).collect();
    ActionChoice::ActionProfileActionSet(ActionProfileActionSet { action_profile_actions })
}

#[test]
fn entries_come_and_stay_while_all_ports_of_their_group_are_down() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let device = Device::new(switch.clone(), 1, Some(config.clone())).unwrap();
    done(lock(&device.forwarding).live.as_mut().unwrap(), vec![member(2), member(3), group(4, &[3])]);
    one(&device, UpdateType::Insert, &on_group(1, 4));
    let port = |up| {
        lock(&ports.ups).insert(3, up);
        device.port_changed(3, up);
    };
    port(false);
    assert!(members(&switch, 4).is_empty());
    // Insert, and change what is the controller's alone.
    one(&device, UpdateType::Insert, &on_group(2, 4));
    let noted = TableEntry { action: None, metadata: b"kept".to_vec(), ..on_group(1, 4) };
    one(&device, UpdateType::Modify, &noted);
    one(&device, UpdateType::Modify, &on_group(2, 4));
    let many = [3, 4].map(|key| update(UpdateType::Insert, EntityKind::TableEntry(on_group(key, 4))));
    for atomicity in [Atomicity::ContinueOnError, Atomicity::DataplaneAtomic] {
        write(&device, &many, atomicity).into_iter().for_each(|result| result.unwrap());
        let gone = many.clone().map(|insert| Update { r#type: UpdateType::Delete as i32, ..insert });
        write(&device, &gone, atomicity).into_iter().for_each(|result| result.unwrap());
    }
    // A deletion that is taken back loses nothing.
    for kind in [UpdateType::Delete, UpdateType::Modify] {
        let changed = update(kind, EntityKind::TableEntry(noted.clone()));
        for result in write(&device, &[changed, failing()], Atomicity::RollbackOnError) {
            assert_ne!(result.unwrap_err().code, Code::Internal, "{kind:?}");
        }
        assert_eq!(there(&switch), [OfStore::Group(4), OfStore::Group(4)], "{kind:?}");
    }
    // A new program keeps them, and what watches.
    reconcile(&device, &prepared, &config);
    assert_eq!(there(&switch), [OfStore::Group(4), OfStore::Group(4)]);
    assert!(members(&switch, 4).is_empty());
    port(true);
    assert_eq!(members(&switch, 4), [3]);
    engine.stop();
}

#[test]
fn groups_in_place_come_and_stay_while_all_their_ports_are_down() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let device = Device::new(switch.clone(), 1, Some(config.clone())).unwrap();
    lock(&ports.ups).insert(3, false);
    let in_place = |key, choice| update(UpdateType::Insert, entry_of("select_table", exact(key), choice));
    let inserted = write(
        &device,
        &[in_place(1, watching(&[3])), in_place(2, watching(&[2]))],
        Atomicity::ContinueOnError,
    );
    inserted.into_iter().for_each(|result| result.unwrap());
    let profile = switch.profile("IngressImpl.ecmp").unwrap();
    let sizes =
        || switch.groups(profile).unwrap().iter().map(|group| group.members.len()).collect::<Vec<_>>();
    assert_eq!(sizes(), [0, 1]);
    // The ports it watches are removed: a new program keeps it.
    lock(&ports.ups).remove(&2);
    reconcile(&device, &prepared, &config);
    assert_eq!((sizes(), there(&switch).len()), (vec![0, 0], 2));
    lock(&ports.ups).insert(2, true);
    device.port_changed(2, true);
    assert_eq!(sizes().iter().sum::<usize>(), 1);
    engine.stop();
}

/// What Thrift made has handles from 0 and no sizes, and a port that is watched may be removed.
#[test]
fn reconciling_keeps_what_other_control_planes_made() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let device = Device::new(switch.clone(), 1, Some(config.clone())).unwrap();
    let profile = switch.profile("IngressImpl.ecmp").unwrap();
    done(lock(&device.forwarding).live.as_mut().unwrap(), vec![member(2), member(3), group(4, &[2, 3])]);
    let own = switch.member(profile, 2).unwrap().call;
    assert_eq!(switch.add_member(profile, own), Ok(0));
    assert_eq!(switch.create_group(profile), Ok(0));
    switch.set_group_members(profile, 0, vec![(0, 2), (3, 1)]).unwrap();
    let table = switch.table("IngressImpl.select_table").unwrap();
    for (key, action) in [(1_u8, OfStore::Group(0)), (2, OfStore::Member(0)), (3, OfStore::Group(4))] {
        switch.add_entry(table, vec![MatchParam::Exact(key.into())], 0, action).unwrap();
    }
    let before = (switch.members(profile), switch.groups(profile), there(&switch));
    reconcile(&device, &prepared, &config);
    assert_eq!((switch.members(profile), switch.groups(profile), there(&switch)), before);
    // A port that is watched is removed.
    lock(&ports.ups).remove(&3);
    device.port_changed(3, false);
    reconcile(&device, &prepared, &config);
    assert_eq!((members(&switch, 0), members(&switch, 4)), (vec![0, 3], vec![2]));
    // What a controller wrote is known as it was written.
    let wanted = Entity {
        entity: Some(EntityKind::ActionProfileGroup(ActionProfileGroup {
            group_id: 4,
            ..Default::default()
        })),
    };
    let mut found = Vec::new();
    lock(&device.forwarding).live.as_ref().unwrap().read(&wanted, &mut |entity| found.push(entity)).unwrap();
    assert_eq!(found, [group(4, &[2, 3]).entity.unwrap()]);
    lock(&ports.ups).insert(3, true);
    device.port_changed(3, true);
    assert_eq!(members(&switch, 4), [2, 3]);
    engine.stop();
}

/// Entries of the program that are const have their meters from controllers.
#[test]
fn reconciling_keeps_the_meters_of_const_entries() {
    let with_consts = |ports: &[u8]| {
        let (prepared, mut config) = made(|program| {
            let at =
                program.tables.iter().position(|table| table.name == "IngressImpl.police_table").unwrap();
            let police =
                program.actions.iter().position(|action| action.name == "IngressImpl.police").unwrap();
            let entry = |port: &u8| barewire_p4::ir::InitialEntry {
                key: vec![MatchParam::Exact((*port).into())],
                call: ActionCall { action: barewire_p4::ir::ActionId::from(police), args: vec![] },
                priority: 0,
            };
            let table = &mut program.tables[at];
            (table.immutable, table.entries) = (true, ports.iter().map(entry).collect());
        });
        let info = config.p4info.as_mut().unwrap();
        for table in &mut info.tables {
            table.is_const_table = table.preamble.as_ref().unwrap().alias == "police_table";
        }
        (prepared, config)
    };
    let (first, config) = with_consts(&[1, 2]);
    let switch = switch(&first);
    let engine = Engine::attach(&switch, &ups(&[]));
    let device = Device::new(switch.clone(), 1, Some(config.clone())).unwrap();
    let rates = MeterConfig { cir: 10, cburst: 1, pir: 20, pburst: 2, eburst: 0 };
    let metered = |port| {
        let EntityKind::TableEntry(entry) =
            entry_of("police_table", exact(port), ActionChoice::Action(call("police", &[])))
        else {
            panic!()
        };
        let meter = DirectMeterEntry {
            table_entry: Some(TableEntry { action: None, ..entry }),
            config: Some(rates),
            counter_data: None,
        };
        update(UpdateType::Modify, EntityKind::DirectMeterEntry(meter))
    };
    done(lock(&device.forwarding).live.as_mut().unwrap(), vec![metered(1), metered(2)]);
    let set = |switch: &Switch| {
        let table = switch.table("IngressImpl.police_table").unwrap();
        let entries = switch.entries(table).unwrap();
        entries
            .iter()
            .map(|entry| switch.direct_meter_rates(table, entry.handle).unwrap().len())
            .collect::<Vec<_>>()
    };
    assert_eq!(set(&switch), [2, 2]);
    // The second is not an entry of the other program, which has one more.
    let (second, config) = with_consts(&[3, 1]);
    reconcile(&device, &second, &config);
    assert_eq!(set(&switch), [0, 2]);
    engine.stop();
}
