//! What the controller is told, and multicast: by the kernel as by the interpreter.

use super::*;
use barewire_p4::ir::{ActionCall, ActionId, TableId};
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use barewire_switch::control::link::Replica;

/// The controller's port.
const CPU: u32 = 64;

/// The same program in both engines, with the same entries and groups.
fn sides(program: &Arc<Program>, tc: bool) -> [Harness; 2] {
    both(program, &TargetConfig { cpu_port: Some(CPU), ..at(tc) }).map(|side| {
        let action = |name: &str, args: &[u32]| {
            let known = program.actions.iter().position(|action| action.name.ends_with(name));
            let action = ActionId::from(known.expect("an action"));
            TableAction::Call(ActionCall { action, args: args.iter().map(|&arg| arg.into()).collect() })
        };
        let hosts = side.switch().table("hosts").expect("a table");
        let add = |table: TableId, key: u32, to: TableAction| {
            let key = vec![MatchParam::Exact(key.into())];
            side.switch().add_entry(table, key, 0, to).expect("an entry")
        };
        add(hosts, 1, action("forward", &[2]));
        add(hosts, 2, action("flood", &[7]));
        add(hosts, 3, action("flood", &[8]));
        add(hosts, 4, action("forward", &[CPU]));
        add(side.switch().table("sources").expect("a table"), 9, action("NoAction", &[]));
        side.switch().mc_set_group(7, &[(1, 0), (3, 0), (3, 1)]).expect("a group");
        side
    })
}

fn packet(to: u8, from: u8) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..90).collect();
    packet[..12].fill(0);
    (packet[5], packet[11]) = (to, from);
    packet[12..14].copy_from_slice(&[0x88, 0xb5]);
    packet
}

#[test]
fn digests_copies_and_packets_for_the_controller_are_those_of_the_interpreter() {
    if !may_load() {
        return;
    }
    let program = from_source(include_str!("../../../../../tests/programs/told.p4"));
    for tc in [false, true] {
        let mut sides = sides(&program, tc);
        // A source that is known, and others; a destination of each kind, and none; a group that is not there.
        for to in [1, 2, 3, 4, 5] {
            for from in [9, 10, 10, to + 20] {
                let packet = packet(to, from);
                let [left, right] = sides.each_mut().map(|side| side.send(1, &packet).expect("it fits"));
                assert_eq!(left, right, "to {to} from {from}");
                let count = [0, 1, 3, 0, 1, 0][usize::from(to)];
                assert_eq!(left.len(), count, "to {to}: {left:02x?}");
            }
        }
        assert_eq!((sides[1].handed_over, &sides[1].failures), (0, &Vec::new()));
        let told = sides.each_mut().map(|side| {
            let (mut told, learner) = (Vec::new(), side.plane().learner().expect("a program runs"));
            learner.poll(u64::MAX, &mut told);
            let counts = learner.counts();
            (told.into_iter().map(|list| (list.list, list.samples)).collect::<Vec<_>>(), counts)
        });
        assert_eq!(told[0], told[1]);
        assert_eq!(told[1].1, (6, 9), "six sources, and how often they came again");
        assert_eq!(told[1].0[0].1[0], [vec![0, 0, 0, 0, 0, 10], vec![0, 1]]);
        // A copy for the controller is not made here: while there is one, all packets go to user space, counted once.
        for side in &sides {
            side.switch().mc_set_group(8, &[(2, 0), (CPU, 0)]).expect("a group");
        }
        let [left, right] = sides.each_mut().map(|side| side.send(1, &packet(3, 9)).expect("it fits"));
        assert_eq!((left.len(), &left, sides[1].handed_over), (2, &right, 1));
        for side in &sides {
            side.switch().mc_set_group(8, &[(2, 0)]).expect("a group");
        }
        let [left, right] = sides.each_mut().map(|side| side.send(1, &packet(3, 9)).expect("it fits"));
        assert_eq!((left.len(), &left, sides[1].handed_over), (1, &right, 1));
    }
}

/// A copy that egress drops because it would go back where its packet came from is not made; in any form that says so.
#[test]
fn no_copy_goes_back() {
    if !may_load() {
        return;
    }
    let json = include_str!("../../../../../tests/p4c/l2_learning.json");
    let source = include_str!("../../../../../programs/l2_learning.p4");
    let imported = Arc::new(barewire_p4_formats::import::import(json).expect("our own program"));
    for (program, tc) in [(&imported, false), (&imported, true), (&from_source(source), false)] {
        let mut sides = [EngineKind::Interpreter, EngineKind::Kernel].map(|kind| {
            let prepared = match kind {
                EngineKind::Kernel => Prepared::for_kernel(Arc::clone(program), 511),
                kind => Prepared::new(Arc::clone(program), kind),
            };
            let side = Harness::new(Arc::new(prepared.expect("a program")), at(tc)).expect("a switch");
            side.switch().mc_set_group(1, &[(1, 0), (2, 0), (3, 0)]).expect("a group");
            side
        });
        for (port, count) in [(1, 2), (2, 2), (7, 3)] {
            let packet = packet(9, port as u8);
            let [left, right] = sides.each_mut().map(|side| side.send(port, &packet).expect("it fits"));
            assert_eq!((left.len(), &left), (count, &right), "from port {port}");
        }
        assert_eq!((sides[1].handed_over, &sides[1].failures), (0, &Vec::new()));
    }
}
