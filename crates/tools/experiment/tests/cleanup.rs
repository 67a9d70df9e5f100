//! However an experiment ends, nothing that it started or made is left.

mod common;

use barewire_experiment::run::ExperimentError;
use barewire_measure::stamp;
use barewire_report::run::Run;
use common::{HOSTS, Told, agent_command, experiment_until, filled, marker, running};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// An experiment that takes for ever, with processes that are hard to end.
fn endless(n: u32) -> String {
    let text = r#"
HOSTS
METHOD
[[role]]
name = "server"
hosts = ["h2"]
ready = "up"
command = ["sh", "-c", 'trap "" TERM; (setsid sleep 777 &); echo up; while :; do sleep 777; done']
[[role]]
name = "client"
hosts = ["h1"]
collect = "json"
command = ["sh", "-c", 'echo measuring; sleep 777; true']
"#;
    filled(text).replace("777", &n.to_string())
}

#[test]
fn ctrl_c_ends_everything_at_every_stage() {
    let folder = tempfile::tempdir().unwrap();
    let n = marker();
    let early = experiment_until(&endless(n), folder.path(), &|_| true).0;
    assert!(matches!(early, Err(ExperimentError::Interrupted)), "{early:?}");
    for said in ["@h2 up", "@h1 measuring"] {
        let (outcome, told) =
            experiment_until(&endless(n), folder.path(), &|told| told.lines.iter().any(|line| line == said));
        let outcome = outcome.unwrap();
        assert!(outcome.interrupted && outcome.rows == 0, "{outcome:?} {:?}", told.lines);
        let run = Run::open(&outcome.folder).unwrap();
        assert!(run.manifest.caveats.iter().any(|c| c.contains("interrupted")), "{:?}", run.manifest.caveats);
        assert_eq!(running(&format!("sleep {n}")), Vec::<u32>::new());
    }
}

/// Who started it.
fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_agent_that_is_killed_ends_the_run_and_is_named() {
    let n = marker();
    let folder = tempfile::tempdir().unwrap();
    // First the worker, then the guardian, then both at once.
    for victims in 0..3 {
        let killed = Mutex::new(None);
        let kill_it = |told: &Told| {
            let mut killed = killed.lock().unwrap();
            if killed.is_none() && told.lines.iter().any(|line| line == "@h1 measuring") {
                // The client's shell, whose parent is the agent of h1.
                let client = running(&format!("sh -c echo measuring; sleep {n}")).first().copied();
                let worker = parent(client.unwrap());
                let guardian = parent(worker);
                let pids = [vec![worker], vec![guardian], vec![worker, guardian]];
                let kill = |pid: &u32| {
                    let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
                    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
                };
                pids[victims].iter().for_each(kill);
                *killed = Some(stamp());
            }
            false
        };
        let (outcome, _) = experiment_until(&endless(n), folder.path(), &kill_it);
        let took = stamp().since(killed.lock().unwrap().unwrap());
        let outcome = outcome.unwrap();
        let (host, why) = outcome.lost.clone().unwrap();
        assert!(host == "h1" && why.contains("agent"), "{why}");
        // Seconds, but for a machine that is busy.
        assert!(took.as_secs_f64() < 60.0, "{took:?}");
        assert_eq!(outcome.left_behind, None);
        assert_eq!(running(&format!("sleep {n}")), Vec::<u32>::new());
    }
}

#[test]
fn what_was_made_is_taken_back_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("taken-back");
    let experiment = |n: u32, command: &str, cleanup: &str| {
        format!(
            "{HOSTS}[method]\nruns = 2\nseconds = 0.1\nwarmup_s = 0\n[sweep]\nsize = [1, 2]\n[environment]\nLOG = \"{}\"\n\
             [[role]]\nname = \"r\"\nhosts = [\"h1\"]\ncommand = [\"sh\", \"-c\", \"{command}\"]\n\
             cleanup = [\"sh\", \"-c\", \"{cleanup}\", \"{n}\"]\n",
            log.display()
        )
    };
    let taken = || fs::read_to_string(&log).unwrap_or_default();
    // Once for all runs, after the last.
    let good = experiment(1, "test ! -e $LOG", "echo {host.name} $0 >> $LOG");
    let (outcome, _) = experiment_until(&good, folder.path(), &|_| false);
    let outcome = outcome.unwrap();
    assert!(outcome.failures.is_empty() && outcome.left_behind.is_none(), "{outcome:?}");
    assert_eq!(taken(), "h1 1\n");
    // One that does not work is told.
    let bad = experiment(2, "true", "exit 7");
    let (outcome, _) = experiment_until(&bad, folder.path(), &|_| false);
    let left = outcome.unwrap().left_behind.unwrap();
    assert!(left.contains("h1") && left.contains("exit status: 7"), "{left}");
    // Interrupted; worker, guardian, both killed.
    for victims in 0..4 {
        fs::remove_file(&log).unwrap_or_default();
        let n = marker();
        let killed = Mutex::new(false);
        let stop = |told: &Told| {
            let mut killed = killed.lock().unwrap();
            if *killed || !told.lines.iter().any(|line| line == "@h1 measuring") {
                return *killed && victims == 0;
            }
            *killed = true;
            let client = running(&format!("sh -c echo measuring; sleep {n}")).first().copied();
            let worker = parent(client.unwrap());
            let guardian = parent(worker);
            let pids = [vec![], vec![worker], vec![guardian], vec![worker, guardian]];
            for pid in &pids[victims] {
                let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
            victims == 0
        };
        let text = experiment(n, &format!("echo measuring; sleep {n}"), "echo {host.name} $0 >> $LOG");
        let (outcome, _) = experiment_until(&text, folder.path(), &stop);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.interrupted, outcome.lost.is_some()), (victims == 0, victims > 0), "{outcome:?}");
        assert_eq!(taken(), format!("h1 {n}\n"), "{victims}");
    }
}

/// Speaks with an agent by hand.
fn by_hand() -> std::process::Child {
    let words = agent_command();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn a_controller_that_is_gone_or_silent_leaves_nothing_behind() {
    use std::io::{BufRead, BufReader, Write};
    for goes in [true, false] {
        let n = marker();
        let mut agent = by_hand();
        let mut stdin = agent.stdin.take().unwrap();
        let start = format!(
            r#"{{"do":"start","id":1,"argv":["sh","-c","trap '' TERM; setsid sleep {n} & echo up; sleep {n}"],"cwd":null,"env":{{}},"at_unix_ns":0}}"#
        );
        // Before the last word: the agent's patience begins when it hears it.
        let began = stamp();
        writeln!(
            stdin,
            "garbage\n{{\"do\":\"hello\",\"schema\":3,\"host\":\"x\",\"fingerprint\":false,\"silence_ms\":5000}}\n{start}"
        )
        .unwrap();
        let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut scratch = None;
        let mut garbage = false;
        for line in lines.by_ref() {
            garbage |= line.contains("malformed request");
            if let Some(rest) = line.split("\"scratch\":\"").nth(1) {
                scratch = rest.split('"').next().map(str::to_owned);
            }
            if line.contains("\"text\":\"up\"") {
                break;
            }
        }
        let scratch = scratch.unwrap();
        assert!(garbage && Path::new(&scratch).is_dir());
        let held = Some(stdin).filter(|_| !goes);
        lines.for_each(drop);
        agent.wait().unwrap();
        let took = stamp().since(began).as_secs_f64();
        assert!(took < 60.0 && (goes || took > 4.0), "{took}");
        assert_eq!(running(&format!("sleep {n}")), Vec::<u32>::new());
        assert!(!Path::new(&scratch).exists());
        drop(held);
    }
}
