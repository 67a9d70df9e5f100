//! The third oracle: the same program, entries and packets through a real bmv2 and through both of our engines.
//!
//! bmv2 (`simple_switch`, `psa_switch`, where they are on the PATH) runs in a network namespace and is handed packets one
//! by one; both are programmed by the same lines of the command line. What leaves each port, in order, must be equal, and
//! registers and counters at the end. Variables:
//! `BAREWIRE_ORACLE` is `few`, `all`, or words of which a program's path holds one; without it nothing is compared; `BAREWIRE_ORACLE_SEED`,
//! `BAREWIRE_ORACLE_PACKETS`, `BAREWIRE_ORACLE_JOBS`; `BAREWIRE_ORACLE_KEEP` names a folder for what differed.
// Time-outs of another process, nothing that drives a protocol.
#![allow(clippy::disallowed_methods)]

mod oracle;

use barewire_netns::is_root_capable;
use barewire_p4::ir::{Arch, Program};
use barewire_p4_source::Options;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::source;
use barewire_testing::{Needs, find_shared, have, have_part, program as program_of_system, skip};
use oracle::bmv2;
use oracle::ours::{self, Fate, Noise, Ours};
use oracle::scenario::{self, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What runs when a few are asked for.
const FEW: &[&str] = &[
    "programs/",
    "tests/p4c/",
    "tests/stf/",
    "p4_16/table-entries-ternary-bmv2",
    "p4_16/v1model-special-ops-bmv2",
    "p4_16/header-stack-ops-bmv2",
    "p4_16/union-bmv2",
    "p4_16/checksum1-bmv2",
    "p4_14/",
    "legacy/",
];
/// How many of them at most.
const FEW_MAX: usize = 20;

/// Programs that are not compared, or may differ, each with the reason.
const EXCUSED: &[(&str, &str)] = &[
    ("import/p4_16_samples/psa-dpdk-errorcode-2", "bmv2 ends itself where this program's verify fails"),
    ("import/p4_16_samples/issue1607-bmv2", "bmv2 ends itself: it takes no stack field as a header"),
    (
        "p4_16_samples/invalid-hdr-warnings6.p4",
        "bmv2 ends itself: its access_union_header looks for a header where the union is",
    ),
];

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn programs(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            programs(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "json" || extension == "p4") {
            out.push(path);
        }
    }
}

enum Verdict {
    Agree { packets: usize, left_out: usize, out: usize },
    Skipped(String),
    Excused(String, String),
    Differ(String),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// The packets of each port, each with the packet that caused it.
fn by_port(fates: &[Fate]) -> BTreeMap<u32, Vec<(usize, &[u8])>> {
    let mut ports: BTreeMap<u32, Vec<(usize, &[u8])>> = BTreeMap::new();
    for (index, fate) in fates.iter().enumerate() {
        for (port, bytes) in &fate.out {
            ports.entry(*port).or_default().push((index, bytes.as_slice()));
        }
    }
    ports
}

/// Whether each packet led to the same packets. Of copies that leave by one port bmv2's threads settle the order anew each
/// time; where a packet leads to one alone, this compares orders too.
fn same_but_for_threads(fates: &[Fate], theirs: &[Vec<(u32, Vec<u8>)>]) -> bool {
    let sorted = |packets: &[(u32, Vec<u8>)]| {
        let mut packets = packets.to_vec();
        packets.sort();
        packets
    };
    theirs.len() == fates.len() + 1
        && theirs[fates.len()].is_empty()
        && fates.iter().zip(theirs).all(|(fate, theirs)| sorted(&fate.out) == sorted(theirs))
}

/// The first difference, if there is one.
fn difference(scenario: &Scenario, fates: &[Fate], theirs: &bmv2::Run, who: &str) -> Option<(String, usize)> {
    if let Some((died, at)) = &theirs.died {
        let packet = scenario.packets.get(*at).map_or("the end".to_owned(), |(port, bytes)| {
            format!("packet {at} on port {port}: {}", hex(bytes))
        });
        return Some((format!("bmv2 died at {packet}\n  {died}"), 0));
    }
    if same_but_for_threads(fates, &theirs.by_packet) {
        return None;
    }
    let mut said = None;
    let ours = by_port(fates);
    let ports: BTreeSet<u32> = ours.keys().chain(theirs.out.keys()).copied().collect();
    for port in ports {
        let ours = ours.get(&port).map_or(&[][..], Vec::as_slice);
        let theirs = theirs.out.get(&port).map_or(&[][..], Vec::as_slice);
        let first = (0..ours.len().max(theirs.len()))
            .find(|&at| ours.get(at).map(|(_, bytes)| *bytes) != theirs.get(at).map(Vec::as_slice));
        let Some(at) = first else { continue };
        let cause = ours.get(at).map_or(usize::MAX, |(cause, _)| *cause);
        if said.as_ref().is_some_and(|(_, known)| *known <= cause) {
            continue;
        }
        let input = scenario
            .packets
            .get(cause)
            .map_or("-".to_owned(), |(p, b)| format!("{cause} on port {p}: {}", hex(b)));
        let shown = |bytes: Option<&[u8]>| bytes.map_or("nothing".to_owned(), hex);
        said = Some((
            format!(
                "port {port}, packet {at} of {} ({who}) and {} (bmv2)\n  in    {input}\n  {who:5} {}\n  bmv2  {}",
                ours.len(),
                theirs.len(),
                shown(ours.get(at).map(|(_, bytes)| *bytes)),
                shown(theirs.get(at).map(Vec::as_slice)),
            ),
            cause,
        ));
    }
    said
}

fn lines_differ(scenario: &Scenario, ours: &Ours, theirs: &bmv2::Run) -> Option<String> {
    let at = (0..scenario.lines.len()).find(|&at| ours.done.get(at) != theirs.done.get(at))?;
    let said = |refusals: &[(usize, String)]| {
        refusals
            .iter()
            .find(|(line, _)| *line == at)
            .map_or("done".to_owned(), |(_, text)| text.trim().to_owned())
    };
    Some(format!(
        "line '{}'\n  ours  {}\n  bmv2  {}",
        scenario.lines[at],
        said(&ours.refusals),
        said(&theirs.refusals)
    ))
}

/// The first register or counter that is not the same.
///
/// What holds something else when headers that are not valid hold noise is not determined.
fn memory_differs(
    program: &Program,
    ours: &mut Ours,
    noise: &mut [Ours],
    theirs: &bmv2::Run,
) -> Option<String> {
    for (at, register) in program.registers.iter().enumerate() {
        let Some(Some(theirs)) = theirs.registers.get(at) else { continue };
        if noise.iter_mut().any(|noise| noise.registers(at) != ours.registers(at)) {
            continue;
        }
        let ours: Vec<String> = ours.registers(at).iter().map(ToString::to_string).collect();
        if let Some(index) = (0..ours.len().max(theirs.len())).find(|&i| ours.get(i) != theirs.get(i)) {
            let (ours, theirs) = (ours.get(index), theirs.get(index));
            return Some(format!("register {}[{index}]: ours {ours:?}, bmv2 {theirs:?}", register.name));
        }
    }
    for (at, counter) in program.counters.iter().enumerate() {
        for (index, theirs) in theirs.counters.get(at).into_iter().flatten().enumerate() {
            let at_index = index as u64;
            let ours = ours.counter(at, at_index);
            if noise.iter_mut().any(|noise| noise.counter(at, at_index) != ours) {
                continue;
            }
            if ours != *theirs {
                return Some(format!("counter {}[{index}]: ours {ours:?}, bmv2 {theirs:?}", counter.name));
            }
        }
    }
    None
}

fn keep(name: &str, scenario: &Scenario, why: &str, prepared: &Arc<Prepared>, theirs: &bmv2::Run) {
    let Some(folder) = std::env::var_os("BAREWIRE_ORACLE_KEEP").map(PathBuf::from) else { return };
    let mut text = format!("{why}\n\n");
    for line in &scenario.lines {
        let _ = writeln!(text, "{line}");
    }
    let mut ours = Ours::start(prepared, &scenario.lines).expect("it started before");
    ours.trace();
    for (index, (port, bytes)) in scenario.packets.iter().enumerate() {
        let _ = writeln!(text, "\n=== packet {index} on port {port}: {}", hex(bytes));
        let fate = ours.send(*port, bytes);
        for event in ours.events() {
            let _ = writeln!(text, "{event}");
        }
        for (port, bytes) in &fate.out {
            let _ = writeln!(text, ">>> {port} {}", hex(bytes));
        }
    }
    for (port, packets) in &theirs.out {
        for (at, packet) in packets.iter().enumerate() {
            let _ = writeln!(text, "bmv2 {port} #{at} {}", hex(packet));
        }
    }
    let _ = std::fs::create_dir_all(&folder);
    std::fs::write(folder.join(format!("{name}.txt")), text).expect("the folder can be written");
}

/// The program's JSON: of P4 source, ours.
fn json_of(path: &Path) -> Result<(PathBuf, String), String> {
    if path.extension().is_none_or(|extension| extension != "p4") {
        return Ok((path.to_owned(), std::fs::read_to_string(path).map_err(|e| e.to_string())?));
    }
    let made = source::load(&source::Files, &Options::default(), &path.to_string_lossy())?;
    if let Some(why) = made.without_json {
        return Err(why);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bmv2_oracle");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let written = folder.join(path.with_extension("json").file_name().expect("it is a file"));
    std::fs::write(&written, &made.program.source).map_err(|e| e.to_string())?;
    Ok((written, made.program.source))
}

fn compare(path: &Path, name: &str) -> Verdict {
    let (path, json) = match json_of(path) {
        Ok((path, json)) => (path, json),
        Err(why) => return Verdict::Skipped(format!("no JSON: {why}")),
    };
    let path = path.as_path();
    let program = match barewire_p4_formats::import::import(&json) {
        Ok(program) => Arc::new(program),
        Err(error) => return Verdict::Skipped(format!("not imported: {error}")),
    };
    if program_of_system(bmv2::binary(program.arch)).is_err() {
        return Verdict::Skipped(format!("no {} on the PATH", bmv2::binary(program.arch)));
    }
    let seed = number("BAREWIRE_ORACLE_SEED", 1);
    let count = number("BAREWIRE_ORACLE_PACKETS", 100) as usize;
    let prepare = |kind| Prepared::new(Arc::clone(&program), kind).map(Arc::new).map_err(|e| e.to_string());
    let run = || -> Result<Verdict, String> {
        let (interpreter, native) = (prepare(EngineKind::Interpreter)?, prepare(EngineKind::Native)?);
        let scenario = scenario::build(&interpreter, seed, count)?;
        let (mut first, interpreted) = ours::run(&interpreter, &scenario, Noise::None)?;
        let (mut second, compiled) = ours::run(&native, &scenario, Noise::None)?;
        let noisy = |noise| ours::run(&interpreter, &scenario, noise).map(|(ours, _)| ours);
        let mut noise = [noisy(Noise::Random(1))?, noisy(Noise::Stale(1))?, noisy(Noise::Stale(2))?];
        let mut why = String::new();
        let mut theirs = None;
        // A machine under load may be late with one run.
        for _ in 0..2 {
            let file = name.replace('/', "_");
            let run = match bmv2::run(program.arch, path, &scenario, &interpreted, &file) {
                Ok(run) => run,
                Err(bmv2::Failure::Refused(why)) => {
                    return Ok(Verdict::Skipped(format!("bmv2 does not take it: {why}")));
                }
                Err(bmv2::Failure::Machine(error)) => {
                    why = error;
                    continue;
                }
            };
            let wrong = lines_differ(&scenario, &first, &run)
                .or_else(|| difference(&scenario, &interpreted, &run, "ours").map(|(text, _)| text))
                .or_else(|| difference(&scenario, &compiled, &run, "native").map(|(text, _)| text))
                .or_else(|| memory_differs(&program, &mut first, &mut noise, &run))
                .or_else(|| memory_differs(&program, &mut second, &mut noise, &run));
            match wrong {
                None => {
                    let out = run.out.values().map(Vec::len).sum();
                    let (packets, left_out) = (scenario.packets.len(), scenario.left_out);
                    return Ok(Verdict::Agree { packets, left_out, out });
                }
                Some(wrong) => {
                    why = wrong;
                    theirs = Some(run);
                }
            }
        }
        if let Some(theirs) = &theirs {
            keep(&name.replace('/', "_"), &scenario, &why, &interpreter, theirs);
        }
        if let Some((_, reason)) = EXCUSED.iter().find(|(known, _)| name.contains(known)) {
            return Ok(Verdict::Excused((*reason).to_owned(), why));
        }
        if let Some(reason) = scenario::undetermined(&program) {
            return Ok(Verdict::Excused(reason, why));
        }
        Ok(Verdict::Differ(why))
    };
    run().unwrap_or_else(|error| Verdict::Differ(format!("not run: {error}")))
}

#[test]
fn packets_come_out_as_from_a_real_bmv2() {
    // Another project's program on a busy machine is no part of what must pass everywhere: who wants it asks.
    if std::env::var_os("BAREWIRE_ORACLE").is_none() {
        let how = "BAREWIRE_ORACLE=few, all, or a word that program paths hold";
        return skip(Needs::Bmv2, format!("the real bmv2 is asked only with {how}"));
    }
    let Some(_) = have(Needs::Bmv2, program_of_system(bmv2::binary(Arch::V1Model))) else { return };
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    let mut all = Vec::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for (root, folders) in [
        (Ok(own), &["programs", "tests/p4c", "tests/stf"][..]),
        (find_shared("data/p4"), &["p4_16", "p4_14", "legacy", "psa", "import"][..]),
        (find_shared("data/p4src"), &["p4_16_samples"][..]),
    ] {
        let Some(root) = have_part(Needs::Shared, root) else { continue };
        let mut found = Vec::new();
        folders.iter().for_each(|folder| programs(&root.join(folder), &mut found));
        all.extend(found.into_iter().map(|path| {
            // A program of which there are source and JSON is two.
            let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
            let name = name.trim_end_matches(".json").to_owned();
            (path, name)
        }));
    }
    let asked = std::env::var("BAREWIRE_ORACLE").ok();
    let words: Vec<&str> = match asked.as_deref() {
        None | Some("few") => FEW.to_vec(),
        Some("all") => vec![""],
        Some(words) => words.split_whitespace().collect(),
    };
    let named: Vec<(PathBuf, String)> = all
        .into_iter()
        .filter(|(_, name)| words.iter().any(|word| name.contains(word)))
        .take(if asked.as_deref() == Some("few") { FEW_MAX } else { usize::MAX })
        .collect();
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..number("BAREWIRE_ORACLE_JOBS", 3) {
            scope.spawn(|| {
                while let Some((path, name)) = named.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = compare(path, name);
                    match &verdict {
                        Verdict::Agree { packets, left_out, out } => {
                            println!(
                                "{name}: {packets} packets ({left_out} left out), {out} came out: agree"
                            );
                        }
                        Verdict::Skipped(why) => println!("{name}: skipped: {why}"),
                        Verdict::Excused(reason, why) => println!("{name}: EXCUSED ({reason}): {why}"),
                        Verdict::Differ(why) => println!("{name}: DIFFER: {why}"),
                    }
                    verdicts.lock().expect("no thread panicked").push((name.clone(), verdict));
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().expect("no thread panicked");
    let (mut agreed, mut packets, mut out, mut skipped, mut excused) = (0, 0, 0, 0, 0);
    let mut wrong = Vec::new();
    for (name, verdict) in &verdicts {
        match verdict {
            Verdict::Agree { packets: sent, out: came, .. } => {
                agreed += 1;
                packets += sent;
                out += came;
            }
            Verdict::Skipped(_) => skipped += 1,
            Verdict::Excused(..) => excused += 1,
            Verdict::Differ(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    println!(
        "{} programs: {agreed} agree ({packets} packets in, {out} out), {excused} excused, {skipped} skipped, {} differ; seed {}",
        verdicts.len(),
        wrong.len(),
        number("BAREWIRE_ORACLE_SEED", 1)
    );
    assert!(wrong.is_empty(), "{} programs differ:\n{}", wrong.len(), wrong.join("\n"));
}
