//! Experiments on this machine, with this test program as the agent.
#![allow(dead_code, reason = "each test file uses its part")]

use barewire_experiment::launcher::LocalLauncher;
use barewire_experiment::plan::Plan;
use barewire_experiment::run::{ExperimentError, Options, Outcome, Progress, Watch, run};
use barewire_experiment::{agent, file};
use barewire_lab::Programs;
use barewire_report::run::Run;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Started by the others as the agent.
#[test]
#[ignore = "the process that other tests start as the agent"]
fn agent_process() {
    agent::serve().unwrap();
    // libtest would say more on the agent's output.
    std::process::exit(0);
}

pub fn agent_command() -> Vec<OsString> {
    let own = std::env::current_exe().unwrap();
    ["--ignored", "--exact", "common::agent_process", "--nocapture", "--test-threads=1"].iter().fold(
        vec![own.into_os_string()],
        |mut words, word| {
            words.push(word.into());
            words
        },
    )
}

/// A number that no other process has on its command line: what is left of a test is found by it.
pub fn marker() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    100_000 + std::process::id() % 9_000 * 100 + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Processes whose command line has `words`.
pub fn running(words: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(words)
    })
    .collect()
}

/// What was told.
#[derive(Default)]
pub struct Told {
    pub lines: Vec<String>,
    pub notes: Vec<String>,
    pub progress: Vec<Progress>,
}

impl Watch for Told {
    fn line(&mut self, host: &str, text: &str) {
        self.lines.push(format!("@{host} {text}"));
    }
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
    fn progress(&mut self, progress: &Progress) {
        self.progress.push(progress.clone());
    }
}

pub const HOSTS: &str = "[[host]]\nname = \"h1\"\n[[host]]\nname = \"h2\"\n";

pub struct Done {
    pub outcome: Result<Outcome, ExperimentError>,
    pub told: Told,
    pub _folder: tempfile::TempDir,
}

impl Done {
    pub fn ok(&self) -> &Outcome {
        self.outcome.as_ref().unwrap()
    }
    pub fn run(&self) -> Run {
        Run::open(&self.ok().folder).unwrap()
    }
    pub fn log(&self, host: &str) -> String {
        fs::read_to_string(self.ok().folder.join(format!("{host}.log"))).unwrap()
    }
    pub fn why(&self) -> String {
        self.ok().failures.iter().map(|f| f.why.as_str()).collect::<Vec<_>>().join("; ")
    }
}

pub fn experiment_until(
    text: &str,
    folder: &Path,
    interrupted: &dyn Fn(&Told) -> bool,
) -> (Result<Outcome, ExperimentError>, Told) {
    let text = format!("name = \"test\"\n{text}");
    let plan: Plan = file::parse(&text, "test.toml", folder).unwrap_or_else(|e| panic!("{e}\n{text}"));
    run_until(&plan, folder, interrupted)
}

pub fn run_until(
    plan: &Plan,
    folder: &Path,
    interrupted: &dyn Fn(&Told) -> bool,
) -> (Result<Outcome, ExperimentError>, Told) {
    resume_until(plan, folder, None, interrupted)
}

/// The same, gone on with from a run folder that broke off.
pub fn resume_until(
    plan: &Plan,
    folder: &Path,
    resume: Option<PathBuf>,
    interrupted: &dyn Fn(&Told) -> bool,
) -> (Result<Outcome, ExperimentError>, Told) {
    let own = std::env::current_exe().unwrap();
    let mut launcher = LocalLauncher::new(agent_command(), Programs::of_binary(&own));
    let options = Options {
        out: folder.join("runs"),
        command: vec!["test".into()],
        agent: agent_command(),
        control: vec![],
        resume,
    };
    // Told from inside the run, asked from inside the run.
    struct Shared<'a>(&'a Mutex<Told>);
    impl Watch for Shared<'_> {
        fn line(&mut self, host: &str, text: &str) {
            self.0.lock().unwrap().line(host, text);
        }
        fn note(&mut self, text: &str) {
            self.0.lock().unwrap().note(text);
        }
        fn progress(&mut self, progress: &Progress) {
            self.0.lock().unwrap().progress(progress);
        }
    }
    let told = Mutex::new(Told::default());
    let outcome =
        run(plan, &mut launcher, &options, &mut Shared(&told), &|| interrupted(&told.lock().unwrap()));
    (outcome, told.into_inner().unwrap())
}

/// `HOSTS` and `METHOD` in the text become two hosts and one short run, which a busy machine may take long for.
pub fn filled(text: &str) -> String {
    let method = "[method]\nruns = 1\nseconds = 0.1\nwarmup_s = 0\ntimeout_s = 300\nready_timeout_s = 300\n";
    text.replace("HOSTS\n", HOSTS).replace("METHOD\n", method)
}

pub fn experiment(text: &str) -> Done {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, told) = experiment_until(&filled(text), folder.path(), &|_| false);
    Done { outcome, told, _folder: folder }
}
