//! Programs in the kernel, through `BPF_PROG_TEST_RUN`: what loads, what is refused, and that packets fare as in user space.
//!
//! These tests need the right to load programs (root, or CAP_BPF and CAP_NET_ADMIN), and say so loudly when they have not.

mod clones;
mod differential;
mod meters;
mod packet_tells;
mod psa;
mod random;
mod rounds;
mod sets;
mod to_controller;
mod writes;

use barewire_p4::ir::{Arch, CounterId, Program};
use barewire_p4_ebpf::Refusal;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::{Harness, HarnessError};
use barewire_switch::kernel::Kernel;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::stf::{self, RunError};
use barewire_testing::Needs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The same program in both engines, on switches of the same configuration.
fn both(program: &Arc<Program>, target: &TargetConfig) -> [Harness; 2] {
    [EngineKind::Interpreter, EngineKind::Kernel].map(|kind| {
        let prepared = match kind {
            EngineKind::Kernel => Prepared::for_kernel(Arc::clone(program), 511),
            kind => Prepared::new(Arc::clone(program), kind),
        };
        Harness::new(Arc::new(prepared.expect("a program")), target.clone()).expect("a switch")
    })
}

/// The first eight places of the first counter, of user space and the kernel together.
fn counted(side: &mut Harness) -> Vec<[u64; 2]> {
    let (plane, counter) = (side.plane(), CounterId::from(0));
    let at = |at| {
        let user = plane.datapath_state().read_counter(counter, at).unwrap_or_default();
        let kernel = plane.kernel.as_ref().map_or([0, 0], |kernel| kernel.counter(counter, at));
        [user[0] + kernel[0], user[1] + kernel[1]]
    };
    (0..8).map(at).collect()
}

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
    barewire_p4_formats::import::import(&json).ok().map(Arc::new)
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

/// The same for sources that speak of what the kernel's program does beside forwarding: they have no JSON in the corpus, or another one.
#[test]
fn the_verifier_has_nothing_to_say_to_sources() {
    const WORDS: [&str; 4] = ["value_set<", "resubmit", "recirculate", "clone"];
    let Some(corpus) = barewire_testing::shared("data/p4src") else { return };
    if !may_load() {
        return;
    }
    let mut sources = Vec::new();
    files(&corpus.join("p4_16_samples"), "p4", &mut sources);
    let (mut loaded, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for path in &sources {
        let text = String::from_utf8_lossy(&std::fs::read(path).expect("it is readable")).into_owned();
        if !text.contains("v1model.p4") || !WORDS.iter().any(|word| text.contains(word)) {
            continue;
        }
        let name = path.strip_prefix(&corpus).expect("it is below").display().to_string();
        let (files, options) = (barewire_switch::source::Files, barewire_p4_source::Options::default());
        let Ok(made) = barewire_switch::source::load(&files, &options, &path.display().to_string()) else {
            refused.push(format!("{name}: it does not run"));
            continue;
        };
        let program = Arc::new(made.program);
        let prepared = match Prepared::for_kernel(Arc::clone(&program), 511) {
            Ok(prepared) => prepared,
            Err(error) if error.to_string().contains("bpf(") => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
            Err(error) => {
                refused.push(format!("{name}: {error}"));
                continue;
            }
        };
        let compiled = Arc::clone(prepared.kernel().expect("it was compiled for the kernel"));
        match Kernel::load(program, compiled) {
            Ok(kernel) => match (kernel.has_tc(), &kernel.compiled().tc) {
                (Err(why), Ok(_)) => wrong.push(format!("{name}, at tc: {why}")),
                _ => loaded += 1,
            },
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    println!("{loaded} sources loaded");
    refused.iter().for_each(|why| println!("refused: {why}"));
    assert!(wrong.is_empty(), "the verifier refused {}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(loaded > 5, "{loaded}");
}

/// At which hook a program is to stand.
fn at(tc: bool) -> TargetConfig {
    TargetConfig { pass_offloads: tc, ..TargetConfig::default() }
}

fn stf(path: &Path, tc: bool) -> Option<Result<stf::Outcome, String>> {
    let program = import(&path.with_extension("json"))?;
    if program.arch == Arch::Psa && tc {
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
    let json = include_str!("../../../../../tests/programs/stamp_2.json");
    let program = Arc::new(barewire_p4_formats::import::import(json).expect("our own program"));
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

/// A packet that the kernel forwards keeps the entries alive that it hits; what nobody learned is told of.
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
    let json = include_str!("../../../../../tests/p4c/l2_learning.json");
    let program = Arc::new(barewire_p4_formats::import::import(json).expect("our own program"));
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
        assert_eq!((switch.handed_over, hit(&mut switch)), (0, 12_000));
        let counts = switch.plane().learner().expect("a program runs").counts();
        assert_eq!(counts, (1, 0), "the unknown one is told of");
    }
}

fn from_source(text: &str) -> Arc<Program> {
    let made = barewire_switch::source::from_text("sample.p4", text);
    Arc::new(made.unwrap_or_else(|why| panic!("{why}")))
}
