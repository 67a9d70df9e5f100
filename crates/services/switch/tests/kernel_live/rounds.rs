//! Packets that go round, clones and parser value sets, between interfaces.

use super::*;
use barewire_switch::control::MirrorSession;

const ROUNDS: &str = include_str!("../../../../../tests/programs/rounds.p4");
const MIRRORED: &str = include_str!("../../../../../tests/programs/mirrored.p4");
const SETS: &str = include_str!("../../../../../tests/programs/sets.p4");

const TO: u64 = 0x0200_0000_0001;

/// Rounds that the kernel does not make any more are made in user space, from where it ended: counted once, and the registers are one.
#[test]
fn rounds_go_on_in_user_space() {
    in_a_namespace(|_| {
        let uncut = ROUNDS.replace("truncate(32w40);", "");
        for (text, hook) in
            [(ROUNDS, HookChoice::Auto), (&uncut, HookChoice::Tc), (&uncut, HookChoice::Clsact)]
        {
            let server = start_at(text, hook).expect("a switch");
            let switch = server.switch();
            let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
            let (seen, passes) =
                (switch.counter("seen").expect("a counter"), switch.register("passes").expect("registers"));
            let (mut resubmitted, mut recirculated, mut bytes) = (0, 0, 0);
            for (kind, left) in [(1, 5), (2, 33), (1, 33), (1, 50), (2, 34), (3, 60), (2, 100)] {
                let mut packet = ethernet(TO, 0x0200_0000_1000 + u64::from(left), 80);
                (packet[14], packet[15]) = (kind, left);
                let before = came_up(switch, 1);
                input.send_now(&packet);
                let got = next_of(&mut output, |got| got[6..12] == packet[6..12]);
                assert_eq!(got[16..18], [left, 1], "kind {kind}, {left} rounds");
                assert_eq!(came_up(switch, 1) - before, u64::from(left > 33), "kind {kind}, {left} rounds");
                let rounds = u64::from(left);
                *if kind == 1 { &mut resubmitted } else { &mut recirculated } += rounds;
                bytes += 80 * (rounds + 1) + if kind == 3 { rounds * (rounds + 1) } else { 0 };
                for (at, count) in [(4, recirculated), (6, resubmitted)] {
                    let counted = switch.read_counters(seen, Range::One(at)).expect("a counter");
                    assert_eq!(counted[0].1.packets, count, "kind {kind}, {left} rounds: those of type {at}");
                }
                let all = switch.read_registers(passes, Range::One(0)).expect("a register");
                assert_eq!(all, [(0, big(bytes))], "kind {kind}, {left} rounds");
            }
            server.stop().expect("the engine is well");
        }
    });
}

/// A clone leaves as its session says: by the kernel where that is a port, otherwise by user space.
#[test]
fn clones_leave_by_their_session() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for hook in [HookChoice::Tc, HookChoice::Clsact] {
            let target = TargetConfig { hook, ..TargetConfig::default() };
            let server = start_with(MIRRORED, 3, target, None).expect("a switch");
            let switch = server.switch();
            let entries = || {
                add(switch, "hosts", vec![exact(TO)], 0, "numbered", &[2, 5, 0xabcd]);
                add(switch, "hosts", vec![exact(TO + 1)], 0, "broad", &[2, 5, 0xfedc_ba98_7654_3210]);
            };
            entries();
            let to = |session: MirrorSession| switch.set_mirror(5, session).expect("a session");
            let port = || MirrorSession { egress_port: Some(3), ..MirrorSession::default() };
            let [mut h1, mut h2, mut h3] =
                ["h1", "h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
            let mut number = 0;
            let mut send = |to: u64| {
                number += 1;
                let packet = ethernet(to, 0x0200_0000_1000 + number, 80);
                h1.send_now(&packet);
                // The number is the clone's alone: egress finds a new source in the packet itself.
                let got = next_of(&mut h2, |got| got[..6] == packet[..6] && got[6..12] == [2, 3, 4, 5, 6, 7]);
                let clone = next_of(&mut h3, |got| got[6..12] == packet[6..12]);
                assert_eq!(
                    (&got[12..14], &clone[12..14]),
                    (&[0x88, 0xb5][..], &[0x88, 0xb6][..]),
                    "{hook:?}"
                );
                assert_eq!([got[14], clone[14]], [0, 1], "{hook:?}");
                clone
            };
            to(port());
            for _ in 0..10 {
                assert_eq!(send(TO)[17..19], [0xab, 0xcd], "{hook:?}");
                let wide = send(TO + 1)[17..28].to_vec();
                let shifted = 0xfedc_ba98_7654_3210_u128 << 2;
                assert_eq!(wide[2..11], shifted.to_be_bytes()[7..16], "{hook:?}: {wide:02x?}");
            }
            assert_eq!(came_up(switch, 1), 0, "{hook:?}: the kernel makes them");
            to(MirrorSession { truncate_bytes: 40, ..port() });
            for _ in 0..10 {
                assert_eq!(send(TO).len(), 40, "{hook:?}");
            }
            assert_eq!(came_up(switch, 1), 10, "{hook:?}: clones that are cut, not their packets");
            to(port());
            // Sessions outlive programs.
            switch.load(&json(MIRRORED)).expect("a program");
            entries();
            switch.swap().expect("another program");
            assert_eq!(send(TO).len(), 80, "{hook:?}");
            assert_eq!(came_up(switch, 1), 10, "{hook:?}: the kernel makes them");
            server.stop().expect("the engine is well");
        }
    });
}

/// A value set's write that has returned is seen by the packet that comes next.
#[test]
fn value_sets_are_those_of_the_next_packet() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for hook in HOOKS {
            let target = TargetConfig { hook, ..TargetConfig::default() };
            let server = start_with(SETS, 3, target, None).expect("a switch");
            let switch = server.switch();
            let (types, pairs) =
                (switch.value_set("types").expect("a set"), switch.value_set("pairs").expect("a set"));
            let [mut h1, mut h2, mut h3] =
                ["h1", "h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
            for round in 0..20 {
                let packet = ethernet(TO, 0x0200_0000_1000 + round, 80);
                let ours = |got: &[u8]| got[6..12] == packet[6..12];
                switch.vs_set(pairs, vec![vec![big(0x88b5), big(TO)]]).expect("values");
                h1.send_now(&packet);
                assert_eq!(next_of(&mut h2, ours)[14], 0x22, "{hook:?}");
                switch.vs_remove(pairs, vec![big(0x88b5), big(TO)]).expect("a value");
                h1.send_now(&packet);
                assert_eq!(next_of(&mut h3, ours)[14], 0, "{hook:?}");
                switch.vs_add(types, vec![big(0x88b5)]).expect("a value");
                h1.send_now(&packet);
                assert_eq!(next_of(&mut h1, |got| ours(got) && got[14] == 0x11)[14], 0x11, "{hook:?}");
                switch.vs_clear(types).expect("a set");
            }
            assert_eq!(came_up(switch, 1), 0, "{hook:?}: none left the kernel");
            server.stop().expect("the engine is well");
        }
    });
}

/// A program goes from XDP to tc when packets to clone come. Those that it had handed over until then are done in user space, the others
/// in the kernel: none is lost.
#[test]
fn no_clone_is_lost_when_a_program_moves() {
    const PACKETS: u32 = 4000;
    const UNDER_WAY: u32 = 200;
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for round in 0..5 {
            let server = start_with(MIRRORED, 3, TargetConfig::default(), None).expect("a switch");
            let switch = server.switch();
            add(switch, "hosts", vec![exact(TO)], 0, "numbered", &[2, 5, 0xabcd]);
            let session = MirrorSession { egress_port: Some(3), ..MirrorSession::default() };
            switch.set_mirror(5, session).expect("a session");
            assert!(switch.ports()[0].note.contains("XDP"), "{:?}", switch.ports());
            let [mut h1, mut h2, mut h3] =
                ["h1", "h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
            let mut seen = [vec![0_u32; PACKETS as usize], vec![0_u32; PACKETS as usize]];
            let (mut came, mut patience) = ([0_u32; 2], Patience::new());
            for at in 0..PACKETS + UNDER_WAY {
                if at < PACKETS {
                    let mut packet = ethernet(TO, 0x0200_0000_1000, 80);
                    packet[60..64].copy_from_slice(&at.to_be_bytes());
                    h1.send_now(&packet);
                }
                while came.iter().any(|came| came + UNDER_WAY < at.min(PACKETS + UNDER_WAY - 1) + 1) {
                    let before = came;
                    for (wire, (seen, came)) in
                        [&mut h2, &mut h3].into_iter().zip(seen.iter_mut().zip(&mut came))
                    {
                        wire.receive(|got| {
                            if got.len() == 80 && number(&got[..6]) == TO {
                                let at = number(&got[60..64]) as usize;
                                *came += u32::from(seen[at] == 0);
                                seen[at] += 1;
                            }
                        });
                    }
                    if came != before {
                        patience = Patience::new();
                    }
                    patience.wait("packets or their clones are lost");
                }
            }
            assert_eq!(came, [PACKETS; 2]);
            let twice: Vec<usize> =
                seen.iter().map(|seen| seen.iter().filter(|times| **times > 1).count()).collect();
            println!("round {round}: {} came up, {twice:?} came twice", came_up(switch, 1));
            assert!(switch.ports()[0].note.contains("tc"), "{:?}", switch.ports());
            assert!(came_up(switch, 1) > 0, "{:?}", switch.ports());
            server.stop().expect("the engine is well");
        }
    });
}

const MIRRORED_OUT: &str = include_str!("../../../../../tests/programs/mirrored_out.p4");

/// Clones of what leaves egress leave from the kernel: of packets that go on, and that are dropped.
#[test]
fn clones_of_what_leaves_egress_leave_from_the_kernel() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for hook in [HookChoice::Tc, HookChoice::Clsact] {
            let target = TargetConfig { hook, ..TargetConfig::default() };
            let server = start_with(MIRRORED_OUT, 3, target, None).expect("a switch");
            let switch = server.switch();
            for last in 0..3 {
                add(switch, "hosts", vec![exact(TO + last)], 0, "forward", &[2]);
            }
            add(switch, "mirrors", vec![exact(TO)], 0, "numbered", &[5, 0xabcd]);
            add(switch, "mirrors", vec![exact(TO + 2)], 0, "only", &[5]);
            let port = |port| MirrorSession { egress_port: Some(port), ..MirrorSession::default() };
            switch.set_mirror(5, port(3)).expect("a session");
            switch.set_mirror(6, port(2)).expect("a session");
            let [mut h1, mut h2, mut h3] =
                ["h1", "h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
            for round in 0..10_u64 {
                let packet = |to: u64, more: u8| {
                    let mut packet = ethernet(to, 0x0200_0000_1000 + round, 80);
                    packet[15] = more;
                    packet
                };
                let from = |got: &[u8]| number(&got[6..12]) == 0x0200_0000_1000 + round;
                // One to another, and a clone of it.
                h1.send_now(&packet(TO, 0));
                assert_eq!(
                    (next_of(&mut h2, from).len(), next_of(&mut h3, from)[14..16].to_vec()),
                    (80, vec![0, 3])
                );
                // None, and no clone.
                h1.send_now(&packet(TO + 1, 7));
                assert_eq!(next_of(&mut h2, from).len(), 80);
                // A clone of one that is dropped, and clones of the clone.
                h1.send_now(&packet(TO + 2, 2));
                assert_eq!(next_of(&mut h3, from).len(), 85);
                let last = next_of(&mut h2, |got| from(got) && got[18] == 2);
                assert_eq!(last[14..19], [0, 2, 0, 80 + 5, 2], "{hook:?}");
            }
            assert_eq!(came_up(switch, 1), 0, "{hook:?}");
            assert_eq!(dropped(switch, "program_drop"), 10, "{hook:?}");
            server.stop().expect("the engine is well");
        }
    });
}
