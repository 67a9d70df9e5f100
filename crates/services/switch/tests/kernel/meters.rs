//! Meters in the kernel.

use super::*;
use barewire_base::Prng;
use barewire_p4::ir::{ActionCall, ActionId, MeterId};
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use barewire_switch::control::{MeterRate, Range};
use barewire_switch::harness::Harness;
use barewire_switch::prepared::EngineKind;

/// The same colours at the same times, whatever the rate: the product of the two is rounded as in user space.
#[test]
fn meters_are_those_of_the_interpreter() {
    if !may_load() {
        return;
    }
    let program = from_source(include_str!("../../../../../tests/programs/paced.p4"));
    let wires = MeterId::from(program.meters.iter().position(|m| m.direct.is_none()).expect("a meter"));
    let metered = program.actions.iter().position(|a| a.name.ends_with("metered")).expect("an action");
    let mut prng = Prng::new(0x3e7e_0001);
    for tc in [false, true] {
        let make = |kind| {
            let prepared = match kind {
                EngineKind::Kernel => Prepared::for_kernel(Arc::clone(&program), 511),
                kind => Prepared::new(Arc::clone(&program), kind),
            };
            Harness::new(Arc::new(prepared.expect("a program")), at(tc)).expect("a switch")
        };
        let mut sides = [make(EngineKind::Interpreter), make(EngineKind::Kernel)];
        let hosts = sides[0].switch().table("hosts").expect("a table");
        let call = TableAction::Call(ActionCall { action: ActionId::from(metered), args: Vec::new() });
        let entries = sides.each_ref().map(|side| {
            let key = vec![MatchParam::Exact(7_u8.into())];
            side.switch().add_entry(hosts, key, 0, call.clone()).expect("an entry")
        });
        let mut colours = [[0; 4]; 2];
        for round in 0..400 {
            // Times and rates whose product is a whole number but for a rounding, and others.
            let (per_us, step) = match round % 4 {
                0 => (f64::from(prng.below(1000) as u32) / 10.0, 10),
                1 => (1.0 / f64::from(1 + prng.below(5000) as u32), 1 + prng.below(5000)),
                2 => (f64::from_bits(0x3f00_0000_0000_0000 + prng.below(1 << 54)), 1 + prng.below(1 << 20)),
                _ => (0.7, 10),
            };
            let burst = 1 + prng.below(3) as u32;
            let rates = |unit: u32| {
                let rates = [(per_us, burst), (per_us * 1.5, burst + 1)];
                rates.map(|(rate, burst)| MeterRate {
                    units_per_us: rate * f64::from(unit),
                    burst: burst * unit,
                })
            };
            for (side, entry) in sides.iter().zip(entries) {
                side.switch().set_meter(wires, Range::One(1), &rates(64)).expect("rates");
                side.switch().set_direct_meter(hosts, entry, &rates(1)).expect("rates");
            }
            let mut packet = vec![0_u8; 64];
            (packet[5], packet[12], packet[13]) = (7, 0x88, 0xb5);
            for _ in 0..8 {
                let [left, right] = sides.each_mut().map(|side| side.send(1, &packet).expect("it fits"));
                assert_eq!(left, right, "{per_us} in a microsecond, {burst} at once, round {round}");
                colours[0][usize::from(left[0].bytes[11])] += 1;
                colours[1][usize::from(left[0].bytes[10])] += 1;
                sides.iter_mut().for_each(|side| side.advance_us(step));
            }
        }
        assert_eq!((sides[1].handed_over, &sides[1].failures), (0, &Vec::new()));
        for colours in colours {
            assert!(colours[..3].iter().all(|&count| count > 40) && colours[3] == 0, "{colours:?}");
        }
        // What user space meters (the kernel runs no program on so short a packet) spends tokens of the same buckets.
        let once = MeterRate { units_per_us: 0.0, burst: 60 };
        let seen = sides.each_mut().map(|side| {
            side.switch().set_meter(wires, Range::One(1), &[once, once]).expect("rates");
            [30, 10, 10, 20].map(|len| {
                let sent = side.send(1, &vec![0; len]).expect("it fits");
                sent[0].bytes.get(10).copied()
            })
        });
        assert_eq!(seen[0], [Some(0), None, None, Some(2)]);
        assert_eq!((&seen[1], sides[1].handed_over), (&seen[0], 2));
    }
}
