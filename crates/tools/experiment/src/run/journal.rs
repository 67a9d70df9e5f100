//! What is kept of an experiment while it goes on, so that one that broke off can be gone on with: a JSON object a line, the first one
//! the plan, then one for each run of each cell.
//!
//! It lies in the run folder as [`PARTIAL`] until everything is measured. Who resumes takes over the runs that gave rows, provided the
//! plan is still the same, and renames the file to [`TAKEN`].

use super::cell::{RowPlace, RunOutcome, RunRows};
use super::folder::redact_strings;
use super::rows::Row;
use crate::plan::{Collect, Count, Plan, RoleHosts};
use crate::redact::{self, Redactor};
use crate::{file::point_text, plan::Template};
use barewire_measure::{Fingerprint, Histogram};
use barewire_report::import::BENCH;
use barewire_report::run::Run;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// The file, while not everything is measured.
pub(super) const PARTIAL: &str = "partial.jsonl";
/// What it is called when another run folder has taken over what is in it.
const TAKEN: &str = "resumed.jsonl";
/// Version of its lines.
const SCHEMA: u32 = 1;
/// So many differences between two plans are told.
const TOLD_MAX: usize = 5;
/// Longest value that is told of a difference.
const TOLD_CHARS_MAX: usize = 60;

#[derive(Serialize, Deserialize)]
struct Head {
    schema: u32,
    plan: Value,
}

#[derive(Serialize, Deserialize)]
struct Line {
    cell: usize,
    run: u32,
    rows: Vec<KeptRow>,
    spread_ns: Option<(u64, u64)>,
    failures: Vec<String>,
    failed: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct KeptRow {
    place: RowPlace,
    /// What earlier versions kept beside a row, and rows now say themselves.
    #[serde(default, skip_serializing)]
    family: String,
    row: Map<String, Value>,
    histograms: BTreeMap<String, String>,
}

/// The file that grows.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

impl Journal {
    pub(super) fn create(folder: &Path, plan: Value) -> io::Result<Journal> {
        let mut journal = Journal { file: File::create_new(folder.join(PARTIAL))? };
        journal.write(&Head { schema: SCHEMA, plan })?;
        Ok(journal)
    }

    /// A run of a cell, what must not be shown taken out before.
    pub(super) fn keep(&mut self, cell: usize, run: u32, outcome: &RunOutcome) -> io::Result<()> {
        let row = |(place, row): &(RowPlace, Row)| KeptRow {
            place: *place,
            family: String::new(),
            row: row.row.clone(),
            histograms: row.histograms.clone(),
        };
        self.write(&match outcome {
            Ok(of) => Line {
                cell,
                run,
                rows: of.rows.iter().map(row).collect(),
                spread_ns: of.spread_ns,
                failures: of.failures.clone(),
                failed: None,
            },
            Err(why) => {
                let failed = Some(why.clone());
                Line { cell, run, rows: Vec::new(), spread_ns: None, failures: Vec::new(), failed }
            }
        })
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // In one write: who is killed leaves whole lines.
        self.file.write_all(&text)
    }
}

/// What an experiment that broke off has measured.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Its run folder.
    pub(super) folder: PathBuf,
    /// Runs that gave rows, by cell and number.
    pub(super) runs: BTreeMap<(usize, u32), RunRows>,
    /// The machine that each host was.
    machines: BTreeMap<String, Value>,
}

impl Earlier {
    /// Reads what a run folder has of this plan.
    ///
    /// # Errors
    /// In words: the folder has nothing to go on with, or the plan is another.
    pub(super) fn read(folder: &Path, plan: &Plan, launcher: &str) -> Result<Earlier, String> {
        let shown = folder.display();
        let path = folder.join(PARTIAL);
        let file = File::open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound if folder.join(TAKEN).exists() => {
                format!("{shown} was already resumed; its results are in another run folder")
            }
            io::ErrorKind::NotFound if folder.is_dir() => {
                format!("{shown} has no {PARTIAL}: nothing of it is missing, or it is not a run folder of `bench run`")
            }
            _ => format!("{}: {e}", path.display()),
        })?;
        let mut lines = BufReader::new(file).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let head: Head = serde_json::from_str(&first)
            .map_err(|e| format!("{}: there is no plan in it: {e}", path.display()))?;
        if head.schema != SCHEMA {
            return Err(format!("{}: version {}, and {SCHEMA} is read", path.display(), head.schema));
        }
        let mut differ = Vec::new();
        differences("", &head.plan, &described(plan, launcher), &mut differ);
        if !differ.is_empty() {
            let told: Vec<&str> = differ.iter().take(TOLD_MAX).map(String::as_str).collect();
            let more = differ.len().saturating_sub(TOLD_MAX);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            return Err(format!("{shown} is another experiment's: {}{more}", told.join("; ")));
        }
        let config = Run::manifest_of(folder).map(|manifest| manifest.config).unwrap_or_default();
        let machine = |host: &Value| {
            let machine = host.get("fingerprint")?.get("machine").filter(|machine| !machine.is_null())?;
            Some((host.get("name")?.as_str()?.to_owned(), machine.clone()))
        };
        let hosts = config.get("hosts").and_then(Value::as_array);
        let machines = hosts.map(|hosts| hosts.iter().filter_map(machine).collect()).unwrap_or_default();
        let mut earlier = Earlier { folder: folder.to_owned(), runs: BTreeMap::new(), machines };
        // Who was killed may have left half of a line at the end.
        for line in lines.map_while(Result::ok).map_while(|line| serde_json::from_str::<Line>(&line).ok()) {
            let planned = line.cell < plan.points.len() && (1..=plan.method.runs).contains(&line.run);
            if line.failed.is_none() && planned {
                earlier.runs.insert((line.cell, line.run), line.rows()?);
            }
        }
        Ok(earlier)
    }

    /// Why the runs of `host` cannot be gone on with on the machine of this fingerprint: a median of two machines is of neither.
    pub(super) fn is_elsewhere(&self, host: &str, fingerprint: &Value) -> Option<String> {
        let (then, now) = (self.machines.get(host)?, fingerprint.get("machine")?);
        let mut differ = Vec::new();
        differences("", then, now, &mut differ);
        differ.truncate(TOLD_MAX);
        let told = differ.join("; ");
        let shown = self.folder.display();
        (!differ.is_empty()).then(|| format!("host {host} of {shown} was another machine: {told}"))
    }

    /// Another folder has it now.
    pub(super) fn is_taken(&self) -> io::Result<()> {
        fs::rename(self.folder.join(PARTIAL), self.folder.join(TAKEN))
    }
}

impl Line {
    fn rows(self) -> Result<RunRows, String> {
        let mut rows = Vec::new();
        for kept in self.rows {
            for (name, text) in &kept.histograms {
                Histogram::from_base64(text).map_err(|e| format!("{PARTIAL}: histogram `{name}`: {e}"))?;
            }
            let mut row = kept.row;
            if !kept.family.is_empty() {
                row.entry(BENCH).or_insert_with(|| kept.family.into());
            }
            rows.push((kept.place, Row { row, histograms: kept.histograms }));
        }
        Ok(RunRows { rows, spread_ns: self.spread_ns, failures: self.failures })
    }
}

/// The newest run folder in `out` of an experiment of this name that broke off.
pub fn newest_unfinished(out: &Path, name: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(out).ok()?.flatten().map(|entry| entry.path());
    let unfinished = folders.filter(|folder| folder.join(PARTIAL).is_file());
    let begun = |folder: &PathBuf| {
        let manifest = Run::manifest_of(folder).ok().filter(|manifest| manifest.label == name)?;
        Some((manifest.started_unix_ms, folder.clone()))
    };
    unfinished.filter_map(|folder| begun(&folder)).max().map(|(_, folder)| folder)
}

/// Everything of a plan that its figures depend on, as it may be shown, and the program that measures.
pub(super) fn described(plan: &Plan, launcher: &str) -> Value {
    let redactor = Redactor::of_plan(plan);
    let variables = |of: &BTreeMap<String, String>| -> Value {
        of.iter()
            .map(|(name, value)| (name.clone(), json!(redact::shown(name, value))))
            .collect::<Map<_, _>>()
            .into()
    };
    let words = |of: &[Template]| redactor.words(&of.iter().map(ToString::to_string).collect::<Vec<_>>());
    let by_name = |all: Vec<(String, Value)>| Value::Object(all.into_iter().collect());
    let role = |role: &crate::plan::RolePlan| {
        let hosts = match &role.hosts {
            RoleHosts::Named(names) => json!(names),
            RoleHosts::Free => json!("free"),
            RoleHosts::Rest => json!("rest"),
            RoleHosts::Here => json!("here"),
        };
        let count = role.count.as_ref().map(|count| match count {
            Count::Fixed(n) => json!(n),
            Count::Axis(axis) => json!(axis),
        });
        let collect = role.collect.as_ref().map(|how| match how {
            Collect::Json => "json",
            Collect::Regex(regex) => regex.as_str(),
        });
        let value = json!({
            "hosts": hosts, "count": count, "command": words(&role.command), "cwd": role.cwd.as_ref().map(ToString::to_string),
            "environment": variables(&role.environment), "cleanup": words(&role.cleanup), "ready": role.ready,
            "settle_s": role.settle.as_secs_f64(), "collect": collect, "stop": format!("{:?}", role.stop),
        });
        (role.name.clone(), value)
    };
    let host = |host: &crate::launcher::HostSpec| {
        let value =
            json!({ "reach": host.reach, "address": host.address, "settings": variables(&host.settings) });
        (host.name.clone(), value)
    };
    let sum = |path: &Path| fs::read(path).ok().map(|bytes| format!("{:08x}", crc32fast::hash(&bytes)));
    let sync = |sync: &crate::plan::SyncPlan| {
        (sync.to.display().to_string(), json!({ "targets": sync.targets, "crc32": sum(&sync.source) }))
    };
    let (method, merge, build) = (&plan.method, &plan.merge, Fingerprint::collect().build);
    // Of a commit with changes there are as many programs as there were changes.
    let changes = match build.git_dirty.as_str() {
        "yes" => format!(" with local changes, {}", sum(Path::new("/proc/self/exe")).unwrap_or_default()),
        _ => String::new(),
    };
    let mut described = json!({
        "program": format!("{} {} {}{changes}", build.version, build.git_commit, build.profile),
        "experiment": plan.name, "table": plan.table, "launcher": launcher, "seed": plan.seed,
        "hardware": plan.hardware.map(|class| class.word()),
        "topology": plan.topology.as_deref().map(|path| json!({ "crc32": sum(path) })),
        "method": {
            "runs": method.runs, "warmup_s": method.warmup_s, "seconds": method.seconds,
            "timeout_s": method.timeout.map(|t| t.as_secs_f64()), "endless": method.endless, "interleave": method.interleave,
            "cell_pause_s": method.pause.as_secs_f64(),
        },
        "cells": plan.points.iter().map(|point| point_text(point)).collect::<Vec<_>>(),
        "systems": plan.systems,
        "role": by_name(plan.roles.iter().map(role).collect()),
        "order": plan.roles.iter().map(|role| &role.name).collect::<Vec<_>>(),
        "host": by_name(plan.hosts.iter().map(host).collect()),
        "settings": variables(&plan.everywhere),
        "merge": {
            "sum": merge.sum, "max": merge.max, "min": merge.min, "mean": merge.mean, "apart": merge.apart,
        },
        "environment": variables(&plan.environment), "black": plan.black,
        "sync": by_name(plan.sync.iter().map(sync).collect()),
    });
    redact_strings(&mut described, &redactor);
    described
}

/// In what `now` is another than `then`, in words.
fn differences(path: &str, then: &Value, now: &Value, told: &mut Vec<String>) {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let none = Value::Null;
    match (then, now) {
        _ if then == now => {}
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                differences(&at(key), a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none), told);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), a, b, told);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            told.push(format!("{path}: {} then, {} now", a.len(), b.len()));
        }
        _ => told.push(format!("{path}: {} then, {} now", short(then), short(now))),
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        Value::Object(_) => "something".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(TOLD_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let text = format!(
            "name = \"x\"\n{text}\n[[host]]\nname = \"h\"\n[[role]]\nname = \"r\"\nhosts = [\"h\"]\ncollect = \"json\"\n\
             command = [\"true\", \"--password=sesam\"]\n\
             ready = \"sesam is up\"\nenvironment = {{ A_TOKEN = \"sesam\" }}\n"
        );
        crate::file::parse(&text, "x.toml", Path::new("/")).unwrap()
    }

    fn run(rate: u64) -> RunOutcome {
        let mut histogram = Histogram::new();
        histogram.record_n(1_234, rate);
        let row = Row {
            row: serde_json::from_str(&format!("{{\"rate_per_s\":{rate},\"ns\":0.1}}")).unwrap(),
            histograms: [("rtt".to_owned(), histogram.to_base64())].into(),
        };
        Ok(RunRows {
            rows: vec![((1, 2), row)],
            spread_ns: Some((7, 8)),
            failures: vec!["one of them".to_owned()],
        })
    }

    #[test]
    fn what_was_kept_comes_back_as_it_was_and_what_failed_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan("[method]\nruns = 3");
        let mut journal = Journal::create(folder.path(), described(&plan, "ssh")).unwrap();
        journal.keep(0, 1, &run(5)).unwrap();
        journal.keep(0, 2, &Err("gone".to_owned())).unwrap();
        journal.keep(0, 4, &run(9)).unwrap();
        // Killed in the middle of a line.
        journal.file.write_all(br#"{"cell":0,"run":3,"rows":[{"pla"#).unwrap();
        let text = fs::read_to_string(folder.path().join(PARTIAL)).unwrap();
        assert!(!text.contains("sesam"), "{text}");
        let earlier = Earlier::read(folder.path(), &plan, "ssh").unwrap();
        assert_eq!(earlier.runs.keys().collect::<Vec<_>>(), [&(0, 1)]);
        let (was, is) = (run(5).unwrap(), &earlier.runs[&(0, 1)]);
        assert_eq!((&is.rows, is.spread_ns, &is.failures), (&was.rows, was.spread_ns, &was.failures));
        earlier.is_taken().unwrap();
        let why = Earlier::read(folder.path(), &plan, "ssh").unwrap_err();
        assert!(why.contains("already resumed"), "{why}");
        let why = Earlier::read(Path::new("/no/such"), &plan, "ssh").unwrap_err();
        assert!(why.contains("/no/such"), "{why}");
    }

    #[test]
    fn another_build_or_machine_is_another_experiment() {
        let plan = plan("");
        let program = described(&plan, "ssh")["program"].as_str().unwrap().to_owned();
        let build = Fingerprint::collect().build;
        assert!(
            program.contains(&build.profile),
            "a debug build goes on with no release build's runs: {program}"
        );
        assert_eq!(program.contains("local changes"), build.git_dirty == "yes", "{program}");
        let machine = |cores: u32| json!({ "machine": { "cpu_model": "a", "cores_online": cores } });
        let machines = [("h".to_owned(), machine(2)["machine"].clone())].into();
        let earlier = Earlier { machines, ..Earlier::default() };
        assert_eq!(earlier.is_elsewhere("h", &machine(2)), None);
        assert_eq!(earlier.is_elsewhere("another", &machine(4)), None, "nothing is known of it");
        let why = earlier.is_elsewhere("h", &machine(4)).unwrap();
        assert!(why.contains("was another machine: cores_online: 2 then, 4 now"), "{why}");
    }

    #[test]
    fn another_plan_is_refused_and_says_in_what_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let first = plan("[method]\nruns = 3\nseconds = 2\n[sweep]\nx = [1, 2]");
        drop(Journal::create(folder.path(), described(&first, "ssh")).unwrap());
        let refused = |text: &str, launcher: &str| {
            Earlier::read(folder.path(), &plan(text), launcher).map(|_| ()).unwrap_err()
        };
        let same = "[method]\nruns = 3\nseconds = 2\n[sweep]\nx = [1, 2]";
        assert!(Earlier::read(folder.path(), &plan(same), "ssh").unwrap().runs.is_empty());
        let why = refused(&same.replace("runs = 3\nseconds = 2", "runs = 5\nseconds = 1.5"), "ssh");
        assert!(why.contains("method.runs: 3 then, 5 now; method.seconds: 2.0 then, 1.5 now"), "{why}");
        let why = refused(&same.replace("[1, 2]", "[1, 3]"), "ssh");
        assert!(why.contains("cells[1]: \"x 2\" then, \"x 3\" now"), "{why}");
        let why = refused(&same.replace("[1, 2]", "[1]"), "local");
        assert!(why.contains("cells: 2 then, 1 now") && why.contains("launcher"), "{why}");
        fs::write(folder.path().join(PARTIAL), "{\"cell\":0}\n").unwrap();
        assert!(refused(same, "ssh").contains("there is no plan in it"));
    }
}
