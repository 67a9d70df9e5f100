//! `barewire bench run`: experiments from their file to a folder that `report` shows, and what is wrong with a file.

mod common;
mod patience;

use barewire_testing::{Needs, have};
use common::run;
use patience::{code_of, until_well};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn sample(name: &str) -> String {
    format!("{}/../../../labs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A folder that is gone when this is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("barewire-bench-run-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const TWO: &str = r#"
name = "two"
[method]
runs = 1
seconds = 0.1
[sweep]
threads = [1, 2]
[[host]]
name = "h1"
[[host]]
name = "h2"
[[role]]
name = "server"
hosts = ["h2"]
command = ["sh", "-c", "echo listening; sleep 60"]
ready = "listening"
[[role]]
name = "client"
hosts = ["h1"]
command = ["sh", "-c", """echo '{{"system":"toy","rate_per_s":{threads}}}'"""]
collect = "json"
"#;

#[test]
fn an_experiment_ends_in_a_folder_that_report_shows() {
    let folder = Folder::new("shown");
    let file = folder.write("two.toml", TWO);
    let out = folder.0.join("runs").display().to_string();
    let done = run(&["bench", "run", &file, "--out", &out, "--json", "--only", "threads=2"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    for key in ["schema", "rows", "cells"] {
        assert_eq!(told[key], 1, "{key}");
    }
    assert!(done.err.contains("@h2       listening"), "{}", done.err);
    let path = told["folder"].as_str().unwrap();
    assert!(Path::new(path).join("h1.log").is_file());
    let shown = run(&["report", path]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    assert!(shown.out.contains("toy") && shown.out.contains("2 threads"), "{}", shown.out);
    // The same experiment again is another folder.
    let again = run(&["bench", "run", &file, "--out", &out, "--quick", "-q"]);
    assert_eq!((again.code, again.err.as_str()), (Some(0), ""));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
}

#[test]
fn failures_decide_the_code() {
    let folder = Folder::new("codes");
    let out = folder.0.join("runs").display().to_string();
    let with = |from: &str, to: &str| {
        assert!(TWO.contains(from));
        let file = folder.write("x.toml", &TWO.replace(from, to));
        run(&["bench", "run", &file, "--out", &out, "--only", "threads=1"])
    };
    let failed = with("echo '{{", "echo -e '\\\\033[2J' >&2; exit 9; echo '{{");
    assert_eq!(failed.code, Some(1), "{}", failed.err);
    assert!(
        failed.err.contains("error: threads 1, run 1: client on h1: ended with code 9"),
        "{}",
        failed.err
    );
    assert!(!failed.err.contains('\x1b'), "nothing of a host talks to the terminal");
    // One cell of two: the other stands, and its figures are no reason to call it well.
    let file = folder.write("x.toml", &TWO.replace("echo '{{", "test {threads} = 2 || exit 9; echo '{{"));
    let part = run(&["bench", "run", &file, "--out", &out, "--json"]);
    assert_eq!(part.code, Some(4), "{}", part.err);
    let told: Value = serde_json::from_str(&part.out).unwrap();
    assert_eq!((&told["rows"], &told["cells_without_rows"]), (&Value::from(1), &Value::from(1)));
    // Once its cause is gone, only what is missing is measured; another experiment is refused.
    assert!(part.err.contains("--resume"), "{}", part.err);
    let again = run(&["bench", "run", &file, "--out", &out, "--json", "--resume", "--runs", "2"]);
    assert_eq!(again.code, Some(2), "{}", again.err);
    assert!(again.err.contains("method.runs: 1 then, 2 now"), "{}", again.err);
    let again = run(&["bench", "run", &file, "--out", &out, "--json", "--resume"]);
    let told: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((again.code, &told["resumed_runs"]), (Some(4), &Value::from(1)), "{}", again.err);
    assert!(again.err.contains("threads 1") && !again.err.contains("[1/2]"), "{}", again.err);
    let none = run(&["bench", "run", &file, "--out", &format!("{out}/none"), "--resume"]);
    assert!(none.code == Some(2) && none.err.contains("broke off"), "{}", none.err);
    let void = with("\"rate_per_s\"", "\"void\":\"lagged\",\"rate_per_s\"");
    assert_eq!(void.code, Some(4), "{}", void.err);
    let wrong = with("threads = [1, 2]", "threads = [1, 2]\nrnu = 3");
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
}

#[test]
fn wrong_files_and_words_are_told_before_anything_starts() {
    let folder = Folder::new("wrong");
    let file = folder.write("two.toml", TWO);
    let slip = folder.write("slip.toml", &TWO.replace("ready =", "raedy ="));
    for (args, told) in [
        (&["bench", "run", &slip][..], "slip.toml:16:1: unknown key `raedy`; did you mean `ready`?"),
        (&["bench", "run", "/no/such.toml"], "/no/such.toml"),
        (&["bench", "run", &file, "--only", "treads=1"], "did you mean `threads`?"),
        (&["bench", "run", &file, "--only", "threads=3"], "axis `threads` has no `3`"),
        (&["bench", "run", &file, "--only", "threads"], "KEY=VALUE is expected"),
        (&["bench", "run", &file, "--black", "h3"], "no host `h3`"),
        (&["bench", "run", &file, "--black", "h1"], "role client: 1 hosts needed, 0 left"),
        (&["bench", "run", &file, "--runs", "0"], "--runs"),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(told), "{args:?}: {}", said.err);
    }
}

#[test]
fn samples_are_right_and_dry_runs_start_nothing() {
    let dry = run(&["bench", "run", &sample("messages.toml"), "--dry-run", "--json"]);
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    let told: Value = serde_json::from_str(&dry.out).unwrap();
    assert!(told["cells"].as_array().unwrap().len() == 20 && told["needs_root"] == true, "{told}");
    assert!(told["seconds"].as_f64().unwrap() > 3.0);
}

#[test]
fn every_sample_can_be_read_and_put_on_other_machines() {
    let folder = Folder::new("placed");
    let mine = folder.write(
        "mine.toml",
        "[[host]]\nname = \"*\"\nsettings = { interface = \"ens9\", port = \"packet:ens9\", api_token = \"sesam-oeffne\" }\n",
    );
    let mut seen = 0;
    for entry in fs::read_dir(sample("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        seen += 1;
        let path = path.display().to_string();
        let dry = run(&["bench", "run", &path, "--hosts", &mine, "--dry-run", "--json"]);
        assert_eq!(dry.code, Some(0), "{path}: {}", dry.err);
        let told: Value = serde_json::from_str(&dry.out).unwrap();
        for host in told["hosts"].as_array().unwrap() {
            assert_eq!(host["settings"]["port"], "packet:ens9", "{path}: {told}");
            assert_eq!(host["settings"]["api_token"], "***");
        }
        // Wires are the hosts' business: a command that names one runs nowhere else.
        let commands = told["roles"].to_string();
        for wire in ["xdp:", "packet:", "10.0.", "10.7"] {
            assert!(!commands.contains(wire), "{path}: {commands}");
        }
    }
    assert!(seen >= 10, "{seen}");
    let wrong = folder.write("wrong.toml", "[[host]]\nname = \"clinet\"\nssh = \"me@m1\"\n");
    let said = run(&["bench", "run", &sample("machnet.toml"), "--hosts", &wrong, "--launcher", "ssh"]);
    assert!(said.code == Some(2) && said.err.contains("did you mean `client`"), "{}", said.err);
    let slip = folder.write("slip.toml", "[[host]]\nname = \"client\"\nsssh = \"me@m1\"\n");
    let said = run(&["bench", "run", &sample("machnet.toml"), "--hosts", &slip, "--launcher", "ssh"]);
    assert!(said.code == Some(2) && said.err.contains("slip.toml:3:1: unknown key `sssh`"), "{}", said.err);
}

#[test]
fn messages_between_hosts_of_a_lab() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    let folder = Folder::new("lab");
    let out = folder.0.join("runs").display().to_string();
    let file = sample("messages.toml");
    let first = ["bench", "run", &file, "--quick", "--json", "--out", &out];
    let args = [&first[..], &["--only", "size=64", "--only", "window=1"]].concat();
    // On a machine with much else to do two cores may not meet, which fails the floor, and so short a run may see nothing. Again, then;
    // the code is judged below, by what the rows say.
    let (done, run) = until_well(
        || {
            let done = run(&args);
            let told: Value = serde_json::from_str(&done.out).unwrap_or_default();
            let rows = told["folder"].as_str().map(|folder| Path::new(folder).join("rows.jsonl"));
            (done, rows.map(|rows| fs::read_to_string(rows).unwrap()).unwrap_or_default())
        },
        |(_, run)| run.contains("\"role\":\"control\"") && !run.contains("\"samples\":0,"),
    );
    let records: Vec<Value> = run.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(done.code, code_of(records.iter().map(|record| &record["row"])), "{}", done.err);
    // The floor of the host that measures; ours; the kernel beside it.
    assert!(records[0]["role"] == "control" && records[0]["row"]["host"] == "h1", "{run}");
    assert!(records[0]["row"]["clock"]["median_ns"].is_u64(), "{run}");
    let systems: Vec<&Value> = records[1..].iter().map(|record| &record["row"]["system"]).collect();
    assert_eq!(systems, ["barewire", "kernel-tcp", "kernel-tcp", "kernel-tcp-spin", "kernel-tcp-batch-spin"]);
    let states: Vec<&Value> = records[1..].iter().map(|record| &record["row"]["idle_state"]).collect();
    assert_eq!(states, ["warm", "cold", "warm", "warm", "warm"]);
    for record in &records[1..] {
        assert_eq!(record["axes"]["size"], 64.0);
        assert!(record["row"]["samples"].as_u64().unwrap() > 0, "{record}");
    }
}
