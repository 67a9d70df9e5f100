//! `barewire lab`: files drawn and simulated by anybody, made by root.

mod common;

use barewire_testing::{Needs, have, skip};
use common::{barewire, run};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

fn sample(name: &str) -> String {
    format!("{}/../../../labs/topologies/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn files_are_drawn_exported_and_simulated() {
    let two = sample("two-hosts.toml");
    let drawn = run(&["lab", "graph", &two, "--style", "dot"]);
    assert_eq!(drawn.code, Some(0), "{}", drawn.err);
    assert!(drawn.out.contains("10.0.0.1") && drawn.out.contains("h2"), "{}", drawn.out);
    let simulated = run(&["lab", "simulate", &two, "--seconds", "0.5"]);
    assert_eq!(simulated.code, Some(0), "{}", simulated.err);
    assert!(simulated.out.starts_with("simulated: lab two-hosts, seed 7, 2 hosts"), "{}", simulated.out);
    let again = run(&["lab", "simulate", &two, "--seconds", "0.5"]);
    assert_eq!(simulated.out, again.out, "the same file gives the same world");
    let folder = std::env::temp_dir().join(format!("barewire-lab-cli-{}", std::process::id()));
    let out = folder.display().to_string();
    for to in ["containerlab", "mininet"] {
        let exported = run(&["lab", "export", &two, "--to", to, "--out", &out]);
        assert_eq!(exported.code, Some(0), "{}", exported.err);
    }
    assert!(std::fs::read_dir(&folder).unwrap().count() >= 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_simulation_is_a_row_that_says_so() {
    let two = sample("two-hosts.toml");
    let folder = std::env::temp_dir().join(format!("barewire-simulated-cli-{}", std::process::id()));
    let runs = folder.display().to_string();
    let args = ["lab", "simulate", &two, "--seconds", "0.5", "--seed", "9", "--json", "--run", &runs];
    let mut rows = Vec::new();
    for label in ["one", "two"] {
        let said = run(&[&args[..], &["--label", label]].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(
            (&document["hardware"], &document["control"]),
            (&"simulated".into(), &().into()),
            "{document}"
        );
        let mut row = document["rows"][0].clone();
        assert_eq!(
            (&row["simulated"], &row["seed"], &row["lab"]),
            (&true.into(), &9.into(), &"two-hosts".into())
        );
        assert!(row["rtt_ns"]["min"].as_u64() >= Some(2_000_000) && row["frames"]["lost"].is_u64(), "{row}");
        // The labels are not the same.
        row.as_object_mut().unwrap().remove("command");
        rows.push(row);
    }
    assert_eq!(rows[0], rows[1], "the same seed gives the same row");
    let folders: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path().display().to_string()).collect();
    assert_eq!(folders.len(), 2);
    let page = format!("{runs}/page.html");
    let report = run(&["report", &folders[0], "--html", &page]);
    assert_eq!(report.code, Some(0), "{}", report.err);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("simulated: times are those of a model") && html.contains("in virtual time"));
    let compared = run(&["bench", "compare", &folders[0], &folders[1]]);
    assert_eq!(compared.code, Some(0), "{}", compared.err);
    assert!(compared.out.contains("simulated"), "{}", compared.out);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn connections_are_simulated_too() {
    let four = sample("four-hosts-bridge.toml");
    let args =
        ["lab", "simulate", &four, "--what", "connections", "--pattern", "incast", "--seconds", "0.05"];
    let said = run(&args);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.starts_with("simulated: lab ") && said.out.contains("connections opened"),
        "{}",
        said.out
    );
    let json = || {
        let said = run(&[&args[..], &["--json"]].concat());
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        document["rows"][0].clone()
    };
    let row = json();
    assert_eq!(row, json(), "the same seed gives the same row");
    assert_eq!(
        (&row["what"], &row["simulated"], &row["clients"]),
        (&"connections".into(), &true.into(), &3.into())
    );
    assert!(row["connections_per_s"].as_f64() > Some(0.0) && row["latency_ns"]["min"].is_u64(), "{row}");
}

#[test]
fn slips_are_answered() {
    let two = sample("two-hosts.toml");
    let folder = std::env::temp_dir().display().to_string();
    for (args, code, near) in [
        (&["lab", "graph", &two, "--style", "dto"][..], 2, "dot"),
        (&["lab", "simulate", &two, "--pattern", "pair"], 2, "pairs"),
        (&["lab", "simulate", &two, "--what", "conections"], 2, "did you mean `connections`?"),
        (&["lab", "simulate", &two, "--what", "connections", "--size", "64"], 2, "`--size` is of messages"),
        (&["lab", "simulate", &two, "--seed", "x"], 2, "--seed"),
        (&["lab", "simulate", &two, "--jsn"], 2, "'--json'"),
        (&["lab", "simulate", &two, "--out", &folder], 2, "`--run FOLDER`"),
        (&["lab", "simulate", &two, "--seconds", "0.0001"], 4, "the row is void"),
        (&["lab", "up", "/no/such.toml"], 2, "/no/such.toml"),
        (&["lab", "down", "no-such-lab-here"], 2, "no lab `no-such-lab-here`"),
        (
            &["lab", "simulate", &two, "--size", "1048576", "--window", "1024", "--pattern", "ring"],
            2,
            "at most 8192 MiB",
        ),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(near), "{args:?}: {}", said.err);
    }
}

/// A lab of its own name: another test run may be on this machine. Gone when the test ends, however.
struct Made {
    name: String,
    file: std::path::PathBuf,
}

impl Made {
    /// `None`, and loudly so, where none can be made.
    fn new(test: &str) -> Option<Made> {
        have(Needs::Root, barewire_netns::is_root_capable())?;
        let name = format!("{test}-{}", std::process::id());
        let text = std::fs::read_to_string(sample("two-hosts.toml")).unwrap();
        let file = std::env::temp_dir().join(format!("barewire-{name}.toml"));
        std::fs::write(&file, text.replace("two-hosts", &name)).unwrap();
        let up = run(&["lab", "up", &file.display().to_string()]);
        assert_eq!(up.code, Some(0), "{}", up.err);
        Some(Made { name, file })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        run(&["lab", "down", &self.name]);
        let _ = std::fs::remove_file(&self.file);
    }
}

#[test]
fn signals_are_the_programs_by_their_numbers() {
    let Some(lab) = Made::new("signals") else { return };
    let script = "trap 'echo got HUP' HUP; trap 'echo got USR1' USR1; trap 'echo got INT' INT; trap 'echo got TERM; exit 9' TERM; \
                  echo ready; while :; do sleep 0.02; done";
    let mut command = barewire(&["lab", "exec", "--lab", &lab.name, "h1", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "ready");
    let pid = child.id().to_string();
    // Twice the same, too: the second one does not end us where we stand.
    for signal in ["HUP", "INT", "INT", "USR1", "TERM"] {
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        assert!(sent.success());
        assert_eq!(next(), format!("got {signal}"));
    }
    assert_eq!(child.wait().unwrap().code(), Some(9), "its code is ours");
}

/// A shell on a terminal of its own starts a program in a host with `&`, and then one without.
const SHELL: &str = r#"
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
binary, lab = sys.argv[1:]
said = b""
def until(word):
    global said
    end = time.monotonic() + 30
    while word not in said:
        assert time.monotonic() < end, said
        try:
            said += os.read(terminal, 65536)
        except OSError:
            raise SystemExit("the shell is gone: %r" % said)
def say(line):
    os.write(terminal, line.encode() + b"\n")
execute = "%s lab exec --lab %s h1 -- " % (binary, lab)
# What is typed comes back with the sum as it was typed: only what ran has its result.
say("PS1=; echo begun-$((40 + 2))")
until(b"begun-42")
say(execute + "sh -c 'echo behind-$((40 + 2)); sleep 0.5; echo over-$((40 + 2))' &")
until(b"behind-42")
# Its job runs: the terminal is still the shell's.
say("echo mine-$((40 + 2))")
until(b"mine-42")
until(b"over-42")
say("wait; echo still-$((40 + 2))")
until(b"still-42")
# In the foreground the program has the terminal (its group is that of the terminal), and gives it back.
say(execute + "sh -c 'set -- $(cat /proc/$$/stat); test $5 = $8 && echo has-$((40 + 2))'")
until(b"has-42")
say("echo again-$((40 + 2))")
until(b"again-42")
say("exit 5")
_, status = os.waitpid(pid, 0)
assert os.WEXITSTATUS(status) == 5, (status, said)
"#;

#[test]
fn a_job_in_the_background_leaves_the_terminal_to_the_shell() {
    let Some(lab) = Made::new("terminal") else { return };
    let out = Command::new("python3").args(["-c", SHELL, env!("CARGO_BIN_EXE_barewire"), &lab.name]).output();
    let Ok(out) = out else { return skip(Needs::Tools, "there is no python3") };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn ctrl_c_while_it_goes_up_leaves_nothing() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    let name = format!("stopped-{}", std::process::id());
    let text = format!(
        "name = \"{name}\"\n[[switch]]\nname = \"s\"\nkind = \"bridge\"\n[[group]]\nprefix = \"h\"\ncount = 200\nsubnet = \
         \"10.0.0.0/16\"\nswitch = \"s\"\n"
    );
    let file = std::env::temp_dir().join(format!("barewire-{name}.toml"));
    std::fs::write(&file, text).unwrap();
    let child = barewire(&["lab", "up", &file.display().to_string()]).stderr(Stdio::piped()).spawn().unwrap();
    let there = || {
        std::fs::read_dir("/run/netns").map_or(0, |all| {
            all.flatten()
                .filter(|e| e.file_name().to_string_lossy().starts_with(&format!("bw.{name}.")))
                .count()
        })
    };
    assert!((0..30_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        there() > 3
    }));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said = common::said(child.wait_with_output().unwrap());
    let left = there();
    run(&["lab", "down", &name]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!((said.code, left), (Some(130), 0), "{}", said.err);
}

#[test]
fn a_lab_goes_up_runs_programs_and_goes_down() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    // A name of its own: another test run may be on this machine.
    let name = format!("cli-{}", std::process::id());
    let text = std::fs::read_to_string(sample("two-hosts.toml")).unwrap();
    let file = std::env::temp_dir().join(format!("barewire-{name}.toml"));
    std::fs::write(&file, text.replace("two-hosts", &name)).unwrap();
    let path = file.display().to_string();
    let up = run(&["lab", "up", &path]);
    assert_eq!(up.code, Some(0), "{}", up.err);
    let twice = run(&["lab", "up", &path]);
    assert_eq!(twice.code, Some(1), "{}", twice.err);
    assert!(twice.err.contains("already exists") && twice.err.contains("hint:"), "{}", twice.err);
    let code = run(&["lab", "exec", "--lab", &name, "h1", "--", "sh", "-c", "exit 7"]);
    assert_eq!(code.code, Some(7), "{}", code.err);
    let nowhere = run(&["lab", "pcap", "--lab", &name, "wan", "/no/such/folder/x.pcap"]);
    assert_eq!(nowhere.code, Some(1), "as any file that cannot be written: {}", nowhere.err);
    assert!(nowhere.err.contains("/no/such/folder/x.pcap"), "{}", nowhere.err);
    let wrong = run(&["lab", "exec", "--lab", &name, "h3", "--", "true"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    let status = run(&["lab", "status", &name, "--json"]);
    assert_eq!(status.code, Some(0), "{}", status.err);
    let document: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(document["whole"], true, "{document}");
    assert!(document["link_counters"]["wan"].is_object(), "{document}");
    let down = run(&["lab", "down", &name]);
    assert_eq!(down.code, Some(0), "{}", down.err);
    let gone = run(&["lab", "down", &name]);
    assert_eq!(gone.code, Some(2), "{}", gone.err);
    std::fs::remove_file(&file).unwrap();
}
