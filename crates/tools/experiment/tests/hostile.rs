//! Hosts that lie, flood and play dead: what one of them can do to the controller and to the rows of the others.

mod common;

use barewire_experiment::agent::protocol::{Event, Hello, Request, SCHEMA, Stream};
use barewire_experiment::file;
use barewire_experiment::launcher::{AgentPipes, HostFacts, LaunchError, Launcher, Needs};
use barewire_experiment::run::{ExperimentError, Options, Outcome, run};
use barewire_report::run::{HardwareClass, Run};
use common::{Told, agent_command, filled};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, SystemTime};

/// Says to a process how it is to misbehave.
const EVIL: &str = "BW_TEST_EVIL";
/// What the liar would like the others to have measured.
const FORGED: u64 = 987_654_321;
/// So many processes of others the liar speaks for.
const FORGED_IDS: u32 = 50;

#[allow(clippy::disallowed_methods, reason = "a process of a run stamps what it says")]
fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn tell(event: &Event) {
    let mut line = serde_json::to_vec(event).unwrap();
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

fn row(id: u32, rate: u64) -> Event {
    Event::Line { id, stream: Stream::Out, text: format!("{{\"rate_per_s\": {rate}}}"), more: false }
}

/// An agent that answers as it should, and does what the variable says beside.
#[test]
#[ignore = "the process that other tests start as an agent that misbehaves"]
fn evil_agent() {
    let how = std::env::var(EVIL).unwrap();
    let (mut slow, mut mute) = (false, false);
    println!();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match serde_json::from_str(&line).unwrap() {
            Request::Hello { .. } => tell(&Event::Hello(Hello {
                schema: SCHEMA,
                version: "v".into(),
                commit: "c".into(),
                exe: "/nowhere".into(),
                scratch: "/nowhere".into(),
                fingerprint: None,
            })),
            Request::Clock { seq } if !mute => {
                // Half of all there is away: the offset is as large as one can be.
                let away = if how == "clock" { 1 << 63 } else { 0 };
                tell(&Event::Clock { seq, unix_ns: now_ns().wrapping_add(away) });
            }
            // It hears, and says nothing any more.
            _ if mute => {}
            Request::Ping => tell(&Event::Pong),
            Request::Sweep => tell(&Event::Swept { ended: 0, left: 0 }),
            Request::Put { path, last, .. } => {
                if how == "slow" && !slow {
                    slow = true;
                    std::thread::sleep(Duration::from_secs(3));
                }
                if last.is_some() {
                    tell(&Event::Put { path });
                }
            }
            Request::Start { .. } if how == "mute" => mute = true,
            Request::Start { id, .. } => {
                let others = id.saturating_sub(FORGED_IDS)..id + FORGED_IDS;
                for other in others.filter(|other| how == "forge" && *other != id) {
                    tell(&Event::Started { id: other, pid: 1, unix_ns: 1 });
                    tell(&row(other, FORGED));
                    tell(&Event::Exited { id: other, code: Some(0), signal: None, unix_ns: 1 });
                    tell(&Event::Error { id: Some(other), text: "forged".into() });
                }
                tell(&Event::Started { id, pid: 1, unix_ns: now_ns() });
                tell(&row(id, 7));
                if how == "histograms" {
                    let many: Vec<String> =
                        (0..100).map(|n| format!("\"h{n}\":\"{}\"", empty_histogram())).collect();
                    let text = format!("{{\"rate_per_s\":7,\"histograms\":{{{}}}}}", many.join(","));
                    for piece in text.as_bytes().chunks(60_000) {
                        let text = String::from_utf8_lossy(piece).into_owned();
                        tell(&Event::Line { id, stream: Stream::Out, text, more: true });
                    }
                    tell(&Event::Line { id, stream: Stream::Out, text: String::new(), more: false });
                }
                tell(&Event::Exited { id, code: Some(0), signal: None, unix_ns: now_ns() });
                if how == "flood" {
                    // Now, and whatever it is told: only a signal ends it.
                    let line = [b"cleanup command `".as_slice(), &[b'x'; 2000], b"\n"].concat();
                    std::thread::spawn(move || while std::io::stdout().lock().write_all(&line).is_ok() {});
                }
            }
            Request::End if how == "flood" => {}
            Request::End => break,
            _ => {}
        }
    }
    if how == "flood" {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    std::process::exit(0);
}

fn empty_histogram() -> String {
    barewire_measure::Histogram::new().to_base64()
}

/// `h1` behaves, all others do not.
struct Mixed {
    how: &'static str,
    hosts: usize,
}

impl Launcher for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }
    fn hardware(&self) -> HardwareClass {
        HardwareClass::OneMachine
    }
    fn obtaining(&self) -> &'static str {
        "nothing is done"
    }
    fn obtain(&mut self, _: &Needs, _: &dyn Fn() -> bool) -> Result<Vec<HostFacts>, LaunchError> {
        let host =
            |n| HostFacts { name: format!("h{n}"), address: "127.0.0.1".into(), ..HostFacts::default() };
        Ok((1..=self.hosts).map(host).collect())
    }
    fn start(&mut self, host: &str) -> Result<AgentPipes, LaunchError> {
        use std::os::unix::process::CommandExt;
        let is_evil = |word: &std::ffi::OsString| host != "h1" && word == "common::agent_process";
        let words: Vec<_> = agent_command()
            .into_iter()
            .map(|word| if is_evil(&word) { "evil_agent".into() } else { word })
            .collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(EVIL, self.how).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(AgentPipes { child: command.spawn().unwrap() })
    }
    fn release(&mut self) -> Result<(), LaunchError> {
        Ok(())
    }
}

fn with(how: &'static str, hosts: usize, text: &str, out: &Path) -> (Result<Outcome, ExperimentError>, Told) {
    let text = format!("name = \"test\"\n{}", filled(text));
    let plan = file::parse(&text, "test.toml", out).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let options = Options {
        out: out.join("runs"),
        command: vec!["test".into()],
        agent: agent_command(),
        control: vec![],
        resume: None,
    };
    let mut told = Told::default();
    let outcome = run(&plan, &mut Mixed { how, hosts }, &options, &mut told, &|| false);
    (outcome, told)
}

const BOTH: &str = r#"
HOSTS
METHOD
[merge]
rows = "apart"
[[role]]
name = "client"
hosts = ["h1", "h2"]
collect = "json"
command = ["sh", "-c", "sleep 0.5; echo '{{\"rate_per_s\": 5}}'"]
"#;

#[test]
fn a_host_speaks_for_its_own_processes_only() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _) = with("forge", 2, BOTH, folder.path());
    let outcome = outcome.unwrap();
    assert!(outcome.failures.is_empty(), "{outcome:?}");
    let run = Run::open(&outcome.folder).unwrap();
    let rates: Vec<(String, u64)> = run
        .records
        .iter()
        .map(|r| (r.row["host"].as_str().unwrap().to_owned(), r.row["rate_per_s"].as_u64().unwrap()))
        .collect();
    assert_eq!(rates, [("h1".to_owned(), 5), ("h2".to_owned(), 7)]);
    // Its lines stand in no log of another.
    assert!(!fs::read_to_string(outcome.folder.join("h1.log")).unwrap().contains(&FORGED.to_string()));
}

#[test]
fn a_host_whose_clock_is_nonsense_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _) = with("clock", 2, BOTH, folder.path());
    assert!(outcome.unwrap().failures.is_empty());
}

#[test]
fn a_host_that_falls_silent_is_lost_after_the_time_that_the_file_says_and_ends_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
HOSTS
[method]
runs = 1
seconds = 0.1
timeout_s = 300
silence_s = 10
[sweep]
machines = [2, 1]
[[role]]
name = "client"
hosts = ["h1", "h2"]
count = "{machines}"
collect = "json"
command = ["sh", "-c", "echo '{{\"rate_per_s\": 5}}'"]
"#;
    let (outcome, told) = with("mute", 2, text, folder.path());
    let outcome = outcome.unwrap();
    let (host, why) = outcome.lost.clone().unwrap();
    assert!(host == "h2" && why.contains("said nothing for 10 s"), "{why}");
    assert_eq!((outcome.rows, outcome.failures.len(), outcome.can_resume), (1, 1, true), "{outcome:?}");
    assert!(told.notes.iter().any(|note| note.contains("the rest continues")), "{:?}", told.notes);
    assert_eq!(Run::open(&outcome.folder).unwrap().records[1].row["rate_per_s"], 5);
}

#[test]
fn hosts_that_never_stop_talking_do_not_keep_the_controller() {
    let hosts: String = (3..=6).map(|n| format!("[[host]]\nname = \"h{n}\"\n")).collect();
    let text = BOTH.replace("[\"h1\", \"h2\"]", "[\"h1\", \"h2\", \"h3\", \"h4\", \"h5\", \"h6\"]");
    let (end, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, told) = with("flood", 6, &format!("{hosts}{text}"), folder.path());
        let _ = end.send((outcome.map(|outcome| outcome.left_behind), told.notes));
    });
    // It is bounded by the waits for agents that do not end, some seconds; forever is what must not be.
    let (left, notes) = ended.recv_timeout(Duration::from_secs(600)).expect("the controller ends");
    let left = left.unwrap().unwrap_or_default();
    assert!(left.len() < 100_000, "{} bytes are told of what is left behind; {notes:?}", left.len());
}

#[test]
fn a_row_with_thousands_of_histograms_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _) = with("histograms", 2, BOTH, folder.path());
    let outcome = outcome.unwrap();
    assert!(outcome.failures.iter().any(|f| f.why.contains("histograms")), "{outcome:?}");
}

/// The largest that this process has been, in KiB.
fn most_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[test]
fn a_large_file_goes_to_many_hosts_without_lying_in_memory_for_each() {
    // In a process of its own: what others have taken of memory must not count.
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--ignored", "--exact", "large_file", "--nocapture"]).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
}

#[test]
#[ignore = "the process that the test before starts"]
fn large_file() {
    const MIB: usize = 48;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("large"), vec![7; MIB << 20]).unwrap();
    let text = r#"
HOSTS
[[host]]
name = "h3"
METHOD
[merge]
rows = "apart"
[[sync]]
source = "large"
[[role]]
name = "client"
hosts = ["h1", "h2", "h3"]
collect = "json"
command = ["sh", "-c", "echo '{{\"bytes\": '$(wc -c < large)'}}'"]
"#;
    let before = most_kib();
    // Two of them are slow to take it.
    let (outcome, _) = with("slow", 3, text, folder.path());
    let outcome = outcome.unwrap();
    assert!(outcome.failures.is_empty(), "{outcome:?}");
    let run = Run::open(&outcome.folder).unwrap();
    assert_eq!(run.records[0].row["bytes"], (MIB << 20) as u64);
    let grown_mib = (most_kib() - before) >> 10;
    // Two copies in base64 are nearly three times the file.
    assert!(grown_mib < 2 * MIB as u64, "{grown_mib} MiB more than before");
}

/// An agent, spoken to by hand.
struct ByHand {
    child: Child,
    stdin: ChildStdin,
    said: Receiver<Event>,
}

impl ByHand {
    fn start() -> ByHand {
        let words = agent_command();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (to, said) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for event in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                let _ = to.send(event);
            }
        });
        let stdin = child.stdin.take().unwrap();
        ByHand { child, stdin, said }
    }

    fn say(&mut self, request: &Request) {
        writeln!(self.stdin, "{}", serde_json::to_string(request).unwrap()).unwrap();
    }

    /// The first event of the kind, within so many pings.
    fn hear(&mut self, pings: u32, wanted: impl Fn(&Event) -> bool) -> bool {
        for _ in 0..pings {
            self.say(&Request::Ping);
            while let Ok(event) = self.said.recv_timeout(Duration::from_millis(500)) {
                if wanted(&event) {
                    return true;
                }
            }
        }
        false
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _ = writeln!(self.stdin, "{}", serde_json::to_string(&Request::End).unwrap());
        let _ = self.child.wait();
    }
}

#[test]
fn a_clock_that_was_put_back_delays_a_start_by_seconds_not_by_hours() {
    let mut agent = ByHand::start();
    let start = |id, argv: &[&str], at_unix_ns| Request::Start {
        id,
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        cwd: None,
        env: std::collections::BTreeMap::new(),
        at_unix_ns,
    };
    // By a clock that is put back by an hour, every instant is an hour away.
    agent.say(&start(1, &["true"], now_ns() + 3_600_000_000_000));
    assert!(agent.hear(60, |event| matches!(event, Event::Started { id: 1, .. })), "it never starts");
    assert!(agent.hear(60, |event| matches!(event, Event::Exited { id: 1, code: Some(0), .. })));
    // And what lies in the past is now.
    agent.say(&start(2, &["true"], 1));
    assert!(agent.hear(60, |event| matches!(event, Event::Started { id: 2, .. })));
}
