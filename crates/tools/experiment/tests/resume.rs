//! Experiments of which a part breaks off: the rest continues, what is missing is measured later, and what was not measured together is not
//! added up.

mod common;

use barewire_experiment::file;
use barewire_experiment::plan::Plan;
use barewire_experiment::run::{ExperimentError, newest_unfinished};
use barewire_measure::Histogram;
use barewire_report::run::{Role, Run};
use common::{Told, experiment, filled, marker, resume_until, run_until, running};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

fn plan(text: &str, folder: &Path) -> Plan {
    file::parse(&format!("name = \"test\"\n{}", filled(text)), "test.toml", folder).unwrap()
}

/// Kills whoever has started a process of these words, and who has started that: an agent, whole.
fn kill_agent_of(words: &str) {
    let parent = |pid: u32| -> u32 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let worker = parent(*running(words).first().unwrap());
    for pid in [worker, parent(worker)] {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

#[test]
fn a_host_that_is_lost_ends_what_needs_it_and_the_rest_is_measured_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (n, back) = (marker(), folder.path().join("back"));
    let mut histogram = Histogram::new();
    histogram.record_n(1_000, 1_000);
    let text = r#"
HOSTS
[method]
runs = 2
seconds = 0.1
timeout_s = 300
[sweep]
machines = [1, 2]
[[role]]
name = "client"
hosts = ["h1", "h2"]
count = "{machines}"
collect = "json"
command = ["sh", "-c", """test {host.name} = h1 || test -e BACK || {{ echo stuck; sleep NNN; }}
echo '{{"a_per_s":{run},"histograms":{{"rtt":"HISTOGRAM"}}}}'"""]
"#;
    let text = text.replace("BACK", &back.display().to_string()).replace("NNN", &n.to_string());
    let plan = plan(&text.replace("HISTOGRAM", &histogram.to_base64()), folder.path());
    let killed = Mutex::new(false);
    let kill = |told: &Told| {
        let mut killed = killed.lock().unwrap();
        if !*killed && told.lines.iter().any(|line| line == "@h2 stuck") {
            *killed = true;
            kill_agent_of("stuck; sleep");
        }
        false
    };
    let (first, told) = run_until(&plan, folder.path(), &kill);
    let first = first.unwrap();
    assert_eq!(first.lost.as_ref().map(|(host, _)| host.as_str()), Some("h2"), "{first:?}");
    assert_eq!((told.progress.len(), first.rows, first.cells_without_rows), (4, 1, 1), "{first:?}");
    assert!(first.can_resume && first.failed() && first.lost_too.is_empty(), "{first:?}");
    let why: Vec<&str> = first.failures.iter().map(|failure| failure.why.as_str()).collect();
    assert!(why[0].starts_with("client on h2: its host was lost: "), "{why:?}");
    assert!(why.len() == 2 && why[1].starts_with("host h2 was lost: "), "{why:?}");
    let run = Run::open(&first.folder).unwrap();
    assert_eq!(run.records[0].row["runs"].as_array().unwrap().len(), 2, "both runs of the cell without it");
    assert!(!run.records[0].row.contains_key("failed_runs"));
    assert_eq!(run.records[1].role, Role::Missing);
    assert!(run.records[1].reason.as_ref().unwrap().contains("lost"), "{:?}", run.records[1]);
    assert!(run.manifest.caveats.iter().any(|c| c.contains("h2 was lost")), "{:?}", run.manifest.caveats);
    assert_eq!(running(&format!("sleep {n}")), Vec::<u32>::new());

    // It is back.
    fs::write(&back, "").unwrap();
    assert_eq!(newest_unfinished(&folder.path().join("runs"), "test").as_ref(), Some(&first.folder));
    assert_eq!(newest_unfinished(&folder.path().join("runs"), "other"), None);
    let (second, told) = resume_until(&plan, folder.path(), Some(first.folder.clone()), &|_| false);
    let second = second.unwrap();
    let order: Vec<String> = told.progress.iter().map(|p| format!("{} {}", p.run, p.cell)).collect();
    assert_eq!(order, ["1 machines 2", "2 machines 2"], "only what is missing");
    assert_eq!((second.rows, second.resumed_runs, second.failed()), (2, 2, false), "{second:?}");
    assert_ne!(second.folder, first.folder);
    let run = Run::open(&second.folder).unwrap();
    let rates = |i: usize| {
        let runs = run.records[i].row["runs"].as_array().unwrap();
        runs.iter().map(|run| run["a_per_s"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((rates(0), rates(1)), (vec![1, 2], vec![2, 4]), "two hosts add up");
    assert_eq!(run.repetitions(&run.records[0], "rtt").count(), 2, "histograms came along");
    assert!(run.manifest.caveats.iter().any(|c| c.contains("2 runs were measured before")));
    assert!(run.manifest.config["resumed"].as_str().unwrap().contains("test"));
    // Nothing is missing any more, neither there nor in the first folder.
    assert_eq!(newest_unfinished(&folder.path().join("runs"), "test"), None);
    let again = resume_until(&plan, folder.path(), Some(first.folder), &|_| false).0.unwrap_err();
    assert!(again.to_string().contains("already resumed"), "{again}");
}

#[test]
fn what_was_interrupted_is_gone_on_with_and_another_experiment_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
HOSTS
[method]
runs = 1
seconds = 0.1
timeout_s = 300
[sweep]
x = [1, 2, 3]
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", """echo '{{"a_per_s":{x}}}'"""]
"#;
    let planned = plan(text, folder.path());
    // When the second run begins.
    let (first, _) = run_until(&planned, folder.path(), &|told| told.progress.len() == 2);
    let first = first.unwrap();
    assert!(first.interrupted && first.can_resume && first.rows == 1, "{first:?}");
    let other = plan(
        &text.replace("[1, 2, 3]", "[1, 2]").replace("hosts = [\"h1\"]", "hosts = [\"h2\"]"),
        folder.path(),
    );
    let refused = resume_until(&other, folder.path(), Some(first.folder.clone()), &|_| false).0.unwrap_err();
    assert!(matches!(refused, ExperimentError::Plan(_)), "{refused:?}");
    let why = refused.to_string();
    assert!(
        why.contains("cells: 3 then, 2 now") && why.contains("role.client.hosts[0]: \"h1\" then, \"h2\" now"),
        "{why}"
    );
    let (second, told) = resume_until(&planned, folder.path(), Some(first.folder), &|_| false);
    let second = second.unwrap();
    assert_eq!((told.progress.len(), second.rows, second.failed()), (2, 3, false), "{second:?}");
}

#[test]
fn hosts_that_did_not_measure_at_the_same_time_are_not_added_up() {
    let of = |shift_ms: u64| {
        let text = r#"
HOSTS
METHOD
[[role]]
name = "client"
hosts = ["h1", "h2"]
collect = "json"
command = ["sh", "-c", """
from=$(( 1700000000000000000 + {host.index} * SHIFT * 1000000 ))
echo '{{"rate_per_s":5,"measured":{{"begin_unix_ns":'$from',"end_unix_ns":'$(( from + 100000000000 ))'}}}}'"""]
"#;
        // A hundred seconds each: however long a busy machine takes to compare clocks, it is no matter beside them.
        let done = experiment(&text.replace("SHIFT", &shift_ms.to_string()));
        let row = done.run().records[0].row.clone();
        (done.ok().void, row)
    };
    let (void, row) = of(1_000);
    assert_eq!((void, row["rate_per_s"].as_u64()), (0, Some(10)), "{row:?}");
    assert!(row["measured_share"].as_f64().unwrap() > 0.98, "{row:?}");
    let (void, row) = of(50_000);
    assert_eq!(void, 1);
    let why = row["void"].as_str().unwrap();
    assert!(why.starts_with("hosts were measured together for ") && why.contains("of 100.000 s"), "{why}");
}
