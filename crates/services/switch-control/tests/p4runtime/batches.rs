//! Batches that fail: what was done before is taken back, whatever stands for it meanwhile.

use crate::rig::*;
use UpdateType::{Delete, Insert, Modify};
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use tonic::Code;

/// Entries of all tables, with their counters and meters, as bytes so that they can be ordered.
fn all(controller: &Controller) -> Vec<String> {
    let wanted = TableEntry {
        counter_data: Some(CounterData::default()),
        meter_config: Some(MeterConfig::default()),
        ..TableEntry::default()
    };
    let mut entries: Vec<String> = controller
        .entries(wanted)
        .into_iter()
        .filter(|entry| !entry.is_const)
        .map(|entry| format!("{entry:?}"))
        .collect();
    entries.sort();
    entries
}

fn aborted(controller: &Controller, updates: Vec<Update>) {
    let count = updates.len();
    let status = controller.write_batch(updates, Atomicity::RollbackOnError).unwrap_err();
    let mut expected = vec![Code::Aborted as i32; count];
    expected[count - 1] = Code::NotFound as i32;
    assert_eq!(codes(&status), expected, "{status:?}");
}

#[test]
fn an_entry_that_came_and_went_in_a_batch_is_taken_back() {
    let (rig, controller) = Rig::start();
    let entry = |port| rig.entry("exact_table", vec![(1, exact(1))], "counted_forward", &[port]);
    let counted = |port, packet_count| TableEntry {
        counter_data: Some(CounterData { packet_count, byte_count: 60 * packet_count }),
        ..entry(port)
    };
    let write = |kind, entry| update(kind, EntityKind::TableEntry(entry));
    let fails = || write(Delete, rig.entry("exact_table", vec![(1, exact(404))], "drop", &[]));
    aborted(&controller, vec![write(Insert, counted(1, 3)), write(Delete, entry(1)), fails()]);
    assert_eq!(all(&controller), [""; 0]);

    controller.done(Insert, EntityKind::TableEntry(counted(1, 3)));
    let before = all(&controller);
    let counter = |packet_count| {
        let entry = DirectCounterEntry {
            table_entry: Some(TableEntry { action: None, ..entry(1) }),
            data: Some(CounterData { packet_count, byte_count: 0 }),
        };
        update(Modify, EntityKind::DirectCounterEntry(entry))
    };
    aborted(
        &controller,
        vec![
            write(Modify, counted(2, 5)),
            counter(9),
            write(Delete, entry(2)),
            write(Insert, counted(4, 1)),
            write(Modify, counted(5, 8)),
            fails(),
        ],
    );
    assert_eq!(all(&controller), before);
    let (port, rate) =
        (vec![(1, exact(3))], MeterConfig { cir: 10, cburst: 1, pir: 20, pburst: 2, eburst: 0 });
    let policed =
        |meter_config| TableEntry { meter_config, ..rig.entry("police_table", port.clone(), "police", &[]) };
    controller.done(Insert, EntityKind::TableEntry(policed(Some(rate))));
    let before = all(&controller);
    let meter = DirectMeterEntry {
        table_entry: Some(TableEntry { action: None, ..policed(None) }),
        config: None,
        counter_data: None,
    };
    aborted(
        &controller,
        vec![
            update(Modify, EntityKind::DirectMeterEntry(meter)),
            write(Modify, policed(None)),
            write(Delete, policed(None)),
            fails(),
        ],
    );
    assert_eq!(all(&controller), before);
    rig.stop();
}

#[test]
fn random_batches_that_fail_leave_no_trace() {
    let seed = 0x0b47_c4e5;
    println!("seed {seed:#x}");
    let mut random = barewire_base::Prng::new(seed);
    let (rig, controller) = Rig::start();
    let choice = |port: u64| ActionProfileAction {
        action: Some(rig.call("forward", &[port])),
        weight: 1,
        watch_kind: None,
    };
    for round in 0..150 {
        let mut updates = Vec::new();
        for _ in 0..2 + random.below(6) {
            let kind = [Insert, Modify, Delete][random.below(3) as usize];
            let key = vec![(1, exact(random.below(2)))];
            let port = random.below(500);
            let kind_of_entry = random.below(3);
            let entry = match kind_of_entry {
                0 => TableEntry {
                    counter_data: random
                        .chance(0.5)
                        .then_some(CounterData { packet_count: port as i64, byte_count: 1 }),
                    ..rig.entry("exact_table", key, "counted_forward", &[port])
                },
                1 => {
                    let set = ActionProfileActionSet {
                        action_profile_actions: (0..1 + random.below(3)).map(|_| choice(port)).collect(),
                    };
                    let action =
                        Some(TableAction { r#type: Some(ActionChoice::ActionProfileActionSet(set)) });
                    TableEntry { action, ..rig.entry("select_table", key, "drop", &[]) }
                }
                _ => {
                    let rate = port as i64;
                    let config = MeterConfig { cir: rate, cburst: 1, pir: rate, pburst: 2, eburst: 0 };
                    TableEntry {
                        meter_config: random.chance(0.5).then_some(config),
                        ..rig.entry("police_table", key, "police", &[])
                    }
                }
            };
            // Deletions carry no more than the key.
            let entry = match kind {
                Delete => TableEntry { counter_data: None, meter_config: None, ..entry },
                _ => entry,
            };
            updates.push(update(kind, EntityKind::TableEntry(entry)));
        }
        let before = all(&controller);
        let Err(status) = controller.write_batch(updates, Atomicity::RollbackOnError) else { continue };
        let codes = codes(&status);
        assert!(!codes.contains(&(Code::Internal as i32)), "seed {seed:#x}, round {round}: {status:?}");
        assert_eq!(all(&controller), before, "seed {seed:#x}, round {round}: {status:?}");
    }
    let switch = rig.switch();
    let profile = switch.profile("IngressImpl.ecmp").unwrap();
    let in_place =
        controller.entries(TableEntry { table_id: rig.table("select_table"), ..TableEntry::default() });
    assert_eq!(switch.groups(profile).unwrap().len(), in_place.len(), "no group is left behind");
    rig.stop();
}

#[test]
fn the_last_of_several_changes_of_an_entry_stays() {
    let (rig, controller) = Rig::start();
    let set = |port: u64| {
        let choice =
            ActionProfileAction { action: Some(rig.call("forward", &[port])), weight: 1, watch_kind: None };
        ActionChoice::ActionProfileActionSet(ActionProfileActionSet { action_profile_actions: vec![choice] })
    };
    let lpm_entry = |action: Option<u64>| TableEntry {
        controller_metadata: action.unwrap_or(77),
        action: action
            .map(|port| TableAction { r#type: Some(ActionChoice::Action(rig.call("forward", &[port]))) }),
        ..rig.entry("lpm_table", vec![(1, lpm(0x100, 48)), (2, exact(1))], "drop", &[])
    };
    controller.done(Insert, EntityKind::TableEntry(lpm_entry(Some(1))));
    // The first keeps the action, which is done apart from the others.
    let changes =
        [None, Some(2), Some(3)].map(|action| update(Modify, EntityKind::TableEntry(lpm_entry(action))));
    controller.write_batch(changes.to_vec(), Atomicity::ContinueOnError).unwrap();
    let read = controller.entries(TableEntry { table_id: rig.table("lpm_table"), ..TableEntry::default() });
    assert_eq!(read, [lpm_entry(Some(3))]);
    let in_place = TableEntry {
        action: Some(TableAction { r#type: Some(set(2)) }),
        ..rig.entry("select_table", vec![(1, exact(6))], "drop", &[])
    };
    controller.done(Insert, EntityKind::TableEntry(in_place.clone()));
    let twice = vec![update(Delete, EntityKind::TableEntry(in_place)); 2];
    let status = controller.write_batch(twice, Atomicity::ContinueOnError).unwrap_err();
    assert_eq!(codes(&status), [0, Code::NotFound as i32]);
    rig.stop();
}
