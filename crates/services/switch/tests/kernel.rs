//! Programs in the kernel, through `BPF_PROG_TEST_RUN`: what loads, what is refused, and that packets fare as in user space.
//!
//! These tests need the right to load programs (root, or CAP_BPF and CAP_NET_ADMIN), and say so loudly when they have not.

use barewire_p4::ir::{Arch, Program};
use barewire_p4_ebpf::Refusal;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::HarnessError;
use barewire_switch::kernel::Kernel;
use barewire_switch::prepared::Prepared;
use barewire_switch::stf::{self, RunError};
use barewire_testing::Needs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn may_load() -> bool {
    use barewire_ebpf::{Asm, Reg};
    let mut asm = Asm::default();
    asm.mov_imm(Reg::R0, 0);
    asm.exit();
    let insns = asm.finish(false).expect("no jumps");
    match barewire_bpf::Program::load(barewire_bpf::Kind::Xdp, "barewire_test", &insns) {
        Ok(_) => true,
        Err(error) => {
            barewire_testing::skip(Needs::Root, format!("programs cannot be loaded: {error}"));
            false
        }
    }
}

fn files(folder: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            files(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
    out.sort();
}

fn import(path: &Path) -> Option<Arc<Program>> {
    let json = std::fs::read_to_string(path).expect("it is readable");
    barewire_p4::import::import(&json).ok().map(Arc::new)
}

/// Every program loads, or our compiler says why not: the verifier is never the one to refuse.
#[test]
fn the_verifier_has_nothing_to_say() {
    let Some(corpus) = barewire_testing::shared("data/p4") else { return };
    if !may_load() {
        return;
    }
    let mut programs = Vec::new();
    files(&corpus, "json", &mut programs);
    let (mut whole, mut partly, mut walked, mut longest) = (0, 0, 0, (0, String::new()));
    let mut at_tc = 0;
    let mut not_at_tc: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut slow: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for path in &programs {
        let name = path.strip_prefix(&corpus).expect("it is below").display().to_string();
        let Some(program) = import(path) else {
            *refused.entry("not imported".to_owned()).or_default() += 1;
            continue;
        };
        let prepared = match Prepared::for_kernel(Arc::clone(&program), 511) {
            Ok(prepared) => prepared,
            Err(error) => {
                let why = error.to_string();
                // It is loaded there, too.
                if why.contains("bpf(") {
                    wrong.push(format!("{name}: {why}"));
                    continue;
                }
                let why = why.rsplit(": ").next().unwrap_or(&why).to_owned();
                *refused.entry(why).or_default() += 1;
                continue;
            }
        };
        let compiled = Arc::clone(prepared.kernel().expect("it was compiled for the kernel"));
        match Kernel::load(program, compiled) {
            Ok(kernel) => {
                match (kernel.has_tc(), &kernel.compiled().tc) {
                    (Ok(()), _) => at_tc += 1,
                    (Err(why), Ok(_)) => wrong.push(format!("{name}, at tc: {why}")),
                    (Err(_), Err(Refusal::Nothing { reason, .. })) => {
                        *not_at_tc.entry(reason.to_string()).or_default() += 1;
                    }
                    (Err(why), Err(_)) => *not_at_tc.entry(why.to_owned()).or_default() += 1,
                }
                let mut any = false;
                for path in kernel.slow() {
                    if path.reason.is_of_the_program() {
                        any = true;
                        *slow.entry(path.reason.to_string()).or_default() += 1;
                    }
                }
                if any {
                    partly += 1
                } else {
                    whole += 1
                }
                let verified = kernel.verified();
                walked += verified.instructions;
                if verified.instructions > longest.0 {
                    longest = (verified.instructions, name);
                }
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    println!("{} programs: {whole} loaded whole, {partly} with ways to user space", programs.len());
    println!("the verifier walked {walked} instructions, {} for {}", longest.0, longest.1);
    println!("{at_tc} of them have a form for tc");
    not_at_tc.iter().for_each(|(why, count)| println!("not at tc: {count:4} {why}"));
    refused.iter().for_each(|(why, count)| println!("refused: {count:4} {why}"));
    slow.iter().for_each(|(why, count)| println!("to user space: {count:4} {why}"));
    assert!(wrong.is_empty(), "the verifier refused {}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(whole > 100, "{whole}");
    assert!(at_tc > 100, "{at_tc}");
}

/// At which hook a program is to stand.
fn at(tc: bool) -> TargetConfig {
    TargetConfig { pass_offloads: tc, ..TargetConfig::default() }
}

fn stf(path: &Path, tc: bool) -> Option<Result<stf::Outcome, String>> {
    let program = import(&path.with_extension("json"))?;
    if program.arch == Arch::Psa {
        return None;
    }
    let text = std::fs::read_to_string(path).expect("it is readable");
    let prepared = match Prepared::for_kernel(program, 511) {
        Ok(prepared) => prepared,
        Err(error) if error.to_string().contains("bpf(") => return Some(Err(error.to_string())),
        Err(_) => return None,
    };
    if tc && prepared.kernel().is_some_and(|compiled| compiled.tc.is_err()) {
        return None;
    }
    // At tc some that are shorter than an Ethernet header leave by user space, and some do not leave.
    let kept = without_runts(&text);
    if tc && !kept.lines().eq(text.lines()) {
        return None;
    }
    match stf::run(Arc::new(prepared), at(tc), &kept) {
        Ok(outcome) => Some(Ok(outcome)),
        Err(RunError::Harness(HarnessError::Kernel(error))) => Some(Err(error.to_string())),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Bytes of an Ethernet header: the kernel runs no program on a packet that is shorter, and makes none shorter.
const ETHERNET: usize = 14;

/// A test without what the kernel drops: of a packet that it takes, one that is shorter than an Ethernet header. What came in shorter
/// is handed over, and user space sends it whatever its length.
fn without_runts(text: &str) -> String {
    let bytes = |line: &str| {
        let data = line.split_once('#').map_or(line, |(data, _)| data);
        let words = data.split_whitespace().skip(2).filter(|word| *word != "$");
        words.map(str::len).sum::<usize>() / 2
    };
    let (mut kept, mut packet) = (String::new(), 0);
    for line in text.lines() {
        let command = line.split_whitespace().next().unwrap_or_default();
        if command == "packet" {
            packet = bytes(line);
        }
        if command != "expect" || bytes(line) == 0 || bytes(line) >= ETHERNET || packet < ETHERNET {
            kept.push_str(line);
        }
        // A line for a line: messages name them by number.
        kept.push('\n');
    }
    kept
}

/// Every packet test, those of the corpus and our own.
#[test]
fn packet_tests_pass() {
    pass_at(false);
}

#[test]
fn packet_tests_pass_at_tc() {
    pass_at(true);
}

fn pass_at(tc: bool) {
    if !may_load() {
        return;
    }
    let mut tests = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/stf"), "stf", &mut tests);
    if let Some(corpus) = barewire_testing::shared("data/p4") {
        files(&corpus, "stf", &mut tests);
    }
    let (mut passed, mut in_user_space, mut sent, mut handed_over) = (0, 0, 0, 0);
    let (mut failed, mut not_run) = (Vec::new(), Vec::new());
    // The kernel makes no trial at tc of a packet that says it is IP and is shorter than IP's header.
    let refused = |wrong: &str| tc && wrong.contains("Invalid argument");
    for test in &tests {
        match stf(test, tc) {
            None => in_user_space += 1,
            Some(Err(error)) if refused(&error) => not_run.push(test.display().to_string()),
            Some(Ok(outcome)) if outcome.wrong.iter().any(|wrong| refused(wrong)) => {
                not_run.push(test.display().to_string());
            }
            Some(Ok(outcome)) => {
                sent += outcome.sent as u64;
                handed_over += outcome.handed_over;
                if outcome.passed() {
                    passed += 1;
                } else {
                    failed.push(format!("{}: {}", test.display(), outcome.wrong.join("; ")));
                }
            }
            Some(Err(error)) => failed.push(format!("{}: {error}", test.display())),
        }
    }
    println!(
        "{passed} of {} tests pass in the kernel ({sent} packets, {handed_over} of them handed over); {in_user_space} \
         programs have no form there",
        tests.len() - in_user_space
    );
    println!("the kernel makes no trial of a packet of {not_run:?}");
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 50 && not_run.len() < 10, "{passed}, {not_run:?}");
}

/// Packets that only user space takes count in the same registers as those that the kernel forwards.
#[test]
fn registers_are_one() {
    use barewire_p4::ir::RegisterId;
    use barewire_switch::harness::Harness;
    if !may_load() {
        return;
    }
    let json = include_str!("../../../../tests/programs/stamp_2.json");
    let program = Arc::new(barewire_p4::import::import(json).expect("our own program"));
    let prepared = Prepared::for_kernel(program, 511).expect("it has a form for the kernel");
    let mut switch = Harness::new(Arc::new(prepared), TargetConfig::default()).expect("a switch");
    let mut packet = vec![0_u8; 60];
    packet[12..14].copy_from_slice(&[0x88, 0xb5]);
    // The kernel runs no program on it.
    let short = vec![0_u8; ETHERNET - 4];
    let seen = |switch: &mut Harness| {
        let kernel = switch.plane().kernel.as_ref().expect("the kernel has it");
        let all = (0..16).map(|index| kernel.register(RegisterId::from(0), index).expect("in the kernel"));
        all.map(|value| u64::try_from(value).expect("32 bits")).sum::<u64>()
    };
    for (packets, bytes) in [&packet, &short, &packet, &short, &short, &packet].into_iter().enumerate() {
        assert_eq!(seen(&mut switch), packets as u64, "after so many packets");
        assert_eq!(switch.send(1, bytes).expect("it fits").len(), 1);
    }
    assert_eq!((seen(&mut switch), switch.handed_over), (6, 3));
}

/// A packet that the kernel forwards keeps the entries alive that it hits; what nobody learned goes to user space.
#[test]
fn hits_in_the_kernel_are_hits() {
    use barewire_p4::ir::{ActionCall, ActionId};
    use barewire_p4::key::MatchParam;
    use barewire_p4_state::TableAction;
    use barewire_switch::control::link::Replica;
    use barewire_switch::harness::Harness;
    use barewire_switch::kernel::Fold;
    if !may_load() {
        return;
    }
    let json = include_str!("../../../../tests/p4c/l2_learning.json");
    let program = Arc::new(barewire_p4::import::import(json).expect("our own program"));
    for tc in [false, true] {
        let prepared = Prepared::for_kernel(Arc::clone(&program), 511).expect("it has a form for the kernel");
        let mut switch = Harness::new(Arc::new(prepared), at(tc)).expect("a switch");
        let (sources, destinations) =
            (switch.switch().table("sources").expect("a table"), switch.switch().table("destinations"));
        let call = |name: &str, args: &[u32]| {
            let known = program.actions.iter().position(|action| action.name.ends_with(name));
            let action = ActionId::from(known.expect("an action"));
            TableAction::Call(ActionCall { action, args: args.iter().map(|&arg| arg.into()).collect() })
        };
        let exact = |value: u32| MatchParam::Exact(value.into());
        let control = switch.switch().clone();
        let known = control.add_entry(sources, vec![exact(7), exact(1)], 0, call("NoAction", &[]));
        let known = known.expect("an entry") as u32;
        control
            .add_entry(destinations.expect("a table"), vec![exact(9)], 0, call("forward", &[2]))
            .expect("an entry");
        let packet = |source: u8| {
            let mut packet = vec![0_u8; 60];
            (packet[5], packet[11]) = (9, source);
            packet
        };
        let hit = |switch: &mut Harness| {
            let plane = switch.plane();
            plane.fold(&Fold::Hits(sources, [known].into()));
            plane.datapath_state().hits(sources, known).expect("the entry is there")
        };
        for us in [5000, 7000] {
            switch.advance_us(us);
            assert_eq!(switch.send(1, &packet(7)).expect("it fits").len(), 1);
        }
        assert_eq!((switch.handed_over, hit(&mut switch)), (0, 12_000));
        switch.advance_us(1000);
        assert_eq!(switch.send(1, &packet(8)).expect("it fits").len(), 1);
        assert_eq!((switch.handed_over, hit(&mut switch)), (1, 12_000));
    }
}

mod differential {
    use super::*;
    use barewire_base::Prng;
    use barewire_p4::interp::Interpreter;
    use barewire_p4::ir::{
        ActionCall, CounterId, HashAlgorithm, KeyField, KeySource, MatchKind, RegisterId, Stmt, TableActions,
        TableId,
    };
    use barewire_p4::key::MatchParam;
    use barewire_p4::phv::Phv;
    use barewire_p4::state::State;
    use barewire_p4_jit::differential::{entries::value, packets};
    use barewire_p4_state::{ProgramState, TableAction};
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
                both(&|side| {
                    let action = match table.source {
                        TableActions::Direct => TableAction::Call(call.clone()),
                        TableActions::Profile(profile) => {
                            let member = side.switch().add_member(profile, call.clone());
                            TableAction::Member(member.map_err(|e| e.to_string())?)
                        }
                    };
                    let added = side.switch().add_entry(id, key.clone(), priority, action);
                    added.map(drop).map_err(|e| e.to_string())
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
        written
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

    /// Programs of which packets are lost at tc: `docs/src/reference/missing.md` names them.
    const LOST_AT_TC: [&str; 2] = ["11-MultiTags.json", "12-MultiTagsNoLoop.json"];

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
            let Some(program) = import(path).filter(|p| p.arch == Arch::V1Model && !is_random(p)) else {
                continue;
            };
            let name = path.strip_prefix(&corpus).expect("it is below").display().to_string();
            compared += 1;
            if let Err(why) = one(&program, tc, 120, &mut prng, &mut sums)
                && !(tc && LOST_AT_TC.iter().any(|known| name.ends_with(known)))
            {
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
}
