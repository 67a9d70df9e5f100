//! Experiments on this machine, with real agents and processes: what is measured, what fails, what is kept.

mod common;

use barewire_experiment::mitosis::{self, MitosisOptions, RATE_PATTERN};
use barewire_experiment::plan::Collect;
use barewire_measure::Histogram;
use barewire_netns::is_root_capable;
use barewire_report::run::{Role, Run};
use barewire_testing::{Needs, have};
use common::{Done, experiment, experiment_until, filled, marker, run_until, running};
use std::fs;
use std::sync::Mutex;

#[test]
fn cells_take_turns_hosts_add_up_and_the_folder_has_it_all() {
    let done = experiment(
        r#"
title = "T"
quiet = ["h2"]
HOSTS
[method]
runs = 2
seconds = 0.1
[sweep]
threads = [1, 2]
[environment]
A_TOKEN = "sesam-oeffne"
OPEN = "wide"
[[role]]
name = "server"
hosts = ["h2"]
ready = "up"
command = ["sh", "-c", 'echo "$A_TOKEN $OPEN"; echo up; sleep 60']
[[role]]
name = "client"
hosts = ["h1", "h2"]
collect = "json"
command = ["sh", "-c", """echo noise; printf '{{"rate_per_s": {threads}{run}, "of": "{server.address}"}}'"""]
"#,
    );
    let outcome = done.ok();
    assert!(!outcome.failed() && outcome.rows == 2, "{outcome:?}");
    let order: Vec<String> = done.told.progress.iter().map(|p| format!("{} {}", p.run, p.cell)).collect();
    assert_eq!(order, ["1 threads 1", "1 threads 2", "2 threads 2", "2 threads 1"]);
    let run = done.run();
    let rates = |i: usize| {
        let runs = run.records[i].row["runs"].as_array().unwrap();
        runs.iter().map(|r| r["rate_per_s"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    // Two hosts, each with rate "threads run": 11 and 11, then 12 and 12.
    assert_eq!((rates(0), rates(1)), (vec![22, 24], vec![42, 44]));
    assert_eq!(run.records[0].row["rate_per_s"], 23);
    assert_eq!(run.records[1].axes["threads"].to_string(), "2");
    assert_eq!(run.records[0].row["of"], "127.0.0.1");
    assert!(run.records[0].row["hosts_started_within"].as_str().unwrap().contains("ms"));
    // The folder is whole, quiet hosts are quiet but kept, and the secret is nowhere.
    assert!(run.manifest.ended_unix_ms.is_some());
    assert!(done.told.lines.contains(&"@h1 noise".to_owned()));
    assert!(!done.told.lines.iter().any(|line| line.starts_with("@h2")));
    assert!(done.log("h2").contains("*** wide"), "{}", done.log("h2"));
    for file in fs::read_dir(&outcome.folder).unwrap().flatten() {
        assert!(!fs::read_to_string(file.path()).unwrap().contains("sesam"), "{file:?}");
    }
}

#[test]
fn systems_are_told_apart_by_their_rows_or_else_by_their_axes() {
    let of = |row: &str| {
        let done = experiment(
            &r#"
HOSTS
METHOD
[sweep]
window = [1, 2]
systems = [{ who = "ours", ip = "a" }, { who = "theirs", ip = "b" }]
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", """printf 'ROW' {who} {ip}"""]
"#
            .replace("ROW", row),
        );
        let run = done.run();
        let axes = |r: &barewire_report::run::Record| r.axes.keys().cloned().collect::<Vec<_>>().join(" ");
        run.records.iter().map(axes).collect::<Vec<_>>()
    };
    assert_eq!(of(r#"{{"system": "%s", "note": "%s", "rate_per_s": 1}}"#), ["window"; 4]);
    assert_eq!(of(r#"{{"note": "%s%s", "rate_per_s": 1}}"#), ["ip who window"; 4]);
}

#[test]
fn histograms_of_hosts_and_runs_merge_exactly() {
    let text = |ns: u64| {
        let mut histogram = Histogram::new();
        histogram.record_n(ns, 1000);
        histogram.to_base64()
    };
    let script = r#"
HOSTS
[method]
runs = 2
seconds = 0.1
[[role]]
name = "client"
hosts = ["h1", "h2"]
collect = "json"
command = ["sh", "-c", """
h=FIRST; test {host.index} = 1 && h=SECOND
echo '{{"samples":1000,"rtt_ns":{{"p50":1,"p99":1}},"histograms":{{"rtt":"'$h'"}}}}'
"""]
"#;
    let done = experiment(&script.replace("FIRST", &text(1_000)).replace("SECOND", &text(50_000)));
    assert!(!done.ok().failed(), "{:?}", done.ok());
    let run = done.run();
    let record = &run.records[0];
    assert_eq!(run.repetitions(record, "rtt").count(), 2, "one for each run, hosts together");
    let all = run.histogram(record, "rtt").unwrap();
    let mut expected = Histogram::new();
    expected.record_n(1_000, 2000);
    expected.record_n(50_000, 2000);
    assert!(all.buckets().eq(expected.buckets()));
    let p50 = record.row["rtt_ns"]["p50"].as_u64().unwrap();
    assert_eq!(p50 / 10, 100);
    assert_eq!(record.row["samples"], 4000);
    assert!(!record.row.contains_key("histograms"));
}

#[test]
fn rows_are_on_disk_as_soon_as_their_run_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let text = filled(
        r#"
[method]
runs = 2
seconds = 0.1
[[role]]
name = "client"
hosts = "here"
collect = "json"
command = ["sh", "-c", """echo '{{"a_per_s":{run}}}'"""]
"#,
    );
    let early = Mutex::new(None);
    let (outcome, _) = experiment_until(&text, folder.path(), &|told| {
        // The second run has begun.
        if told.progress.len() == 2 && early.lock().unwrap().is_none() {
            let run = fs::read_dir(folder.path().join("runs")).unwrap().next().unwrap().unwrap().path();
            *early.lock().unwrap() = Some(fs::read_to_string(run.join("partial.jsonl")).unwrap());
        }
        false
    });
    let early = early.into_inner().unwrap().unwrap();
    let lines: Vec<serde_json::Value> = early.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["plan"]["experiment"]), (2, &"test".into()), "{early}");
    assert_eq!((&lines[1]["run"], &lines[1]["rows"][0]["row"]["a_per_s"]), (&1.into(), &1.into()), "{early}");
    let folder = outcome.unwrap().folder;
    assert!(folder.join("manifest.json").exists() && !folder.join("partial.jsonl").exists());
}

#[test]
fn hosts_that_no_cell_wants_are_left_alone() {
    let done = experiment(
        r#"
HOSTS
METHOD
[[role]]
name = "client"
hosts = ["h1", "h2"]
count = 1
collect = "json"
command = ["sh", "-c", "echo '{{\"a_per_s\":1}}'"]
"#,
    );
    assert!(!done.ok().failed(), "{:?}", done.ok());
    assert_eq!(done.run().records.len(), 1);
    assert!(!done.ok().folder.join("h2.log").exists());
}

#[test]
fn hostile_output_is_taken_as_it_comes() {
    let done = experiment(
        r#"
HOSTS
METHOD
[[role]]
name = "talker"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", '''
head -c 3000000 /dev/zero | tr '\0' x; echo
printf '\377\376 \033[2J bad\n' >&2
yes flood | head -n 200000
printf '{{"long": "'; head -c 300000 /dev/zero | tr '\0' y; printf '", "rate_per_s": 5}}'
''']
"#,
    );
    assert!(!done.ok().failed(), "{:?}", done.ok());
    let record = &done.run().records[0];
    assert_eq!(record.row["rate_per_s"], 5);
    assert_eq!(record.row["long"].as_str().unwrap().len(), 300_000);
    let log = done.log("h1");
    assert!(log.lines().any(|line| line.len() > 3_000_000), "a line of megabytes is one line");
    assert_eq!(log.lines().filter(|line| line.ends_with(" flood")).count(), 200_000);
    assert!(log.contains("\u{fffd}\u{fffd} \u{1b}[2J bad"));
    assert!(done.told.lines.len() < 300, "a flood is not for the terminal");
}

#[test]
fn who_escapes_is_ended_with_the_run_and_its_lines_are_kept() {
    let n = marker();
    let text = r#"
HOSTS
METHOD
[[role]]
name = "server"
hosts = ["h2"]
ready = "up"
stop = "INT"
command = ["sh", "-c", '''
trap "" TERM INT
(setsid sh -c 'trap "" TERM; (sleep 777; true) & echo escaped; touch out; wait' &)
until test -e out; do sleep 0.01; done; echo up; sleep 777''']
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", 'sleep 777 & sleep 0.3; echo "{{}}"']
"#;
    let done = experiment(&text.replace("777", &n.to_string()));
    assert!(!done.ok().failed(), "{:?}", done.ok());
    assert!(done.log("h2").contains("escaped"));
    assert_eq!(running(&format!("sleep {n}")), Vec::<u32>::new());
}

#[test]
fn what_fails_says_which_role_on_which_host_and_the_rest_goes_on() {
    let why = |command: &str, timeout_s: u32| {
        let done = experiment(&format!(
            "HOSTS\n[method]\nruns = 1\nseconds = 0.1\ntimeout_s = {timeout_s}\n\
             [[role]]\nname = \"client\"\nhosts = [\"h2\"]\ncollect = \"json\"\ncommand = {command}\n"
        ));
        assert!(done.ok().failed() && done.ok().rows == 0);
        let run = done.run();
        assert_eq!((run.records.len(), run.records[0].role), (1, Role::Missing));
        assert_eq!(run.records[0].reason.as_deref(), Some(done.ok().failures[0].why.as_str()));
        done.why()
    };
    let cases = [
        (
            "[\"sh\", \"-c\", 'echo hopeless >&2; exit 3']",
            60,
            "client on h2: ended with code 3; it said: hopeless",
        ),
        ("[\"sh\", \"-c\", 'kill -9 $$']", 60, "client on h2: was ended by signal 9"),
        ("[\"no-such-program-here\"]", 60, "client on h2: cannot start `no-such-program-here`: "),
        ("[\"sh\", \"-c\", 'echo words']", 60, "client on h2: printed no row"),
        ("[\"sleep\", \"1000\"]", 1, "client on h2: did not end within 1 s"),
    ];
    for (command, timeout_s, told) in cases {
        let got = why(command, timeout_s);
        assert!(got.starts_with(told), "{command}: {got}");
    }
    // One cell of two fails in one of two runs: the others stand.
    let done = experiment(
        r#"
HOSTS
[method]
runs = 2
seconds = 0.1
[sweep]
x = [1, 2]
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", """test {x}{run} != 21 && echo '{{"a_per_s":{run}}}'"""]
"#,
    );
    assert_eq!((done.ok().rows, done.ok().failures.len()), (2, 1));
    assert_eq!(done.ok().failures[0].of, "x 2, run 1");
    assert_eq!(done.run().records[1].row["failed_runs"][0]["run"], 1);
    assert_eq!(done.run().records[1].row["a_per_s"], 2);
}

#[test]
fn a_server_that_is_never_ready_or_ends_early_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun").display().to_string();
    let with = |server: &str, ready_timeout_s: u32| {
        let text = r#"
HOSTS
[method]
runs = 1
seconds = 0.1
ready_timeout_s = SECONDS
[[role]]
name = "server"
hosts = ["h2"]
ready = "listening"
command = ["sh", "-c", 'SERVER']
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", 'touch BEGUN; sleep 60; echo "{{}}"']
"#;
        let text = text.replace("SERVER", server).replace("SECONDS", &ready_timeout_s.to_string());
        experiment(&text.replace("BEGUN", &begun)).why()
    };
    // It has to be heard before the time is up: a busy machine gets more of it.
    for seconds in [2, 4, 8, 16, 32, 64] {
        let late = with("echo warming; sleep 1000", seconds);
        let why = format!("server on h2: did not say \"listening\" within {seconds} s");
        if late != why || seconds == 64 {
            assert_eq!(late, format!("{why}; it said: warming"));
            break;
        }
    }
    assert_eq!(with("echo bye", 60), "server on h2: ended before it said \"listening\"; it said: bye");
    // Two pipes keep no order: the second line is said when the first one has been heard, since the client has begun.
    let early = with("echo listening; until test -e BEGUN; do sleep 0.01; done; echo oh >&2; exit 7", 60);
    assert_eq!(early, "server on h2: ended with code 7; it said: listening | oh");
}

#[test]
fn void_rows_are_rows_and_expressions_collect_too() {
    let done = experiment(
        r#"
HOSTS
METHOD
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", """echo '{{"rate_per_s":1,"void":"lagged"}}'; exit 4"""]
"#,
    );
    assert_eq!((done.ok().failed(), done.ok().void), (false, 1), "{:?}", done.ok());
    let done = experiment(
        r#"
METHOD
[[role]]
name = "client"
hosts = "here"
collect = { regex = '(?P<goodput_mbps>[0-9.]+) Mbit' }
command = ["sh", "-c", 'echo speed 12.5 Mbit >&2']
"#,
    );
    assert_eq!(done.run().records[0].row["goodput_mbps"], 12.5, "{:?}", done.ok());
}

#[test]
fn passes_that_never_end_or_print_nothing_leave_the_rates_of_the_others() {
    let passes = r#"
[[pass]]
host = "here"
local = "yes"
path = ""
cmd = "echo loaded; exec sleep 1000"

[[pass]]
host = "here"
local = "yes"
path = ""
cmd = "sleep 0.1; echo '[1.0] thpt : {}'; echo 'thpt : 20'; exec sleep 1000"
"#;
    let run_passes = |text: &str, seconds: u64, serving: &str| {
        let folder = tempfile::tempdir().unwrap();
        let options = MitosisOptions {
            timeout: Some(std::time::Duration::from_secs(seconds)),
            serving: [serving.to_owned()].into_iter().filter(|host| !host.is_empty()).collect(),
            collect: Some(Collect::pattern(RATE_PATTERN).unwrap()),
            ..MitosisOptions::default()
        };
        let file = mitosis::parse(text, "run.toml", folder.path(), &options).unwrap();
        let (outcome, told) = run_until(&file.plan, folder.path(), &|_| false);
        Done { outcome, told, _folder: folder }
    };
    let text = format!("global_configs = '10.5'\n{passes}");
    // Long enough for what they print to be there, however busy the machine is.
    let done = run_passes(&text, 20, "");
    assert!(!done.ok().failed(), "{:?}", done.ok());
    let rates: Vec<f64> =
        done.run().records.iter().filter_map(|record| record.row["thpt"].as_f64()).collect();
    assert_eq!(rates, [10.5, 20.0]);
    // Nobody knows what a run without any rate was.
    let done = run_passes(&text.replace("thpt :", "nothing"), 3, "");
    assert!(done.ok().failed());
    assert_eq!(done.why(), "no process printed a row: no line matches the expression");
    // Who serves is not waited for, and what fails is told, though it ends nothing: far below the minutes that the run may take.
    let text = text.replacen("host = \"here\"", "host = \"there\"", 1);
    let text = text.replace("echo 'thpt : 20'; exec sleep 1000", "echo 'thpt : 20'; exit 7");
    let done = run_passes(&text, 300, "there");
    assert_eq!((done.ok().rows, done.why().as_str()), (2, "pass-2 on here: ended with code 7"));
}

#[test]
fn files_arrive_with_their_rights() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("tool.sh");
    // Larger than one piece.
    let tool = format!("#!/bin/sh\necho '{{\"rows_per_s\": 7}}'\nexit 0\n{}", "#".repeat(700_000));
    fs::write(&source, tool).unwrap();
    fs::set_permissions(&source, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = filled(
        r#"
HOSTS
METHOD
[[sync]]
source = "tool.sh"
to = "bin/tool"
targets = ["h1"]
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["{scratch}/bin/tool"]
"#,
    );
    let (outcome, _) = experiment_until(&text, folder.path(), &|_| false);
    let outcome = outcome.unwrap();
    assert!(!outcome.failed(), "{outcome:?}");
    assert_eq!(Run::open(&outcome.folder).unwrap().records[0].row["rows_per_s"], 7);
}

#[test]
fn an_axis_may_say_whose_value_is_meant() {
    let done = experiment(
        r#"
[[host]]
name = "h1"
settings = { own = "10.0.0.1", kernel = "10.0.1.1" }
METHOD
[sweep]
systems = [{ system = "ours", peer = "{r.own}" }, { system = "kernel", peer = "{r.kernel}" }]
literal = ["{not.known}"]
[[role]]
name = "r"
hosts = ["h1"]
collect = "json"
command = ["printf", '{{"system": "%s", "to": "%s", "literal": "%s"}}', "{system}", "{peer}", "{literal}"]
"#,
    );
    assert!(done.ok().failures.is_empty(), "{}", done.why());
    let rows: Vec<(String, String, String)> = done
        .run()
        .records
        .iter()
        .map(|r| ["system", "to", "literal"].map(|key| r.row[key].as_str().unwrap().to_owned()).into())
        .collect();
    let told = |system: &str, to: &str| (system.to_owned(), to.to_owned(), "{not.known}".to_owned());
    assert_eq!(rows, [told("ours", "10.0.0.1"), told("kernel", "10.0.1.1")]);
}

#[test]
fn two_hosts_of_a_lab() {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("two.toml"),
        "name = \"two\"\n[[host]]\nname = \"h1\"\naddresses = [\"10.9.0.1/24\", \"fd09::1/64\"]\n[[host]]\nname = \"h2\"\n\
         addresses = [\"10.9.0.2/24\"]\n[[link]]\nends = [\"h1\", \"h2\"]\n",
    )
    .unwrap();
    let text = filled(
        r#"
METHOD
[lab]
topology = "two.toml"
[[host]]
name = "h1"
settings = { speed = 3 }
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", """
n=$(readlink /proc/self/ns/net)
echo '{{"ns":"'$n'","said":"{host.cidr} {other.address} {host.interface} {host.ip6} {host.speed}"}}'
"""]
[[role]]
name = "other"
hosts = ["h2"]
command = ["true"]
"#,
    );
    let (outcome, _) = experiment_until(&text, folder.path(), &|_| false);
    let outcome = outcome.unwrap();
    assert!(!outcome.failed(), "{outcome:?}");
    let run = Run::open(&outcome.folder).unwrap();
    let row = &run.records[0].row;
    assert_eq!(row["said"], "10.9.0.1/24 10.9.0.2 eth0 fd09::1 3");
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(row["ns"].as_str().unwrap(), ours.to_str().unwrap(), "it ran in the host's namespace");
    let left = fs::read_dir("/run/netns").map(|dir| {
        let name = format!("two-x{}", std::process::id());
        dir.flatten().filter(|e| e.file_name().to_string_lossy().contains(&name)).count()
    });
    assert_eq!(left.unwrap_or_default(), 0);
}

#[test]
fn hosts_start_at_one_instant() {
    let done = experiment(
        r#"
HOSTS
[method]
runs = 5
seconds = 0.1
warmup_s = 0
[merge]
rows = "apart"
[[role]]
name = "client"
hosts = ["h1", "h2"]
collect = "json"
command = ["sh", "-c", """echo '{{"at":'$(date +%s%N)'}}'"""]
"#,
    );
    let run = done.run();
    assert_eq!((run.records.len(), run.records[1].row["host"].as_str()), (2, Some("h2")));
    let at = |host: usize| {
        let runs = run.records[host].row["runs"].as_array().unwrap();
        runs.iter().map(|run| run["at"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let apart: Vec<i64> = at(0).into_iter().zip(at(1)).map(|(one, other)| (one - other).abs()).collect();
    assert_eq!(apart.len(), 5);
    // A shell and `date` start in between, on a machine that has other things to do: the best of the runs counts.
    assert!(apart.iter().any(|&ns| ns < 500_000_000), "{apart:?}");
}
