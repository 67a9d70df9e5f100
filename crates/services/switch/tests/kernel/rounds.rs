//! Packets that go round again: in the kernel as in the interpreter, and in user space from where the kernel ends.

use super::*;
use barewire_p4::ir::RegisterId;
use barewire_p4::state::State;

const ROUNDS: &str = include_str!("../../../../../tests/programs/rounds.p4");

/// The same program in both engines.
fn sides(program: &Arc<Program>, tc: bool) -> [Harness; 2] {
    both(program, &at(tc))
}

fn packet(kind: u8, left: u8) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..90).collect();
    packet[12..14].copy_from_slice(&[0x88, 0xb5]);
    (packet[14], packet[15]) = (kind, left);
    packet
}

/// What comes out and what was counted, on both sides.
fn same(sides: &mut [Harness; 2], kind: u8, left: u8) -> Vec<u8> {
    let packet = packet(kind, left);
    let [one, other] = sides.each_mut().map(|side| side.send(1, &packet).expect("it fits"));
    assert_eq!(one, other, "kind {kind}, {left} rounds");
    let counts = sides.each_mut().map(counted);
    assert_eq!(counts[0], counts[1], "kind {kind}, {left} rounds");
    one.into_iter().next().map(|sent| sent.bytes).unwrap_or_default()
}

fn register(side: &mut Harness) -> u64 {
    let plane = side.plane();
    let kernel = plane.kernel.as_ref().and_then(|kernel| kernel.register(RegisterId::from(0), 0));
    let value = kernel.unwrap_or_else(|| State::register(plane.datapath_state(), RegisterId::from(0), 0));
    u64::try_from(value).expect("32 bits")
}

#[test]
fn packets_go_round_in_the_kernel() {
    if !may_load() {
        return;
    }
    go_round(ROUNDS, false);
}

/// At tc nothing is cut.
#[test]
fn packets_go_round_at_tc() {
    if may_load() {
        go_round(&without_cut(), true);
    }
}

fn without_cut() -> String {
    ROUNDS.replace("truncate(32w40);", "")
}

fn go_round(text: &str, tc: bool) {
    let program = from_source(text);
    let mut sides = sides(&program, tc);
    let kernel = sides[1].plane().kernel.as_ref().expect("the kernel has it");
    let of_program: Vec<_> = kernel.slow().iter().filter(|path| path.reason.is_of_the_program()).collect();
    assert!(of_program.is_empty() && kernel.is_at_tc() == tc, "{of_program:?}");
    assert!(kernel.compiled().rounds && kernel.compiled().registers);
    for kind in 0..8 {
        for left in [0, 1, 2, 7, 30] {
            let bytes = same(&mut sides, kind, left);
            assert_eq!(register(&mut sides[0]), register(&mut sides[1]), "kind {kind}, {left} rounds");
            assert_eq!(bytes.len(), if kind == 3 { 90 + 2 * usize::from(left) } else { 90 });
            let rounds = if (1..6).contains(&kind) { left } else { 0 };
            // The list of kind 6 does not have the rounds; nothing keeps what no list has.
            let (rounds, lost) = if kind == 6 { (9, 1) } else { (rounds, 1) };
            assert_eq!(bytes[16..18], [rounds, lost], "kind {kind}, {left} rounds");
        }
    }
    assert_eq!((sides[1].handed_over, &sides[1].failures), (0, &Vec::new()));
}

/// Beyond the kernel's limit user space goes on: what was counted is counted, and registers are one.
#[test]
fn rounds_that_the_kernel_does_not_make_are_made_in_user_space() {
    if !may_load() {
        return;
    }
    for (text, tc) in [(ROUNDS, false), (&without_cut(), true)] {
        let program = from_source(text);
        let mut sides = sides(&program, tc);
        let mut handed_over = 0;
        for (kind, left) in [(1, 33), (1, 34), (1, 60), (2, 33), (2, 34), (2, 200), (4, 50), (3, 36)] {
            let bytes = same(&mut sides, kind, left);
            assert_eq!(register(&mut sides[0]), register(&mut sides[1]), "kind {kind}, {left} rounds");
            assert_eq!(bytes[16..18], [left, 1]);
            handed_over += u64::from(left > 33);
            assert_eq!(sides[1].handed_over, handed_over, "kind {kind}, {left} rounds, at tc: {tc}");
        }
        assert_eq!(sides[1].failures, Vec::<String>::new());
    }
}

/// What only user space can do, in a later round: it begins there with that round, not with the packet as it came.
#[test]
fn a_later_round_may_need_user_space() {
    if !may_load() {
        return;
    }
    let program = from_source(&format!("#define SLOW\n{ROUNDS}"));
    for tc in [false, true] {
        let mut sides = sides(&program, tc);
        for kind in 0..8 {
            for left in [0, 1, 2, 40] {
                let before = sides[1].handed_over;
                same(&mut sides, kind, left);
                let handed_over = sides[1].handed_over - before;
                // At tc some are to be cut, and all are counted before: so all go up at once.
                let expected = tc || (kind == 5 && left > 0) || ((1..5).contains(&kind) && left == 40);
                assert_eq!(handed_over, u64::from(expected), "kind {kind}, {left} rounds, at tc: {tc}");
            }
        }
        assert_eq!(sides[1].failures, Vec::<String>::new());
    }
}

/// What another program of the switch kept for a packet is not taken.
#[test]
fn a_context_is_one_programs() {
    if !may_load() {
        return;
    }
    let [_, mut side] = sides(&from_source(ROUNDS), false);
    let kernel = side.plane().kernel.as_mut().expect("the kernel has it");
    kernel.set_epoch(7);
    let of = |epoch: u32, len: usize| {
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&(1 | (epoch << 8)).to_ne_bytes());
        bytes
    };
    let len = kernel.context_len();
    // How it goes round, and the words of a byte and of a hundred bits.
    assert_eq!(len, 8 * (1 + 1 + 2));
    let found = kernel.context(&of(7, len)).expect("it is this program's");
    assert_eq!((found.request, found.epoch), (3, 7));
    assert_eq!([of(8, len), of(7, len - 8), of(7, len + 8)].map(|bytes| kernel.context(&bytes)), [None; 3]);
}
