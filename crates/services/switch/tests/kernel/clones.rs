//! Clones of what comes in, at tc: in the kernel as in the interpreter, and in user space where their session is more than a port.

use super::*;
use barewire_p4::ir::{ActionCall, ActionId};
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use barewire_switch::control::MirrorSession;

const MIRRORED: &str = include_str!("../../../../../tests/programs/mirrored.p4");
/// The controller's port.
const CPU: u32 = 64;

/// The same program in both engines, with the same entries.
fn sides(program: &Arc<Program>, tc: bool) -> [Harness; 2] {
    both(program, &TargetConfig { cpu_port: Some(CPU), ..at(tc) }).map(|side| {
        let hosts = side.switch().table("hosts").expect("a table");
        let add = |key: u32, name: &str, args: &[u64]| {
            let known = program.actions.iter().position(|action| action.name.ends_with(name));
            let action = ActionId::from(known.expect("an action"));
            let args = args.iter().map(|&arg| arg.into()).collect();
            let key = vec![MatchParam::Exact(key.into())];
            let call = TableAction::Call(ActionCall { action, args });
            side.switch().add_entry(hosts, key, 0, call).expect("an entry");
        };
        add(1, "forward", &[2]);
        add(2, "plain", &[2, 5]);
        add(3, "numbered", &[2, 5, 0xabcd]);
        add(4, "broad", &[2, 5, 0xfedc_ba98_7654_3210]);
        add(5, "only", &[5]);
        side
    })
}

fn packet(to: u8) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..90).collect();
    packet[..12].fill(0);
    (packet[5], packet[11]) = (to, 9);
    packet[12..14].copy_from_slice(&[0x88, 0xb5]);
    packet
}

/// Ports and EtherTypes of what comes out, the same on both sides, and counted as often.
fn out(sides: &mut [Harness; 2], to: u8) -> Vec<(u32, u8)> {
    let [one, other] = sides.each_mut().map(|side| side.send(3, &packet(to)).expect("it fits"));
    assert_eq!(one, other, "to {to}");
    let counts = sides.each_mut().map(counted);
    assert_eq!(counts[0], counts[1], "to {to}");
    one.iter().map(|sent| (sent.port, sent.bytes[13])).collect()
}

#[test]
fn clones_are_those_of_the_interpreter() {
    if !may_load() {
        return;
    }
    let program = from_source(MIRRORED);
    let mut sides = sides(&program, true);
    let kernel = sides[1].plane().kernel.as_ref().expect("the kernel has it");
    assert!(kernel.is_at_tc() && kernel.compiled().clones);
    let of_program: Vec<_> = kernel.slow().iter().filter(|path| path.reason.is_of_the_program()).collect();
    assert!(of_program.is_empty(), "{of_program:?}");
    let session = |sides: &[Harness; 2], session: MirrorSession| {
        for side in sides {
            side.switch().set_mirror(5, session.clone()).expect("a session");
        }
    };
    let to = |port: u32| MirrorSession { egress_port: Some(port), ..MirrorSession::default() };
    // No session yet: the clone is dropped, the packet goes on.
    assert_eq!(out(&mut sides, 2), [(2, 0xb5)]);
    assert_eq!((out(&mut sides, 5), sides[1].handed_over), (vec![], 0));
    session(&sides, to(4));
    for (destination, expected) in [
        (1, &[(2, 0xb5)][..]),
        (2, &[(4, 0xb6), (2, 0xb5)]),
        (3, &[(4, 0xb6), (2, 0xb5)]),
        (4, &[(4, 0xb6), (2, 0xb5)]),
        (5, &[(4, 0xb6)]),
        (6, &[(1, 0xb5)]),
    ] {
        assert_eq!(out(&mut sides, destination), expected, "to {destination}");
    }
    // To the controller, as any packet.
    session(&sides, to(CPU));
    assert_eq!(out(&mut sides, 3), [(CPU, 0xb6), (2, 0xb5)]);
    assert_eq!(sides[1].handed_over, 0, "none");
    // Sessions that are more than a port: each clone once.
    let handed_over = |sides: &[Harness; 2]| sides[1].handed_over;
    session(&sides, MirrorSession { truncate_bytes: 40, ..to(4) });
    assert_eq!(out(&mut sides, 4), [(4, 0xb6), (2, 0xb5)]);
    for side in &sides {
        side.switch().mc_set_group(7, &[(1, 0), (6, 0)]).expect("a group");
    }
    session(&sides, MirrorSession { multicast_group: Some(7), ..MirrorSession::default() });
    assert_eq!(out(&mut sides, 3), [(1, 0xb6), (6, 0xb6), (2, 0xb5)]);
    assert_eq!(handed_over(&sides), 2);
    for side in &sides {
        side.switch().delete_mirror(5).expect("a session");
    }
    assert_eq!((out(&mut sides, 5), handed_over(&sides)), (vec![], 2));
    assert_eq!(sides[1].failures, Vec::<String>::new());
}

/// At XDP, and where it would show that a clone goes through egress later, the packet is for user space as it came.
#[test]
fn clones_that_the_kernel_does_not_make_are_made_in_user_space() {
    if !may_load() {
        return;
    }
    let counts = "left.count((bit<32>) standard.egress_port & 7);";
    let numbers = "bit<32> n; last.read(n, 0); last.write(0, n + 1); hdr.ethernet.dst_addr = (bit<48>) n;";
    let counter = "counter(8, CounterType.packets_and_bytes) left;";
    let in_order = MIRRORED
        .replace(counts, &format!("{counts}\n        {numbers}"))
        .replace(counter, &format!("{counter}\n    register<bit<32>>(1) last;"));
    for (text, tc) in [(MIRRORED, false), (&in_order, true)] {
        let mut sides = sides(&from_source(text), tc);
        for side in &sides {
            let port = MirrorSession { egress_port: Some(4), ..MirrorSession::default() };
            side.switch().set_mirror(5, port).expect("a session");
        }
        for destination in 1..7 {
            out(&mut sides, destination);
        }
        assert_eq!(sides[1].failures, Vec::<String>::new());
        assert!(sides[1].handed_over >= 4, "those of an entry that clones: {}", sides[1].handed_over);
    }
}

const MIRRORED_OUT: &str = include_str!("../../../../../tests/programs/mirrored_out.p4");

/// Clones of what leaves egress: with the packet's headers as egress left them, whatever the deparser makes of those of the packet.
#[test]
fn clones_of_what_leaves_egress_are_those_of_the_interpreter() {
    if !may_load() {
        return;
    }
    let program = from_source(MIRRORED_OUT);
    let target = TargetConfig { cpu_port: Some(CPU), ..at(true) };
    let mut sides = both(&program, &target);
    let kernel = sides[1].plane().kernel.as_ref().expect("the kernel has it");
    let compiled = kernel.compiled();
    assert!(kernel.is_at_tc() && compiled.clones && compiled.clones_alone, "{:?}", kernel.slow());
    let of_program: Vec<_> = kernel.slow().iter().filter(|path| path.reason.is_of_the_program()).collect();
    assert!(of_program.is_empty(), "{of_program:?}");
    for side in &sides {
        let add = |table: &str, key: u32, name: &str, args: &[u64]| {
            let table = side.switch().table(table).expect("a table");
            let action = side.switch().action_of(table, name).expect("its action");
            let args = args.iter().map(|&arg| arg.into()).collect();
            let call = TableAction::Call(ActionCall { action, args });
            side.switch().add_entry(table, vec![MatchParam::Exact(key.into())], 0, call).expect("an entry");
        };
        add("mirrors", 1, "plain", &[5]);
        add("mirrors", 2, "numbered", &[5, 0xabcd]);
        add("mirrors", 3, "broad", &[5, 0xfedc_ba98_7654_3210]);
        add("mirrors", 4, "only", &[5]);
        add("hosts", 5, "forward", &[u64::from(CPU)]);
        add("mirrors", 5, "plain", &[5]);
    }
    // Ports and lengths of what comes out.
    let out = |sides: &mut [Harness; 2], to: u8, more: u8| {
        let mut packet = packet(to);
        packet[15] = more;
        let [one, other] = sides.each_mut().map(|side| side.send(3, &packet).expect("it fits"));
        assert_eq!(one, other, "to {to}, {more} more");
        let counts = sides.each_mut().map(counted);
        assert_eq!(counts[0], counts[1], "to {to}, {more} more");
        one.iter().map(|sent| (sent.port, sent.bytes.len())).collect::<Vec<_>>()
    };
    let session = |sides: &[Harness; 2], number: u32, session: MirrorSession| {
        for side in sides {
            side.switch().set_mirror(number, session.clone()).expect("a session");
        }
    };
    let to = |port: u32| MirrorSession { egress_port: Some(port), ..MirrorSession::default() };
    // No session yet: the clone is dropped, the packet goes on.
    assert_eq!(out(&mut sides, 1, 0), [(1, 90)]);
    assert_eq!(out(&mut sides, 4, 0), []);
    session(&sides, 5, to(4));
    session(&sides, 6, to(2));
    for (destination, more, expected) in [
        (1, 0, &[(1, 90), (4, 95)][..]),
        (2, 0, &[(1, 90), (4, 95)]),
        (3, 0, &[(1, 90), (4, 95)]),
        (4, 0, &[(4, 95)]),
        (5, 0, &[(CPU, 90), (4, 95)]),
        (6, 3, &[(1, 90)]),
        (1, 2, &[(1, 90), (4, 95), (2, 95), (2, 95)]),
        (3, 1, &[(1, 90), (4, 95), (2, 95)]),
        (4, 3, &[(4, 95), (2, 95), (2, 95), (2, 95)]),
    ] {
        assert_eq!(out(&mut sides, destination, more), expected, "to {destination}, {more} more");
    }
    session(&sides, 6, to(CPU));
    assert_eq!(out(&mut sides, 1, 2), [(1, 90), (4, 95), (CPU, 95), (CPU, 95)]);
    assert_eq!(sides[1].handed_over, 0);
    // While a session is more than a port user space has all packets.
    session(&sides, 6, MirrorSession { truncate_bytes: 40, ..to(2) });
    assert_eq!(out(&mut sides, 1, 1), [(1, 90), (4, 95), (2, 40)]);
    assert_eq!((out(&mut sides, 6, 0).len(), sides[1].handed_over), (1, 2));
    for side in &sides {
        side.switch().delete_mirror(6).expect("a session");
    }
    assert_eq!(out(&mut sides, 1, 1), [(1, 90), (4, 95)]);
    assert_eq!((sides[1].handed_over, &sides[1].failures), (2, &Vec::new()));
}

/// What user space would have to do for such a clone keeps all packets that cause one there.
#[test]
fn clones_of_what_leaves_egress_stay_in_user_space_with_what_needs_it() {
    if !may_load() {
        return;
    }
    let instance = "hdr.label.instance = (bit<8>) standard.instance_type;";
    let removes = MIRRORED_OUT.replace(instance, &format!("{instance}\n        hdr.extra.setInvalid();"));
    for text in [removes] {
        let mut sides = both(&from_source(&text), &at(true));
        let kernel = sides[1].plane().kernel.as_ref();
        if kernel.is_some() {
            let shape = kernel.and_then(|kernel| kernel.compiled().shape.again);
            assert!(shape.is_none_or(|again| again.headers.is_none()));
        }
        for side in &sides {
            let port = MirrorSession { egress_port: Some(4), ..MirrorSession::default() };
            side.switch().set_mirror(5, port).expect("a session");
        }
        let [one, other] = sides.each_mut().map(|side| side.send(3, &packet(1)).expect("it fits"));
        assert_eq!(one, other);
        assert_eq!(sides[1].failures, Vec::<String>::new());
    }
}
