//! A network of hosts in namespaces of this machine, for launchers that reach hosts over a network: `h1`, `h2`, … on a bridge, and
//! `c`, where the experiment is started.
#![allow(dead_code)]

use barewire_base::Instant;
use barewire_experiment::launcher::{AgentBinary, Launcher};
use barewire_experiment::plan::Plan;
use barewire_experiment::run::{ExperimentError, Options, Outcome, Progress, Watch};
use barewire_experiment::{agent, file};
use barewire_lab::{Lab, Programs, Topology};
use barewire_measure::stamp;
use barewire_netns::{Namespace, is_root_capable};
pub use barewire_testing::comes_true;
use barewire_testing::{Needs, have, program};
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Set for processes that play the agent.
const AGENT: &str = "BAREWIRE_TEST_AGENT";
/// In the environment of everything that an experiment of a test starts.
pub const MARK: &str = "BAREWIRE_TEST_MARK";

/// The process that launchers of other tests start: call it from an ignored test named `agent`.
pub fn play_agent() {
    if std::env::var_os(AGENT).is_some() {
        agent::serve().unwrap();
    }
}

/// A program that behaves as `barewire` does where launchers are concerned: a script that runs this test's `agent`.
pub fn agent_binary(folder: &Path) -> AgentBinary {
    let exe = std::env::current_exe().unwrap();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n[ \"$1\" = agent ] || exit 2\n\
         {AGENT}=1 exec {} --exact agent --ignored --quiet --nocapture\n",
        exe.display()
    );
    let path = folder.join("barewire");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    AgentBinary::read(&path, &["agent"]).unwrap()
}

/// False, and loudly so, when a test cannot run here.
pub fn can_run(programs: &[&str]) -> bool {
    have(Needs::Root, is_root_capable()).is_some()
        && programs.iter().all(|name| have(Needs::Peers, program(name)).is_some())
}

pub struct Hosts {
    lab: Lab,
    pub name: String,
    pub folder: PathBuf,
    children: Mutex<Vec<Child>>,
    controller: Namespace,
}

static LABS: AtomicU32 = AtomicU32::new(0);

impl Hosts {
    /// `h1` (10.91.0.1), `h2`, … and `c` (10.91.0.200).
    pub fn new(count: u32) -> Hosts {
        let name = format!("bwx-{}-{}", std::process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir(&folder).unwrap();
        let text = format!(
            "name = \"{name}\"\n[[switch]]\nname = \"s1\"\nkind = \"bridge\"\n\
             [[host]]\nname = \"c\"\naddresses = [\"10.91.0.200/24\"]\n\
             [[group]]\nprefix = \"h\"\ncount = {count}\nsubnet = \"10.91.0.0/24\"\nswitch = \"s1\"\n\
             [[link]]\nends = [\"s1\", \"c\"]\n"
        );
        let topology = Topology::parse(&text, "test.toml", &folder).unwrap();
        let none =
            Programs { link_node: vec![], switch: vec![], switch_commands: vec![], environment: vec![] };
        let lab = Lab::new(&folder.join("lab"), none);
        lab.up(&topology).unwrap();
        let controller = lab.namespace(&name, "c").unwrap();
        Hosts { lab, name, folder, children: Mutex::default(), controller }
    }

    /// Runs `f` where the experiment is started.
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.controller.enter(f).unwrap()
    }

    /// Starts a daemon in a host, or on this machine; its output goes to `LOG` in the folder.
    pub fn spawn(&self, host: Option<&str>, command: &mut Command, log: &str) -> u32 {
        let log = File::create(self.folder.join(log)).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = match host {
            Some(host) => self.lab.namespace(&self.name, host).unwrap().spawn_in(command),
            None => command.spawn(),
        };
        let child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let pid = child.id();
        self.children.lock().unwrap().push(child);
        pid
    }

    /// Kills a daemon that was started here.
    pub fn kill(&self, pid: u32) {
        let mut children = self.children.lock().unwrap();
        let child = children.iter_mut().find(|child| child.id() == pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until something answers at an address.
    pub fn wait_for_port(&self, address: &str) {
        let address: SocketAddr = address.parse().unwrap();
        let there = self.inside(|| comes_true(|| std::net::TcpStream::connect(address).is_ok()));
        assert!(there, "nothing listens at {address}: {}", self.logs());
    }

    /// What the daemons have said, for a test that fails.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(&self.folder).unwrap().flatten() {
            if entry.path().extension().is_some_and(|e| e == "log") {
                text.push_str(&format!("\n== {}\n", entry.path().display()));
                text.push_str(&String::from_utf8_lossy(&fs::read(entry.path()).unwrap()));
            }
        }
        text
    }

    /// A plan of this text whose processes bear the mark of this network.
    pub fn plan(&self, text: &str) -> Plan {
        let mut plan = file::parse(text, "test.toml", &self.folder).unwrap_or_else(|e| panic!("{e}"));
        plan.environment.insert(MARK.into(), self.name.clone());
        plan
    }

    /// Runs a plan, as `c`.
    pub fn run(
        &self,
        plan: &Plan,
        launcher: &mut (dyn Launcher + Send),
        watch: &mut (dyn Watch + Send),
    ) -> Result<Outcome, ExperimentError> {
        let options = Options {
            out: self.folder.join("runs"),
            command: vec![],
            agent: Vec::<OsString>::new(),
            control: vec![],
            resume: None,
        };
        self.inside(|| barewire_experiment::run::run(plan, launcher, &options, watch, &|| false))
    }

    /// The run folder's rows, one a line.
    pub fn rows(&self, outcome: &Outcome) -> String {
        fs::read_to_string(outcome.folder.join("rows.jsonl")).unwrap()
    }

    /// Nothing of an experiment is left: no process of it, no scratch folder.
    pub fn nothing_runs(&self) {
        let left = || {
            let pids = fs::read_dir("/proc")
                .unwrap()
                .flatten()
                .filter_map(|e| e.file_name().into_string().ok()?.parse::<u32>().ok());
            let marked = |pid: &u32| {
                fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|env| String::from_utf8_lossy(&env).contains(&format!("{MARK}={}", self.name)))
            };
            pids.filter(marked)
                .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok())
                .collect::<Vec<_>>()
        };
        comes_true(|| left().is_empty());
        assert_eq!(left(), Vec::<String>::new());
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in self.children.lock().unwrap().iter_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // And whatever those started, as it runs in the hosts.
        let _ = self.lab.down(&self.name);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program's output; panics when it fails.
pub fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// What to do once, at a line.
pub type AtLine = (&'static str, Box<dyn FnMut() + Send>);

/// Keeps what it is told.
#[derive(Default)]
pub struct Told {
    pub lines: Vec<String>,
    pub notes: Vec<(Instant, String)>,
    /// Set when a run begins.
    pub began: AtomicBool,
    /// Done when the first line of this text comes.
    pub at_line: Option<AtLine>,
}

impl Watch for Told {
    fn line(&mut self, host: &str, text: &str) {
        self.lines.push(format!("@{host} {text}"));
        if self.at_line.as_ref().is_some_and(|(wanted, _)| text.contains(wanted))
            && let Some((_, mut act)) = self.at_line.take()
        {
            act();
        }
    }

    fn note(&mut self, text: &str) {
        self.notes.push((stamp(), text.to_owned()));
    }

    fn progress(&mut self, _: &Progress) {
        self.began.store(true, Ordering::Relaxed);
    }
}
