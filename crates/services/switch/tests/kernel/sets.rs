//! Parser value sets in the kernel.

use super::*;
use barewire_base::Prng;
use barewire_p4::ir::{TransitionMatch, ValueSetId};
use num_bigint::BigUint;

/// The same program in both engines.
fn sides(program: &Arc<Program>, tc: bool) -> [Harness; 2] {
    both(program, &at(tc))
}

fn packet(ether_type: u16, to: u8) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..64).collect();
    packet[..12].fill(0);
    packet[5] = to;
    packet[12..14].copy_from_slice(&ether_type.to_be_bytes());
    packet
}

/// By which port each packet of a row leaves, in both engines.
fn ports(sides: &mut [Harness; 2], packets: &[(u16, u8)]) -> Vec<u32> {
    let one = |&(ether_type, to): &(u16, u8)| {
        let packet = packet(ether_type, to);
        let [left, right] = sides.each_mut().map(|side| side.send(1, &packet).expect("it fits"));
        assert_eq!(left, right, "type {ether_type:#x} to {to}");
        left[0].port
    };
    packets.iter().map(one).collect()
}

/// A write is seen by the packet that comes next, and no packet goes to user space.
#[test]
fn values_are_seen_when_they_are_written() {
    if !may_load() {
        return;
    }
    let program = from_source(include_str!("../../../../../tests/programs/sets.p4"));
    for tc in [false, true] {
        let mut sides = sides(&program, tc);
        let kernel = sides[1].plane().kernel.as_ref().expect("the kernel has it");
        let reasons: Vec<_> = kernel.slow().iter().filter(|path| path.reason.is_of_the_program()).collect();
        assert!(reasons.is_empty(), "{reasons:?}");
        let set = |name: &str| sides[0].switch().value_set(name).expect("a set");
        let (types, pairs) = (set("types"), set("pairs"));
        let value = |parts: &[u64]| parts.iter().map(|&part| BigUint::from(part)).collect::<Vec<_>>();
        let row = [(0x88b5, 7), (0x88b6, 7), (0x88b5, 8), (0x88b6, 8)];
        assert_eq!(ports(&mut sides, &row), [3, 3, 3, 3]);
        for side in &sides {
            side.switch().vs_add(types, value(&[0x88b5])).expect("a value");
        }
        assert_eq!(ports(&mut sides, &row), [1, 3, 1, 3]);
        for side in &sides {
            side.switch().vs_add(pairs, value(&[0x88b6, 8])).expect("a value");
            side.switch().vs_add(pairs, value(&[0x88b6, 8])).expect("a value that is there");
        }
        assert_eq!(ports(&mut sides, &row), [1, 3, 1, 2]);
        for side in &sides {
            let all = [value(&[0x88b6, 7]), value(&[0x88b5, 7]), value(&[0x88b6, 8])];
            side.switch().vs_set(pairs, all.to_vec()).expect("values");
            side.switch().vs_remove(types, value(&[0x88b5])).expect("a value");
        }
        assert_eq!(ports(&mut sides, &row), [2, 2, 3, 2]);
        for side in &sides {
            side.switch().vs_clear(pairs).expect("a set");
            let five: Vec<_> = (0..5).map(|part| value(&[0x88b5 + part])).collect();
            assert!(side.switch().vs_set(types, five.clone()).is_err(), "it holds four");
            side.switch().vs_set(types, five[1..].to_vec()).expect("values");
        }
        assert_eq!(ports(&mut sides, &row), [3, 1, 3, 1]);
        // All four are replaced by four others.
        for side in &sides {
            let others: Vec<_> = (5..9).map(|part| value(&[0x88b0 + part])).collect();
            side.switch().vs_set(types, others).expect("values");
        }
        assert_eq!(ports(&mut sides, &row), [1, 1, 1, 1]);
        assert_eq!((sides[1].handed_over, &sides[1].failures), (0, &Vec::new()));
        let counted = |at: u64| {
            let user = sides[0].plane().datapath_state().read_counter(CounterId::from(0), at);
            let kernel =
                sides[1].plane().kernel.as_ref().expect("it is there").counter(CounterId::from(0), at);
            (user.unwrap_or_default()[0], kernel[0])
        };
        assert_eq!([1, 2, 3].map(counted), [(10, 10), (4, 4), (10, 10)]);
    }
}

/// Under a mask several values are the same: the last of them that goes takes the element along.
#[test]
fn values_under_a_mask_are_those_of_the_interpreter() {
    if !may_load() {
        return;
    }
    let mut program = (*from_source(include_str!("../../../../../tests/programs/sets.p4"))).clone();
    for state in program.parsers.iter_mut().flat_map(|parser| &mut parser.states) {
        let whens = state.transitions.iter_mut().map(|transition| &mut transition.when);
        for (when, widths) in whens.zip([state.key.len()].into_iter().cycle()) {
            if let TransitionMatch::ValueSet(_, mask) = when {
                *mask = Some(vec![BigUint::from(0x6_u8); widths]);
            }
        }
    }
    let program = Arc::new(program);
    let mut prng = Prng::new(0x5e75_0001);
    for tc in [false, true] {
        let mut sides = sides(&program, tc);
        let mut seen = [0; 4];
        for _ in 0..300 {
            let set = ValueSetId::from(prng.below(2) as usize);
            let parts = 1 + set.at();
            let value: Vec<BigUint> = (0..parts).map(|_| prng.below(8).into()).collect();
            let what = prng.below(5);
            let done = sides.each_ref().map(|side| match what {
                0 | 1 => side.switch().vs_add(set, value.clone()).is_ok(),
                2 | 3 => side.switch().vs_remove(set, value.clone()).is_ok(),
                _ => side.switch().vs_set(set, vec![value.clone()]).is_ok(),
            });
            assert_eq!(done[0], done[1]);
            for _ in 0..4 {
                let one = (prng.below(8) as u16, prng.below(8) as u8);
                seen[ports(&mut sides, &[one])[0] as usize] += 1;
            }
        }
        assert_eq!((sides[1].handed_over, &sides[1].failures), (0, &Vec::new()));
        assert!(seen[1..].iter().all(|&count| count > 50), "{seen:?}");
    }
}
