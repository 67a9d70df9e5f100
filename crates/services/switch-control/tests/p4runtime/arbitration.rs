//! Controllers that compete, and controllers that die.

use crate::rig::*;
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tonic::Code;

fn drop_entry(rig: &Rig, key: u64) -> EntityKind {
    EntityKind::TableEntry(rig.entry("exact_table", vec![(1, exact(key))], "drop", &[]))
}

#[test]
fn only_the_primary_writes_and_a_dead_one_is_replaced() {
    let (rig, controller) = Rig::start();
    let mut backup = rig.controller(0);
    backup.arbitrate();
    assert_eq!(backup.status(), Code::AlreadyExists as i32);
    let status = backup.write(UpdateType::Insert, drop_entry(&rig, 1)).unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(backup.push(ConfigAction::Verify, Some(config())).unwrap_err().code(), Code::PermissionDenied);
    // Everybody may read.
    assert_eq!(backup.client.read(drop_entry(&rig, 1)).unwrap(), []);
    drop(controller);
    assert_eq!(backup.status(), Code::NotFound as i32);
    assert_eq!(
        backup.write(UpdateType::Insert, drop_entry(&rig, 1)).unwrap_err().code(),
        Code::PermissionDenied
    );
    backup.election = 1;
    backup.become_primary();
    backup.done(UpdateType::Insert, drop_entry(&rig, 1));
    rig.stop();
}

#[test]
fn wrong_devices_and_roles_are_told_apart() {
    let (rig, controller) = Rig::start();
    assert_eq!(controller.client.capabilities(), "1.4.1");
    let request =
        WriteRequest { device_id: 9, election_id: controller.election_id(), ..WriteRequest::default() };
    assert_eq!(controller.client.write_request(request.clone()).unwrap_err().code(), Code::NotFound);
    let request = WriteRequest { device_id: DEVICE, role: "other".into(), ..request };
    assert_eq!(controller.client.write_request(request).unwrap_err().code(), Code::NotFound);
    let (_, status) = controller.client.read_request(ReadRequest { device_id: 9, ..ReadRequest::default() });
    assert_eq!(status.unwrap_err().code(), Code::NotFound);
    let mut sdn = rig.controller_with_role(1, "sdn");
    sdn.become_primary();
    sdn.done(UpdateType::Insert, drop_entry(&rig, 1));
    controller.done(UpdateType::Insert, drop_entry(&rig, 2));
    let mut lost = rig.controller(7);
    let update = MasterArbitrationUpdate { device_id: 9, ..MasterArbitrationUpdate::default() };
    lost.send(StreamRequest::Arbitration(update));
    assert_eq!(lost.next().unwrap_err().code(), Code::NotFound);
    let mut twin = rig.controller(1);
    twin.arbitrate();
    assert_eq!(twin.next().unwrap_err().code(), Code::InvalidArgument);
    rig.stop();
}

#[test]
fn two_controllers_race_and_nothing_is_torn() {
    let (rig, mut first) = Rig::start();
    let stop = Arc::new(AtomicBool::new(false));
    let denied = Arc::new(AtomicUsize::new(0));
    let written = Arc::new(AtomicUsize::new(0));
    // Two writers, each with its own half of the keys; whoever is primary gets through. A batch is one controller's.
    let writers: Vec<_> = [1_u64, 2]
        .into_iter()
        .map(|half| {
            let client = first.client.clone();
            let (stop, denied, written) = (Arc::clone(&stop), Arc::clone(&denied), Arc::clone(&written));
            let batches: Vec<Vec<Update>> = (0..20_u64)
                .map(|batch| {
                    (0..10)
                        .map(|n| update(UpdateType::Insert, drop_entry(&rig, half << 32 | batch << 8 | n)))
                        .collect()
                })
                .collect();
            std::thread::spawn(move || {
                let mut election = half;
                while !stop.load(Ordering::Relaxed) {
                    for batch in &batches {
                        let request = WriteRequest {
                            device_id: DEVICE,
                            election_id: Some(Uint128 { high: 0, low: election }),
                            updates: batch.clone(),
                            ..WriteRequest::default()
                        };
                        match client.write_request(request) {
                            Ok(()) => written.fetch_add(1, Ordering::Relaxed),
                            Err(status) if status.code() == Code::PermissionDenied => {
                                denied.fetch_add(1, Ordering::Relaxed)
                            }
                            // There already, or the table is full.
                            Err(status) => {
                                assert_eq!(status.code(), Code::Unknown, "{status:?}");
                                0
                            }
                        };
                    }
                    election += 2;
                }
            })
        })
        .collect();
    let mut second = rig.controller(2);
    let mut first_election = 1;
    for round in 1..60 {
        let (leader, election) =
            if round % 2 == 1 { (&mut second, round + 1) } else { (&mut first, round + 1) };
        leader.election = election;
        leader.arbitrate();
        loop {
            let update = leader.next_arbitration();
            if update.election_id.is_some_and(|id| id.low == election) && update.status.unwrap().code == 0 {
                break;
            }
        }
        first_election = election;
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(denied.load(Ordering::Relaxed) > 0 && first_election == 60);
    // What is there was written whole: size 64 is not a multiple of 10, so count what the switch says.
    let entries = first.client.read(EntityKind::TableEntry(TableEntry {
        table_id: rig.table("exact_table"),
        ..TableEntry::default()
    }));
    let count = entries.unwrap().len();
    let table = rig.switch().table("IngressImpl.exact_table").unwrap();
    assert_eq!(count, rig.switch().num_entries(table).unwrap());
    assert!(count <= 64);
    rig.stop();
}

#[test]
fn a_controller_that_dies_in_the_middle_leaves_a_consistent_switch() {
    let (rig, controller) = Rig::start();
    for round in 0..20_u64 {
        let mut victim = rig.controller(100 + round);
        victim.become_primary();
        let client = victim.client.clone();
        let updates: Vec<Update> = (0..200)
            .map(|at| {
                let entry = rig.entry(
                    "lpm_table",
                    vec![(1, lpm((round << 24 | at) << 16, 40)), (2, exact(1))],
                    "forward",
                    &[1],
                );
                update(UpdateType::Insert, EntityKind::TableEntry(entry))
            })
            .collect();
        let election_id = victim.election_id();
        let request = WriteRequest { device_id: DEVICE, election_id, updates, ..WriteRequest::default() };
        let writing = std::thread::spawn(move || client.write_request(request));
        drop(victim);
        // Either it was still primary, or it was not; never half.
        match writing.join().unwrap() {
            Ok(()) => {}
            Err(status) => {
                assert!(matches!(status.code(), Code::PermissionDenied | Code::Unknown), "{status:?}")
            }
        }
    }
    let entries = controller.client.read(EntityKind::TableEntry(TableEntry {
        table_id: rig.table("lpm_table"),
        ..TableEntry::default()
    }));
    let table = rig.switch().table("IngressImpl.lpm_table").unwrap();
    assert_eq!(entries.unwrap().len(), rig.switch().num_entries(table).unwrap());
    rig.stop();
}
