//! Random entries, rates and packets through the interpreter and through the kernel.

use super::*;
use barewire_base::Prng;
use barewire_p4::interp::Interpreter;
use barewire_p4::ir::{
    ActionCall, CounterId, Expr, HashAlgorithm, KeyField, KeySource, MatchKind, MeterArray, MeterId,
    RegisterId, Stmt, TableActions, TableId, TransitionMatch,
};
use barewire_p4::key::MatchParam;
use barewire_p4::phv::Phv;
use barewire_p4::state::State;
use barewire_p4_jit::differential::{entries::value, packets};
use barewire_p4_state::{ProgramState, TableAction};
use barewire_switch::control::link::Replica;
use barewire_switch::control::{MeterRate, MirrorSession, Range};
use barewire_switch::harness::Harness;
use barewire_switch::prepared::EngineKind;
use num_bigint::BigUint;

const SEED: u64 = 0x5eed_0001;
const ENTRIES: usize = 10;

/// Random numbers are each engine's own.
fn is_random(program: &Program) -> bool {
    let drawn = |stmt: &Stmt| matches!(stmt, Stmt::Random { .. });
    program.actions.iter().flat_map(|action| &action.body).any(drawn)
        || program.calculations.iter().any(|c| c.algorithm == HashAlgorithm::Random)
}

fn key_value(field: &KeyField, vectors: &[Phv], interpreter: &Interpreter, prng: &mut Prng) -> BigUint {
    let layout = &interpreter.plan().layout;
    if let KeySource::Field(reference) = &field.source
        && let Some(id) = reference.fixed()
        && !vectors.is_empty()
        && prng.chance(0.8)
    {
        return vectors[prng.below(vectors.len() as u64) as usize].field(layout, id);
    }
    value(field.width, prng)
}

fn param(field: &KeyField, number: BigUint, prng: &mut Prng) -> MatchParam {
    let ones = (BigUint::from(1_u8) << field.width) - 1_u8;
    match field.kind {
        MatchKind::Exact => MatchParam::Exact(number),
        MatchKind::Valid => MatchParam::Valid(prng.chance(0.7)),
        MatchKind::Lpm => {
            let prefix_len = prng.below(u64::from(field.width) + 1) as u32;
            let mask = &ones ^ (&ones >> prefix_len);
            MatchParam::Lpm { value: number & mask, prefix_len }
        }
        MatchKind::Optional => {
            if prng.chance(0.6) {
                MatchParam::Ternary { value: number, mask: ones }
            } else {
                MatchParam::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO }
            }
        }
        MatchKind::Ternary => {
            let mask = match prng.below(4) {
                0 => ones,
                1 => BigUint::ZERO,
                2 => &ones ^ (&ones >> prng.below(u64::from(field.width) + 1)),
                _ => value(field.width, prng),
            };
            MatchParam::Ternary { value: number & &mask, mask }
        }
        MatchKind::Range => {
            let other = value(field.width, prng);
            let (low, high) = if other < number { (other, number) } else { (number, other) };
            MatchParam::Range { low, high }
        }
    }
}

/// The same entries for both, as many as are accepted.
fn populate(program: &Program, sides: [&Harness; 2], vectors: &[Phv], prng: &mut Prng) -> usize {
    let interpreter = Interpreter::new(Arc::new(program.clone()));
    let mut written = 0;
    for (at, table) in program.tables.iter().enumerate() {
        let id = TableId::from(at);
        let mut both = |write: &dyn Fn(&Harness) -> Result<(), String>| {
            let [left, right] = sides.map(write);
            assert_eq!(left, right, "table {}", table.name);
            written += usize::from(left.is_ok());
        };
        let action = |prng: &mut Prng| {
            let action = table.actions[prng.below(table.actions.len() as u64) as usize];
            let params = &program.actions[action.at()].params;
            // Ports are few, or nothing would ever come out.
            let arg = |width: u32, prng: &mut Prng| {
                if width == 9 { BigUint::from(prng.below(6)) } else { value(width, prng) }
            };
            ActionCall { action, args: params.iter().map(|p| arg(p.width, prng)).collect() }
        };
        if table.actions.is_empty() {
            continue;
        }
        for entry in 0..ENTRIES {
            let call = action(prng);
            let key: Vec<MatchParam> = table
                .key
                .iter()
                .map(|field| {
                    let value = key_value(field, vectors, &interpreter, prng);
                    param(field, value, prng)
                })
                .collect();
            let priority = prng.below(4) as u32;
            let rates = table.meter.filter(|_| prng.chance(0.8));
            let rates = rates.map(|meter| rates_of(&program.meters[meter.at()], prng));
            both(&|side| {
                let action = match table.source {
                    TableActions::Direct => TableAction::Call(call.clone()),
                    TableActions::Profile(profile) => {
                        let member = side.switch().add_member(profile, call.clone());
                        TableAction::Member(member.map_err(|e| e.to_string())?)
                    }
                };
                let added = side.switch().add_entry(id, key.clone(), priority, action);
                let handle = added.map_err(|e| e.to_string())?;
                let Some(rates) = &rates else { return Ok(()) };
                side.switch().set_direct_meter(id, handle, rates).map_err(|e| e.to_string())
            });
            if entry == 0 && table.source == TableActions::Direct && prng.chance(0.5) {
                let call = action(prng);
                both(&|side| {
                    let set = side.switch().set_default(id, TableAction::Call(call.clone()));
                    set.map_err(|e| e.to_string())
                });
            }
        }
        // Some go again, and some change.
        if prng.chance(0.5) {
            both(&|side| {
                let entries = side.switch().entries(id).map_err(|e| e.to_string())?;
                match entries.first() {
                    Some(entry) if !table.immutable => {
                        side.switch().delete_entry(id, entry.handle).map_err(|e| e.to_string())
                    }
                    _ => Ok(()),
                }
            });
        }
    }
    written += fill_sets(program, sides, vectors, prng);
    for (at, meter) in program.meters.iter().enumerate().filter(|(_, meter)| meter.direct.is_none()) {
        for index in 0..u64::from(meter.size.min(SEEN_METERS)) {
            if prng.chance(0.8) {
                let rates = rates_of(meter, prng);
                let set = |side: &Harness| {
                    let one = Range::One(index);
                    side.switch().set_meter(MeterId::from(at), one, &rates).map_err(|e| e.to_string())
                };
                let [left, right] = sides.map(set);
                assert_eq!(left, right, "meter {}", meter.name);
                written += usize::from(left.is_ok());
            }
        }
    }
    written
}

/// The same values in parser value sets for both: most of them what packets have there.
fn fill_sets(program: &Program, sides: [&Harness; 2], vectors: &[Phv], prng: &mut Prng) -> usize {
    let interpreter = Interpreter::new(Arc::new(program.clone()));
    let layout = &interpreter.plan().layout;
    let mut written = 0;
    for state in program.parsers.iter().flat_map(|parser| &parser.states) {
        for transition in &state.transitions {
            let TransitionMatch::ValueSet(set, _) = transition.when else { continue };
            for _ in 0..4 {
                let vector = vectors.get(prng.below(vectors.len().max(1) as u64) as usize);
                let parts = state.key.iter().map(|(part, width)| match (part, vector) {
                    (Expr::Field(field), Some(vector)) if prng.chance(0.8) => match field.fixed() {
                        Some(id) => vector.field(layout, id),
                        None => value(*width, prng),
                    },
                    _ => value(*width, prng),
                });
                let parts: Vec<BigUint> = parts.collect();
                let what = prng.below(6);
                let [left, right] = sides.map(|side| match what {
                    0 => side.switch().vs_set(set, vec![parts.clone()]).map_err(|e| e.to_string()),
                    1 => side.switch().vs_remove(set, parts.clone()).map_err(|e| e.to_string()),
                    _ => side.switch().vs_add(set, parts.clone()).map_err(|e| e.to_string()),
                });
                assert_eq!(left, right, "a value set of {}", state.name);
                written += usize::from(left.is_ok());
            }
        }
    }
    written
}

/// The same multicast groups for both: what random packets and entries name is mostly small.
fn make_groups(sides: [&Harness; 2], prng: &mut Prng) {
    for group in 1..6_u32 {
        let replicas: Vec<(u32, u32)> =
            (0..prng.below(4)).map(|rid| (prng.below(6) as u32, rid as u32)).collect();
        for side in sides {
            side.switch().mc_set_group(group, &replicas).expect("a group");
        }
    }
}

/// The same mirror sessions for both: those that programs name by a number, and a few others, most of them with one port.
fn make_sessions(program: &Program, sides: [&Harness; 2], prng: &mut Prng) {
    let named = program.actions.iter().flat_map(|action| &action.body).filter_map(|stmt| match stmt {
        Stmt::CloneIngress { session: Expr::Int(session), .. }
        | Stmt::CloneEgress { session: Expr::Int(session), .. } => u32::try_from(session).ok(),
        _ => None,
    });
    for id in named.filter(|id| *id < 1 << 15).chain(0..4) {
        let port = Some(prng.below(6) as u32);
        let session = match prng.below(6) {
            0 => continue,
            1 => MirrorSession { egress_port: port, truncate_bytes: 20, ..MirrorSession::default() },
            2 => {
                MirrorSession { multicast_group: Some(1 + prng.below(4) as u32), ..MirrorSession::default() }
            }
            _ => MirrorSession { egress_port: port, ..MirrorSession::default() },
        };
        for side in sides {
            side.switch().set_mirror(id, session.clone()).expect("a session");
        }
    }
}

/// Meters of an array that are set and compared.
const SEEN_METERS: u32 = 64;

/// Rates of all sizes: with some of them buckets are full again after a few packets, with others never.
fn rates_of(meter: &MeterArray, prng: &mut Prng) -> Vec<MeterRate> {
    let mut per_us: Vec<f64> = (0..meter.rate_count)
        .map(|_| match prng.below(6) {
            0 => 0.0,
            1 => 1.0 / (1 + prng.below(10_000)) as f64,
            2 => prng.below(1000) as f64 / 10.0,
            3 => 1e-9 * prng.below(1000) as f64,
            4 => f64::from_bits(prng.next_u64() & !(1 << 63)).clamp(0.0, 1e30),
            _ => prng.below(1 << 20) as f64 / 7.0,
        })
        .map(|rate| if rate.is_nan() { 0.5 } else { rate })
        .collect();
    per_us.sort_by(f64::total_cmp);
    let burst = |prng: &mut Prng| match prng.below(3) {
        0 => prng.below(3) as u32,
        1 => prng.below(4000) as u32,
        _ => prng.next_u64() as u32,
    };
    per_us.into_iter().map(|units_per_us| MeterRate { units_per_us, burst: burst(prng) }).collect()
}

/// What is left in the buckets shows in the colours of the next packets.
fn compare_meters(program: &Program, left: &mut Harness, right: &mut Harness) -> Result<(), String> {
    for (at, meter) in program.meters.iter().enumerate() {
        let id = MeterId::from(at);
        let seen = if meter.direct.is_some() { ENTRIES as u32 + 4 } else { meter.size.min(SEEN_METERS) };
        for index in 0..u64::from(seen) {
            for (len, now) in [(1, 0), (64, 1 << 20), (1000, 1 << 20), (20, (1 << 20) + 10), (1, 1 << 50)] {
                let [l, r] = [&mut *left, &mut *right]
                    .map(|side| State::meter(side.plane().datapath_state(), id, index, len, now, 0));
                if l != r {
                    return Err(format!("meter {}[{index}]: {l}, {r}", meter.name));
                }
            }
        }
    }
    Ok(())
}

/// The same samples in the same order.
fn compare_digests(left: &mut Harness, right: &mut Harness) -> Result<(), String> {
    let [l, r] = [left, right].map(|side| {
        let (mut digests, learner) = (Vec::new(), side.plane().learner().expect("a program runs"));
        learner.poll(u64::MAX, &mut digests);
        digests.into_iter().map(|list| (list.list, list.samples)).collect::<Vec<_>>()
    });
    if l == r { Ok(()) } else { Err(format!("digests: {l:02x?}, {r:02x?}")) }
}

fn compare_states(program: &Program, left: &mut Harness, right: &mut Harness) -> Result<(), String> {
    for (at, counter) in program.counters.iter().enumerate() {
        let id = CounterId::from(at);
        for index in 0..u64::from(if counter.direct.is_some() { 0 } else { counter.size.min(64) }) {
            let l = left.plane().datapath_state().read_counter(id, index).unwrap_or_default();
            let plane = right.plane();
            let user = plane.datapath_state().read_counter(id, index).unwrap_or_default();
            let kernel = plane.kernel.as_ref().map_or([0, 0], |kernel| kernel.counter(id, index));
            let r = [user[0] + kernel[0], user[1] + kernel[1]];
            if l != r {
                return Err(format!("counter {}[{index}]: {l:?}, {r:?}", counter.name));
            }
        }
    }
    for (at, table) in program.tables.iter().enumerate().filter(|(_, table)| table.counter.is_some()) {
        let id = TableId::from(at);
        for handle in (0..ENTRIES as u32 + 4).map(Some).chain([None]) {
            let stats = |state: &mut ProgramState| {
                state.stats(id, handle).map_or([0, 0], |stats| [stats.packets, stats.bytes])
            };
            let l = stats(left.plane().datapath_state());
            let plane = right.plane();
            let user = stats(plane.datapath_state());
            let kernel = plane.kernel.as_ref().map_or([0, 0], |kernel| kernel.direct(id, handle));
            let r = [user[0] + kernel[0], user[1] + kernel[1]];
            if l != r {
                return Err(format!("direct counter of {} {handle:?}: {l:?}, {r:?}", table.name));
            }
        }
    }
    for (at, register) in program.registers.iter().enumerate() {
        let id = RegisterId::from(at);
        for index in 0..u64::from(register.size.min(64)) {
            let l = State::register(left.plane().datapath_state(), id, index);
            let plane = right.plane();
            let kernel = plane.kernel.as_ref().and_then(|kernel| kernel.register(id, index));
            let r = kernel.unwrap_or_else(|| State::register(plane.datapath_state(), id, index));
            if l != r {
                return Err(format!("register {}[{index}]: {l}, {r}", register.name));
            }
        }
    }
    Ok(())
}

#[derive(Default)]
struct Sums {
    packets: u64,
    sent: u64,
    handed_over: u64,
    too_short: u64,
    entries: usize,
}

fn one(
    program: &Arc<Program>,
    tc: bool,
    rounds: usize,
    prng: &mut Prng,
    sums: &mut Sums,
) -> Result<(), String> {
    let interpreter =
        Prepared::new(Arc::clone(program), EngineKind::Interpreter).map_err(|e| e.to_string())?;
    let Ok(kernel) = Prepared::for_kernel(Arc::clone(program), 511) else { return Ok(()) };
    if tc && kernel.kernel().is_some_and(|compiled| compiled.tc.is_err()) {
        return Ok(());
    }
    let side = |prepared| Harness::new(Arc::new(prepared), at(tc));
    let mut left = side(interpreter).map_err(|e| e.to_string())?;
    let mut right = side(kernel).map_err(|e| e.to_string())?;
    let mut oracle = Interpreter::new(Arc::clone(program));
    let mut state = ProgramState::with_program_entries(program);
    let samples: Vec<Vec<u8>> = (0..24).map(|_| packets::structured(program, 0, prng)).collect();
    let mut vectors = Vec::new();
    for sample in &samples {
        let mut phv = oracle.plan().layout.new_phv();
        barewire_p4::engine::Engine::parse(&mut oracle, 0, &mut phv, sample, &mut state);
        vectors.push(phv);
    }
    sums.entries += populate(program, [&left, &right], &vectors, prng);
    make_groups([&left, &right], prng);
    make_sessions(program, [&left, &right], prng);
    for round in 0..rounds {
        let mut packet = match round {
            // One packet of every length.
            0..=79 => samples[0].iter().copied().take(14 + round).collect(),
            _ => packets::mutate(packets::structured(program, 0, prng), prng),
        };
        packet.truncate(3000);
        if packet.len() < 14 || (tc && is_shorter_than_its_header(&packet)) {
            continue;
        }
        let port = prng.below(6) as u32;
        let step = prng.below(5000);
        left.advance_us(step);
        right.advance_us(step);
        // A program may send a packet round for ever: that is not what is compared.
        let Some((l, true)) = left.send_for(port, &packet, 64) else { return Ok(()) };
        let Some((r, _)) = right.send_for(port, &packet, 64) else { return Ok(()) };
        sums.packets += 1;
        sums.sent += l.len() as u64;
        if l != r {
            if r.is_empty() && l.iter().all(|packet| packet.bytes.len() < 14) {
                // No interface sends such a one, and the kernel does not make it.
                sums.too_short += 1;
                continue;
            }
            return Err(format!(
                "port {port}, packet {packet:02x?}:\n  interpreter {l:02x?}\n  kernel {r:02x?}"
            ));
        }
    }
    if let Some(failure) = right.failures.first() {
        return Err(format!("a run failed: {failure}"));
    }
    sums.handed_over += right.handed_over;
    compare_digests(&mut left, &mut right)?;
    compare_meters(program, &mut left, &mut right)?;
    compare_states(program, &mut left, &mut right)
}

/// It says that it is IP, and is shorter than IP's header: the kernel makes no trial of it at tc.
fn is_shorter_than_its_header(packet: &[u8]) -> bool {
    match packet[12..14] {
        [0x08, 0x00] => packet.len() < 14 + 20,
        [0x86, 0xdd] => packet.len() < 14 + 40,
        _ => false,
    }
}

/// Random entries and packets through the interpreter and through the kernel: the same packets, counters and registers.
#[test]
fn packets_fare_as_in_the_interpreter() {
    fare_at(false);
}

#[test]
fn packets_fare_as_in_the_interpreter_at_tc() {
    fare_at(true);
}

fn fare_at(tc: bool) {
    let Some(corpus) = barewire_testing::shared("data/p4") else { return };
    if !may_load() {
        return;
    }
    let mut programs = Vec::new();
    files(&corpus, "json", &mut programs);
    let mut prng = Prng::new(SEED);
    let mut sums = Sums::default();
    let (mut compared, mut wrong) = (0, Vec::new());
    for path in &programs {
        // PSA programs stand at XDP.
        let may_stand = |p: &Arc<Program>| !tc || p.arch != Arch::Psa;
        let Some(program) = import(path).filter(may_stand).filter(|p| !is_random(p)) else { continue };
        let name = path.strip_prefix(&corpus).expect("it is below").display().to_string();
        compared += 1;
        if let Err(why) = one(&program, tc, 120, &mut prng, &mut sums) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    let Sums { packets, sent, handed_over, too_short, entries } = sums;
    println!(
        "seed {SEED:#x}: {compared} programs, {entries} writes, {packets} packets in, {sent} out, {handed_over} handed \
         over, {too_short} too short to leave"
    );
    let shown: Vec<&String> = wrong.iter().take(40).collect();
    assert!(wrong.is_empty(), "{} programs differ:\n{shown:#?}", wrong.len());
    assert!(packets > 10_000, "{packets}");
    assert!(handed_over * 4 < packets, "{handed_over} of {packets}");
}
