//! The head of a report: machines, caveats, control rows.

use crate::figure::{Unit, quantity};
use crate::run::{HardwareClass, Role, Run};
use crate::utc::{span_text, utc_text};
use barewire_measure::Fingerprint;
use serde_json::{Map, Value};

/// A run in the head of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunHead {
    /// Name of the folder.
    pub name: String,
    /// Label.
    pub label: String,
    /// Facts for people: when, on what, with which build.
    pub facts: Vec<(String, String)>,
    /// The command line.
    pub command: String,
    /// Every field of the fingerprint and of the configuration.
    pub everything: Vec<(String, String)>,
}

impl RunHead {
    pub(super) fn of(run: &Run) -> RunHead {
        let m = &run.manifest;
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
        let when = match m.ended_unix_ms {
            // Of a document, which says when it began at most, but never when it ended.
            Some(_) if m.started_unix_ms == 0 => "not told".to_owned(),
            Some(end) if end <= m.started_unix_ms => utc_text(m.started_unix_ms),
            Some(end) => {
                format!("{}, took {}", utc_text(m.started_unix_ms), span_text(end - m.started_unix_ms))
            }
            None => format!("{}, did not come to its end", utc_text(m.started_unix_ms)),
        };
        fact("when", when);
        fact("between the ends", m.hardware.as_str().to_owned());
        match run.fingerprint() {
            Some(f) => machine_facts(&f, &mut fact),
            None => fact("machine", "no fingerprint that this build can read".to_owned()),
        }
        if let Some(commit) = &m.commit {
            fact("commit", commit.clone());
        }
        fact("rows", run.records.len().to_string());
        let mut everything = Vec::new();
        flatten("fingerprint", &m.fingerprint, &mut everything);
        flatten("config", &m.config, &mut everything);
        RunHead { name: run.name(), label: m.label.clone(), facts, command: m.command.clone(), everything }
    }
}

fn machine_facts(f: &Fingerprint, fact: &mut impl FnMut(&str, String)) {
    let m = &f.machine;
    let guest = if m.hypervisor { ", virtual" } else { "" };
    let gib = m.memory_kib as f64 / f64::from(1 << 20);
    fact("machine", format!("{}, {} cores{guest}, {gib:.1} GiB", m.cpu_model, m.cores_online));
    fact("fingerprint", f.hash());
    fact("kernel", m.kernel_release.clone());
    fact(
        "power",
        format!(
            "governor {}, idle {}, SMT {}, isolated cores {}",
            m.governor, m.cstate_driver, m.smt, m.cores_isolated
        ),
    );
    fact("clock", m.clocksource.clone());
    let b = &f.build;
    let dirty = if b.git_dirty == "yes" { ", with local changes" } else { "" };
    fact("build", format!("barewire {} {}{dirty}, {}, {}", b.version, b.git_commit, b.profile, b.rustc));
    if let Some([one, five, fifteen]) = f.run.load_average {
        fact("load average", format!("{one} {five} {fifteen}"));
    }
    if let Some(steal) = f.run.steal_percent {
        fact("stolen since boot", format!("{steal:.3} %"));
    }
}

/// Every leaf of a JSON value with its path.
fn flatten(path: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                flatten(&format!("{path}.{key}"), value, out);
            }
        }
        Value::Array(all) if all.iter().any(|v| v.is_object() || v.is_array()) => {
            for (index, value) in all.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), value, out);
            }
        }
        Value::Array(all) => {
            let words: Vec<String> = all.iter().map(plain).collect();
            out.push((path.to_owned(), words.join(", ")));
        }
        Value::Null => {}
        other => out.push((path.to_owned(), plain(other))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a reader has to know, over all runs; each thing once.
pub(super) fn caveats(runs: &[&Run]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut say = |text: String| {
        if !all.contains(&text) {
            all.push(text);
        }
    };
    for run in runs {
        let m = &run.manifest;
        let rows: Vec<_> = run
            .records
            .iter()
            .filter(|r| matches!(r.role, Role::Measured | Role::Baseline))
            .map(|r| &r.row)
            .collect();
        let contended = rows.iter().filter(|r| r.get("contended") == Some(&Value::Bool(true))).count();
        let void = rows.iter().filter(|r| r.get("void").is_some_and(Value::is_string)).count();
        if contended > 0 {
            say(format!(
                "contended: in {contended} of {} rows others ran on our cores, the hypervisor took them, or our own threads were more than they \
                 (each row says which); take ratios as rough ({})",
                rows.len(),
                m.label
            ));
        }
        if void > 0 {
            say(format!("void: {void} of {} rows must not be used ({})", rows.len(), m.label));
        }
        if m.ended_unix_ms.is_none() {
            say(format!("the run {} did not come to its end: rows may be missing", run.name()));
        }
        match m.hardware {
            HardwareClass::OneMachine => {
                say("both ends ran on one machine, with no network card between them".to_owned());
            }
            HardwareClass::Simulated => {
                say("simulated: times are those of a model, not of a machine".to_owned());
            }
            HardwareClass::Unknown => say(format!(
                "what lay between the ends of {} is not told: its document is older than that key",
                m.label
            )),
            HardwareClass::CloudVms | HardwareClass::BareMetal => {}
        }
        match run.fingerprint() {
            None => say(format!("no machine fingerprint: nobody can say what {} was measured on", m.label)),
            Some(f) => {
                if f.machine.hypervisor {
                    say("a virtual machine: its host's other guests share caches and cores unseen".to_owned());
                }
                if f.build.profile == "debug" {
                    say("a debug build: its times are not barewire's".to_owned());
                }
                if f.build.git_dirty == "yes" {
                    say(format!("the program had changes that commit {} does not have", f.build.git_commit));
                }
            }
        }
        for caveat in &m.caveats {
            say(caveat.clone());
        }
    }
    let machine = |run: &&Run| run.manifest.fingerprint.get("machine").cloned();
    if runs.windows(2).any(|w| machine(&w[0]) != machine(&w[1])) {
        say("the runs of this report are of different machines".to_owned());
    }
    all
}

/// Control rows that bench verbs write, in words, and in the order in which people want to read them.
const CONTROLS: [(&str, &str); 15] = [
    ("clock.median_ns", "one reading of the clock"),
    ("clock.resolution_ns", "its resolution"),
    ("syscall.median_ns", "one system call"),
    ("core_to_core.median_ns", "a cache line from core to core and back"),
    ("core_to_core.min_ns", "the same, shortest"),
    ("core_to_core_missing", "a cache line from core to core and back"),
    ("wakeup_median_ns", "waking a thread"),
    ("wakeup_max_ns", "the same, longest"),
    ("hiccup_max_ns", "longest hiccup"),
    ("hiccup_window_ns", "watched for hiccups"),
    ("hiccup_lost_percent", "of that lost in hiccups"),
    ("kernel_udp.p50_ns", "kernel UDP over loopback, 1024 B there and back, p50"),
    ("kernel_udp.p99_ns", "kernel UDP over loopback, p99"),
    ("kernel_udp.max_ns", "kernel UDP over loopback, longest"),
    ("kernel_udp_missing", "kernel UDP over loopback"),
];

/// Control rows of all runs, in words.
pub(super) fn controls(runs: &[&Run]) -> Vec<(String, String)> {
    // Of several runs each says which it is of.
    let label = |run: &Run| if runs.len() > 1 { run.manifest.label.clone() } else { String::new() };
    let rows = runs.iter().flat_map(|run| {
        let label = label(run);
        let controls = run.records.iter().filter(|record| record.role == Role::Control);
        controls.map(move |record| (&record.row, label.clone()))
    });
    words_of(rows)
}

/// Control rows in words, what they are and how much: every leaf with a unit at its end. Those of the same thing stand together.
pub fn control_words<'a>(rows: impl Iterator<Item = &'a Map<String, Value>>) -> Vec<(String, String)> {
    words_of(rows.map(|row| (row, String::new())))
}

/// As [`control_words`]; each row with the run that it is of, which may be empty.
fn words_of<'a>(rows: impl Iterator<Item = (&'a Map<String, Value>, String)>) -> Vec<(String, String)> {
    let mut leaves = Vec::new();
    for (row, label) in rows {
        let mut found = Vec::new();
        flatten("", &Value::Object(row.clone()), &mut found);
        let host = row.get("host").and_then(Value::as_str).unwrap_or_default();
        let on = if host.is_empty() { String::new() } else { format!(", on {host}") };
        let on = if label.is_empty() { on } else { format!("{on}, {label}") };
        let of_host =
            |(path, value): (String, String)| (path.trim_start_matches('.').to_owned(), value, on.clone());
        leaves.extend(found.into_iter().map(of_host));
    }
    let place = |path: &str| CONTROLS.iter().position(|(known, _)| *known == path).unwrap_or(CONTROLS.len());
    // Runs stay in their order: those of one path stand together.
    leaves.sort_by_key(|(path, ..)| place(path));
    leaves
        .into_iter()
        .filter_map(|(path, value, on)| {
            let known = CONTROLS.get(place(&path)).map(|(_, words)| format!("{words}{on}"));
            let words = |end: &str| {
                let rest = path.strip_suffix(end)?;
                known.clone().or_else(|| Some(rest.replace(['.', '_'], " ") + &on))
            };
            let Ok(number) = value.parse::<f64>() else {
                return known.filter(|_| path.ends_with("_missing")).map(|name| (name, value.clone()));
            };
            if let Some(name) = words("_ns") {
                return Some((name, quantity(number, Unit::Ns)));
            }
            words("_percent").map(|name| (name, format!("{number:.3} %")))
        })
        .collect()
}
