//! Action profiles: members, groups, groups in place, watched ports.

use crate::rig::*;
use UpdateType::{Delete, Insert, Modify};
use barewire_switch_control::p4runtime::entity::*;
use barewire_switch_control::p4runtime::message::*;
use std::time::Duration;
use tonic::Code;

fn member(rig: &Rig, profile: &str, member_id: u32, action: &str, args: &[u64]) -> EntityKind {
    EntityKind::ActionProfileMember(ActionProfileMember {
        action_profile_id: rig.object(profile),
        member_id,
        action: Some(rig.call(action, args)),
    })
}

fn group(rig: &Rig, group_id: u32, members: &[(u32, i32)], max_size: i32) -> ActionProfileGroup {
    ActionProfileGroup {
        action_profile_id: rig.object("ecmp"),
        group_id,
        members: members
            .iter()
            .map(|&(member_id, weight)| GroupMember { member_id, weight, watch_kind: None })
            .collect(),
        max_size,
    }
}

fn pointing(rig: &Rig, table: &str, key: u64, choice: ActionChoice) -> EntityKind {
    let entry = rig.entry(table, vec![(1, exact(key))], "drop", &[]);
    EntityKind::TableEntry(TableEntry { action: Some(TableAction { r#type: Some(choice) }), ..entry })
}

#[test]
fn members_and_groups_have_the_controllers_numbers() {
    let (rig, controller) = Rig::start();
    for id in [7, 4_000_000_000] {
        controller.done(Insert, member(&rig, "ecmp", id, "forward", &[u64::from(id % 5)]));
    }
    controller.done(Insert, member(&rig, "vlan_actions", 7, "drop", &[]));
    assert_eq!(controller.refused(Insert, member(&rig, "ecmp", 7, "drop", &[])), Code::AlreadyExists);
    assert_eq!(controller.refused(Insert, member(&rig, "ecmp", 0, "drop", &[])), Code::InvalidArgument);
    assert_eq!(controller.refused(Modify, member(&rig, "ecmp", 8, "drop", &[])), Code::NotFound);
    assert_eq!(controller.refused(Insert, member(&rig, "ecmp", 8, "tag", &[1, 2])), Code::InvalidArgument);
    controller.done(Modify, member(&rig, "ecmp", 7, "forward", &[3]));
    let pattern = |id, member_id| {
        EntityKind::ActionProfileMember(ActionProfileMember {
            action_profile_id: id,
            member_id,
            action: None,
        })
    };
    assert_eq!(controller.one(pattern(rig.object("ecmp"), 7)), member(&rig, "ecmp", 7, "forward", &[3]));
    assert_eq!(controller.client.read(pattern(0, 0)).unwrap().len(), 3);
    assert_eq!(controller.client.read(pattern(rig.object("ecmp"), 0)).unwrap().len(), 2);

    let wire = |group| EntityKind::ActionProfileGroup(group);
    let first = group(&rig, 5, &[(7, 1), (4_000_000_000, 3)], 10);
    controller.done(Insert, wire(first.clone()));
    assert_eq!(controller.one(wire(ActionProfileGroup::default())), wire(first.clone()));
    assert_eq!(controller.refused(Insert, wire(first.clone())), Code::AlreadyExists);
    assert_eq!(controller.refused(Modify, wire(group(&rig, 6, &[], 10))), Code::NotFound);
    assert_eq!(controller.refused(Modify, wire(group(&rig, 5, &[(7, 1)], 11))), Code::InvalidArgument);
    assert_eq!(controller.refused(Modify, wire(group(&rig, 5, &[(7, 11)], 10))), Code::ResourceExhausted);
    assert_eq!(controller.refused(Modify, wire(group(&rig, 5, &[(7, 0)], 10))), Code::InvalidArgument);
    assert_eq!(
        controller.refused(Modify, wire(group(&rig, 5, &[(7, 1), (7, 1)], 10))),
        Code::InvalidArgument
    );
    assert_eq!(controller.refused(Modify, wire(group(&rig, 5, &[(9, 1)], 10))), Code::NotFound);
    let of_profile =
        ActionProfileGroup { action_profile_id: rig.object("vlan_actions"), ..group(&rig, 1, &[], 0) };
    assert_eq!(controller.refused(Insert, wire(of_profile)), Code::InvalidArgument);
    assert_eq!(controller.one(wire(ActionProfileGroup::default())), wire(first));

    let to_group = pointing(&rig, "select_table", 0x800, ActionChoice::ActionProfileGroupId(5));
    let to_member = pointing(&rig, "select_table", 0x801, ActionChoice::ActionProfileMemberId(4_000_000_000));
    controller.done(Insert, to_group.clone());
    controller.done(Insert, to_member.clone());
    let found = controller.client.read(EntityKind::TableEntry(TableEntry {
        table_id: rig.table("select_table"),
        ..TableEntry::default()
    }));
    assert_eq!(found.unwrap(), [to_group.clone(), to_member.clone()]);
    for choice in [ActionChoice::ActionProfileGroupId(6), ActionChoice::ActionProfileMemberId(6)] {
        assert_eq!(controller.refused(Insert, pointing(&rig, "select_table", 9, choice)), Code::NotFound);
    }
    let to_group_without_selector = pointing(&rig, "profile_table", 9, ActionChoice::ActionProfileGroupId(5));
    assert_eq!(controller.refused(Insert, to_group_without_selector), Code::InvalidArgument);
    let direct = pointing(&rig, "select_table", 9, ActionChoice::Action(rig.call("drop", &[])));
    assert_eq!(controller.refused(Insert, direct), Code::InvalidArgument);
    // What is used stays.
    assert_eq!(controller.refused(Delete, wire(group(&rig, 5, &[], 0))), Code::FailedPrecondition);
    assert_eq!(controller.refused(Delete, member(&rig, "ecmp", 7, "drop", &[])), Code::FailedPrecondition);
    controller.done(Delete, to_group);
    controller.done(Delete, to_member);
    controller.done(Delete, wire(group(&rig, 5, &[], 0)));
    controller.done(Delete, member(&rig, "ecmp", 7, "drop", &[]));
    assert_eq!(controller.refused(Delete, member(&rig, "ecmp", 7, "drop", &[])), Code::NotFound);
    rig.stop();
}

fn in_place(rig: &Rig, ports: &[(u64, i32)]) -> ActionChoice {
    let choice = |&(port, weight): &(u64, i32)| ActionProfileAction {
        action: Some(rig.call("forward", &[port])),
        weight,
        watch_kind: None,
    };
    ActionChoice::ActionProfileActionSet(ActionProfileActionSet {
        action_profile_actions: ports.iter().map(choice).collect(),
    })
}

#[test]
fn groups_in_place_come_and_go_with_their_entries() {
    let (rig, controller) = Rig::start();
    let pattern = TableEntry { table_id: rig.table("select_table"), ..TableEntry::default() };
    let store = || {
        let switch = rig.switch();
        let profile = switch.profile("IngressImpl.ecmp").unwrap();
        (switch.members(profile).unwrap().len(), switch.groups(profile).unwrap().len())
    };
    let first = pointing(&rig, "select_table", 1, in_place(&rig, &[(1, 2), (2, 1), (1, 2)]));
    controller.done(Insert, first.clone());
    assert_eq!(store(), (3, 1));
    assert_eq!(controller.client.read(EntityKind::TableEntry(pattern.clone())).unwrap(), [first.clone()]);
    // Nobody sees what stands for it, and nobody may mix.
    for hidden in [
        EntityKind::ActionProfileMember(ActionProfileMember::default()),
        EntityKind::ActionProfileGroup(ActionProfileGroup::default()),
    ] {
        assert_eq!(controller.client.read(hidden).unwrap(), []);
    }
    assert_eq!(controller.refused(Insert, member(&rig, "ecmp", 1, "drop", &[])), Code::InvalidArgument);
    assert_eq!(controller.refused(Insert, first), Code::AlreadyExists);
    assert_eq!(store(), (3, 1));
    let no_weight = pointing(&rig, "select_table", 2, in_place(&rig, &[(1, 0)]));
    assert_eq!(controller.refused(Insert, no_weight), Code::InvalidArgument);
    let too_large = pointing(&rig, "select_table", 2, in_place(&rig, &[(512, 1)]));
    assert_eq!(controller.refused(Insert, too_large), Code::OutOfRange);
    assert_eq!(store(), (3, 1));
    let second = pointing(&rig, "select_table", 1, in_place(&rig, &[(3, 1)]));
    controller.done(Modify, second.clone());
    assert_eq!(store(), (1, 1));
    // A batch that fails leaves the old group.
    let failing = vec![
        update(Modify, pointing(&rig, "select_table", 1, in_place(&rig, &[(4, 1), (5, 1)]))),
        update(Insert, pointing(&rig, "select_table", 2, in_place(&rig, &[(4, 1), (5, 1)]))),
        update(Delete, pointing(&rig, "select_table", 9, in_place(&rig, &[]))),
    ];
    controller.write_batch(failing, Atomicity::RollbackOnError).unwrap_err();
    assert_eq!(store(), (1, 1));
    assert_eq!(controller.client.read(EntityKind::TableEntry(pattern)).unwrap(), [second.clone()]);
    let both = vec![
        update(Delete, second),
        update(Insert, pointing(&rig, "select_table", 2, in_place(&rig, &[(4, 1), (5, 1)]))),
    ];
    controller.write_batch(both, Atomicity::RollbackOnError).unwrap();
    assert_eq!(store(), (2, 1));
    controller.done(Delete, pointing(&rig, "select_table", 2, in_place(&rig, &[])));
    assert_eq!(store(), (0, 0));
    controller.done(Insert, member(&rig, "ecmp", 1, "drop", &[]));
    let mixed = pointing(&rig, "select_table", 1, in_place(&rig, &[(1, 1)]));
    assert_eq!(controller.refused(Insert, mixed), Code::InvalidArgument);
    rig.stop();
}

#[test]
fn members_whose_port_is_down_get_no_packets() {
    let (rig, controller) = Rig::start_with_ports(3);
    let mut wires: Vec<Wire> = (1..=3).map(|port| rig.wire(port)).collect();
    let watch = |port: u64| Some(ActionWatch::WatchPort(number(port)));
    let choice = |port: u64| ActionProfileAction {
        action: Some(rig.call("forward", &[port])),
        weight: 1,
        watch_kind: watch(port),
    };
    let set = |ports: &[u64]| {
        ActionChoice::ActionProfileActionSet(ActionProfileActionSet {
            action_profile_actions: ports.iter().map(|&port| choice(port)).collect(),
        })
    };
    assert_eq!(
        controller.refused(Insert, pointing(&rig, "select_table", 0x800, set(&[9]))),
        Code::InvalidArgument
    );
    let entry = pointing(&rig, "select_table", 0x800, set(&[2, 3]));
    controller.done(Insert, entry.clone());
    let spread = |wires: &mut [Wire]| {
        for src in 0..32 {
            wires[0].send(&frame(1, src, 0x800));
        }
        let until = barewire_engine::now().as_nanos() + PATIENCE.as_nanos() as u64;
        let (mut two, mut three) = (0, 0);
        while two + three < 32 && barewire_engine::now().as_nanos() < until {
            two += wires[1].receive(32, Duration::from_millis(5)).len();
            three += wires[2].receive(32, Duration::from_millis(5)).len();
        }
        (two, three)
    };
    let (two, three) = spread(&mut wires);
    assert!(two > 0 && three > 0 && two + three == 32, "{two} and {three}");
    rig.grpc.as_ref().unwrap().port_changed(2, false);
    assert_eq!(spread(&mut wires), (0, 32));
    // The controller reads what it wrote.
    let pattern = TableEntry { table_id: rig.table("select_table"), ..TableEntry::default() };
    assert_eq!(controller.one(EntityKind::TableEntry(pattern)), entry);
    rig.grpc.as_ref().unwrap().port_changed(2, true);
    let (two, three) = spread(&mut wires);
    assert!(two > 0 && three > 0 && two + three == 32, "{two} and {three}");
    rig.stop();
}

#[test]
fn a_watched_port_that_is_made_anew_is_watched_again() {
    let (rig, controller) = Rig::start_with_ports(3);
    let watching = |members: &[u32]| {
        let member = |&member_id: &u32| GroupMember {
            member_id,
            weight: 1,
            watch_kind: Some(MemberWatch::WatchPort(number(u64::from(member_id)))),
        };
        let members = members.iter().map(member).collect();
        EntityKind::ActionProfileGroup(ActionProfileGroup { members, ..group(&rig, 5, &[], 4) })
    };
    for id in [2, 3] {
        controller.done(Insert, member(&rig, "ecmp", id, "forward", &[u64::from(id)]));
    }
    controller.done(Insert, watching(&[2, 3]));
    let profile = rig.switch().profile("IngressImpl.ecmp").unwrap();
    let becomes = |wanted: &[u32]| {
        let until = barewire_engine::now().as_nanos() + PATIENCE.as_nanos() as u64;
        loop {
            let there = rig.switch().group(profile, 5).unwrap().members;
            let there: Vec<u32> = there.into_iter().map(|(member, _)| member).collect();
            if there == wanted {
                return;
            }
            assert!(barewire_engine::now().as_nanos() < until, "{there:?}, not {wanted:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for _ in 0..2 {
        rig.switch().remove_port(3).unwrap();
        becomes(&[2]);
        rig.switch().add_port(3, &rig.names[2]).unwrap();
        becomes(&[2, 3]);
    }
    assert_eq!(controller.one(watching(&[])), watching(&[2, 3]));
    rig.stop();
}
