//! Workloads are what they say they are, and the real tables agree with what was worked out.

use super::*;
use crate::switch::program::{NAMES, Source, kind_of};
use crate::switch::setup::apply;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::Harness;
use barewire_switch::prepared::EngineKind;
use std::sync::Arc;

const SPEC: Spec = Spec { size: 64, entries: 100, masks: Masks::Some(8), flows: Some(300), seed: 1 };

#[test]
fn masks_are_words() {
    assert_eq!("64".parse(), Ok(Masks::Some(64)));
    assert_eq!("all".parse(), Ok(Masks::All));
    for bad in ["0", "", "-1", "al"] {
        assert!(bad.parse::<Masks>().is_err(), "{bad}");
    }
}

#[test]
fn sizes_and_numbers_have_bounds() {
    let make = |spec: Spec| Workload::make(Kind::Acl, &spec).map(drop).map_err(|e| e.to_string());
    for (spec, words) in [
        (Spec { size: 59, ..SPEC }, "60 to 1518"),
        (Spec { size: 1519, ..SPEC }, "60 to 1518"),
        (Spec { entries: 0, ..SPEC }, "at least one"),
        (Spec { flows: Some(0), ..SPEC }, "at least one"),
        (Spec { entries: 65_537, ..SPEC }, "room for 65536"),
    ] {
        assert!(make(spec).unwrap_err().contains(words), "{spec:?}");
    }
}

#[test]
fn checksums_are_those_of_the_standard() {
    // RFC 1071's example, summed and complemented.
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    let header = udp4(1, 2, tuple(5, 0x0a00_0001), 64, 64);
    assert_eq!(checksum(&header[14..34]), 0, "a header with its sum sums to nothing");
}

#[test]
fn routes_are_distinct_and_nested_ones_win() {
    let routes: Vec<(u32, u32, u32)> = (0..5000).map(route).collect();
    let nets: HashSet<(u32, u32)> = routes.iter().map(|r| (r.0, r.1)).collect();
    assert_eq!(nets.len(), routes.len());
    let best = |address: u32| {
        let covers = |r: &&(u32, u32, u32)| address & prefix32(r.1) == r.0;
        routes.iter().filter(covers).max_by_key(|r| r.1).copied()
    };
    for r in routes.iter().take(200) {
        assert_eq!(best(r.2), Some(*r));
    }
}

#[test]
fn masks_are_as_many_as_asked_for() {
    for (masks, expected) in [(Masks::Some(8), 8), (Masks::All, 100), (Masks::Some(1000), 100)] {
        let made = Workload::make(Kind::Acl, &Spec { masks, ..SPEC }).unwrap();
        assert_eq!(made.masks, Some(expected));
        let distinct: HashSet<Vec<u64>> = made
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Entry { table, key, .. } if table == "rules" => Some(
                    key.iter().map(|m| if let Match::Ternary(_, mask) = m { *mask } else { 0 }).collect(),
                ),
                _ => None,
            })
            .collect();
        assert_eq!(distinct.len() as u32, expected);
    }
}

/// The two ways to find the first rule that matches agree.
#[test]
fn the_first_rule_is_found_by_mask_and_by_looking() {
    let mut rng = Prng::new(7);
    let masks = distinct_masks(&mut rng, 20).unwrap();
    let rules: Vec<Rule> = (0..400)
        .map(|i| {
            let mask = masks[i % masks.len()];
            // Few values, so that rules overlap.
            let t = Tuple { src: 0x0a00_0000, dst: 0x0a00_0000 + (i as u32 % 3), ..random_tuple(&mut rng) };
            Rule { value: under(&t, &mask), mask, port: OUT_PORT }
        })
        .collect();
    let first = FirstMatch::new(&rules, &masks);
    let mut found = 0;
    for _ in 0..2000 {
        let t = Tuple { src: 0x0a00_0000, dst: 0x0a00_0000 + rng.below(4) as u32, ..random_tuple(&mut rng) };
        let looked = rules.iter().position(|rule| rule.matches(&t));
        assert_eq!(first.find(&t), looked);
        found += usize::from(looked.is_some());
    }
    assert!(found > 100, "{found}");
}

#[test]
fn wrong_packets_are_told_from_right_ones() {
    let made = Workload::make(Kind::Router(crate::switch::program::OURS), &SPEC).unwrap();
    let right = |flow: usize| {
        let fate = &made.flows[flow].fates[0];
        let mut bytes = fate.header.clone();
        bytes.extend((bytes.len()..64).map(payload_byte));
        bytes
    };
    assert_eq!(made.check(3, OUT_PORT, &right(3)), Ok(()));
    assert!(made.check(3, OTHER_PORT, &right(3)).unwrap_err().contains("port 3 and not at 2"));
    for (at, words) in [(22, "byte 22"), (63, "byte 63"), (0, "byte 0")] {
        let mut bytes = right(3);
        bytes[at] ^= 1;
        assert!(made.check(3, OUT_PORT, &bytes).unwrap_err().contains(words));
    }
    assert!(made.check(3, OUT_PORT, &right(3)[..63]).unwrap_err().contains("63 bytes and not 64"));
    assert!(made.check(3, OUT_PORT, &right(4)).is_err());
}

/// Every program does to every packet what was worked out here, by the interpreter.
#[test]
fn programs_do_what_is_expected_of_them() {
    for name in NAMES {
        let source: Source = name.parse().unwrap();
        let prepared = Arc::new(source.prepare(EngineKind::Interpreter).unwrap());
        let kind = kind_of(&prepared.program).unwrap();
        for masks in [Masks::Some(8), Masks::All] {
            let made = Workload::make(kind, &Spec { masks, size: 200, ..SPEC }).unwrap();
            let mut harness = Harness::new(Arc::clone(&prepared), TargetConfig::default()).unwrap();
            apply(harness.switch(), &made.steps, &mut || {}).unwrap();
            for flow in 0..made.flows.len() {
                let packet = made.packet(flow);
                assert_eq!(packet.len(), 200, "{name}");
                let sent = harness.send(IN_PORT, &packet).unwrap();
                assert_eq!(sent.len(), 1, "{name}: packet {flow}");
                made.check(flow, sent[0].port, &sent[0].bytes).unwrap_or_else(|why| panic!("{name}: {why}"));
                assert!(made.out_ports.contains(&sent[0].port));
            }
        }
    }
}
