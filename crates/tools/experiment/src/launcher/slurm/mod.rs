//! A cluster's nodes: one exclusive allocation by Slurm, and the agent on each of its nodes as a job step.
//!
//! ```text
//! obtain   salloc --exclusive … sh -c 'print what was given; wait for the end of the input'     held as long as we live
//!          srun … sh -c '…'                 on each node: has it the binary? if not: the same again, the binary at standard input
//! start    srun --overlap --nodelist=NODE FILE agent
//! release  scancel JOB
//! ```
//! Roles that ask for different things (another partition, a constraint) become components of one heterogeneous job: all of it comes
//! at once or not at all. When we are killed the input of the holding command ends, and with it the allocation.

mod allocation;
mod request;

use super::binary::{self, AgentBinary, Answer};
use super::command::{NotRun, Ran, each, last_words, poll, run};
use super::{AgentPipes, HostFacts, LaunchError, Launcher, Needs};
use crate::agent::AS_STEP;
use allocation::Allocation;
use barewire_measure::stamp;
use barewire_report::run::HardwareClass;
use request::{Request, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How many nodes are spoken to at once while the binary is brought to them.
const AT_ONCE: usize = 16;
/// How long a question to the controller may take.
const ASK_WAIT: Duration = Duration::from_secs(10);
/// How long a short command on a node may take; starting a step is part of it.
const LOOK_WAIT: Duration = Duration::from_secs(30);
/// How long the binary may take to a node.
const STORE_WAIT: Duration = Duration::from_secs(300);
/// How long a cancelled job is watched until its nodes have ended it.
const CANCEL_WAIT: Duration = Duration::from_secs(8);
/// After so long a job that is completing everywhere is given back: a node of it does not answer, and Slurm ends the rest there, and
/// gives none of it to others before.
const COMPLETING_WAIT: Duration = Duration::from_secs(2);
/// Between two questions to the controller, which has others to serve.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// What of our environment goes along: the rest is this machine's affair, or a secret.
const EXPORTED: &str = "PATH,HOME,USER,LOGNAME,LANG";

/// How Slurm is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmOptions {
    /// The folder of its commands. Default: where `PATH` says.
    pub programs: Option<PathBuf>,
    /// Variables for its commands, such as `SLURM_CONF`.
    pub environment: Vec<(OsString, OsString)>,
    /// What every host needs, as arguments of `salloc`: `--partition=…`, `--account=…`.
    pub ask: Vec<String>,
    /// What hosts of a role need beside it: `--constraint=…`, `--gres=…`. Roles that differ make a heterogeneous job.
    pub ask_of_role: BTreeMap<String, Vec<String>>,
    /// How long the allocation may stay in the queue. Default 300 s.
    pub queue_wait: Duration,
    /// An allocation that is there already, as within `sbatch`; it is used and not given back.
    pub job: Option<u64>,
    /// Where nodes keep the binary; `~/` is the home there. A folder that nobody else may write. Default
    /// `~/.cache/barewire`.
    pub cache: Option<String>,
}

impl Default for SlurmOptions {
    fn default() -> SlurmOptions {
        SlurmOptions {
            programs: None,
            environment: Vec::new(),
            ask: Vec::new(),
            ask_of_role: BTreeMap::new(),
            queue_wait: Duration::from_secs(300),
            job: None,
            cache: None,
        }
    }
}

/// A node of the allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    name: String,
    /// Its component of a heterogeneous job.
    component: Option<usize>,
}

/// A host that was obtained.
#[derive(Clone, Debug)]
struct Obtained {
    node: Node,
    file: String,
}

/// Agents on a cluster's nodes.
#[derive(Debug)]
pub struct SlurmLauncher {
    options: SlurmOptions,
    binary: AgentBinary,
    allocation: Option<Allocation>,
    hosts: BTreeMap<String, Obtained>,
    hardware: HardwareClass,
}

impl SlurmLauncher {
    /// A launcher that brings `binary` to nodes which do not have it.
    pub fn new(binary: AgentBinary, options: SlurmOptions) -> SlurmLauncher {
        SlurmLauncher {
            options,
            binary,
            allocation: None,
            hosts: BTreeMap::new(),
            hardware: HardwareClass::BareMetal,
        }
    }

    /// The allocation's number, while there is one.
    pub fn job(&self) -> Option<u64> {
        self.allocation.as_ref().map(Allocation::job)
    }

    /// One of Slurm's commands. What an outer job put into the environment would change what it means.
    fn command(&self, program: &str) -> Command {
        let path =
            self.options.programs.as_ref().map_or_else(|| program.into(), |folder| folder.join(program));
        let mut command = Command::new(path);
        for (key, _) in std::env::vars_os() {
            let name = key.to_string_lossy();
            if name.starts_with("SLURM_")
                && !["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"].contains(&name.as_ref())
            {
                command.env_remove(key);
            }
        }
        command.envs(self.options.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    /// A question to the controller: what it prints.
    fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, LaunchError> {
        match run(self.command(program).args(arguments), None, ASK_WAIT, &AtomicBool::new(false)) {
            Ok(ran) if ran.status.success() => Ok(ran.stdout),
            Ok(ran) => Err(refused(program, &last_words(&ran.stderr))),
            Err(e) => Err(not_run(program, e)),
        }
    }

    /// A step on one node, for as long as the job lasts.
    fn step(&self, job: u64, node: &Node) -> Command {
        let mut command = self.command("srun");
        command.arg(format!("--jobid={job}"));
        if let Some(component) = node.component {
            command.arg(format!("--het-group={component}"));
        }
        command.arg(format!("--nodelist={}", node.name)).arg(format!("--export={EXPORTED},{AS_STEP}=1"));
        command.args(["--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--cpu-bind=none"]);
        // Our folder may not be there; the step's own end ends it, not what it left behind.
        command.args(["--chdir=/", "--quiet", "--kill-on-bad-exit=1", "--job-name=barewire-agent"]);
        command
    }

    fn script(
        &self,
        job: u64,
        node: &Node,
        script: &str,
        input: Option<Arc<Vec<u8>>>,
        cancel: &AtomicBool,
    ) -> Result<Answer, LaunchError> {
        let longest = if input.is_some() { STORE_WAIT } else { LOOK_WAIT };
        let mut command = self.step(job, node);
        command.args(["sh", "-c", script]);
        match run(&mut command, input, longest, cancel) {
            Ok(ran) => Answer::parse(&ran.stdout).ok_or_else(|| self.step_failed(job, node, &ran)),
            Err(NotRun::TimedOut { stderr }) => {
                let why = format!("no step ran within {} s: {}", longest.as_secs(), last_words(&stderr));
                Err(unfit(node, why, "look at the node: `scontrol show node`, slurmd's log there".into()))
            }
            Err(e) => Err(not_run("srun", e)),
        }
    }

    fn step_failed(&self, job: u64, node: &Node, ran: &Ran) -> LaunchError {
        let state = self.ask("squeue", &["-h", "-o", "%T", "-j", &job.to_string()]).unwrap_or_default();
        let said = last_words(&format!("{}\n{}", ran.stdout, ran.stderr));
        if !state.lines().any(|state| state == "RUNNING") {
            let why = format!("job {job} is no longer running: {said}");
            return unfit(node, why, self.why_ended(job));
        }
        let (why, hint) = match ran.status.code() {
            Some(71..=76) => (
                "the binary cannot be stored there",
                "is there room in the cache folder, and may you write there?",
            ),
            _ => ("its first step failed", "look at the node: `scontrol show node`, slurmd's log there"),
        };
        unfit(node, format!("{why}: {said}"), hint.into())
    }

    /// What the controller still knows of a job's end.
    fn why_ended(&self, job: u64) -> String {
        let shown = self.ask("scontrol", &["show", "job", "-o", &job.to_string()]).unwrap_or_default();
        let of = |key: &str| {
            shown.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap_or("unknown").to_owned()
        };
        match (of("JobState="), of("Reason=")) {
            (state, _) if state == "NODE_FAIL" => "a node went down: `sinfo -R` says which".into(),
            (state, _) if state == "TIMEOUT" => {
                "it reached its time limit: ask for more with `--time`".into()
            }
            (state, reason) => format!("its state is {state}, the reason {reason}"),
        }
    }

    fn prepare(&self, job: u64, node: &Node, cancel: &AtomicBool) -> Result<(Obtained, Answer), LaunchError> {
        let cache = self.options.cache.as_deref();
        let mut answer = self.script(job, node, &binary::look_script(&self.binary, cache), None, cancel)?;
        // No login shell runs here.
        answer.noise = None;
        if let Some((why, hint)) = answer.unsuited(&self.binary) {
            return Err(unfit(node, why, hint));
        }
        if answer.runs.is_none() && answer.fails.is_none() {
            let (packed, sent) = (answer.unpacks, self.binary.sent(answer.unpacks));
            let script = binary::store_script(&self.binary, cache, packed);
            let stored = self.script(job, node, &script, Some(sent), cancel)?;
            (answer.bad_sum, answer.no_sum) = (stored.bad_sum, stored.no_sum);
            (answer.runs, answer.fails, answer.shared) = (stored.runs, stored.fails, stored.shared);
        }
        let file = answer.place().map_err(|(why, hint)| unfit(node, why, hint))?;
        Ok((Obtained { node: node.clone(), file }, answer))
    }

    /// Where other nodes reach this one.
    fn address(&self, node: &str) -> String {
        let shown = self.ask("scontrol", &["show", "node", "-o", node]).unwrap_or_default();
        let known = shown.split_whitespace().find_map(|word| word.strip_prefix("NodeAddr=")).unwrap_or(node);
        if known.parse::<IpAddr>().is_ok() {
            return known.to_owned();
        }
        // A name that only nodes can resolve stays one.
        let found = (known, 0).to_socket_addrs().ok().and_then(|mut all| all.next());
        found.map_or_else(|| known.to_owned(), |found| found.ip().to_string())
    }

    fn prepare_all(
        &mut self,
        slots: Vec<Slot>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<HostFacts>, LaunchError> {
        let Some(allocation) = &self.allocation else { return Ok(Vec::new()) };
        let job = allocation.job();
        let placed = request::assign(slots, allocation.nodes())?;
        // The first one alone: where homes are shared, the others then find what it stored.
        let (first, others) = placed.split_at(placed.len().min(1));
        let work = |placed: &(Slot, Node), cancel: &AtomicBool| {
            self.prepare(job, &placed.1, cancel).map(|ready| (ready, self.address(&placed.1.name)))
        };
        let mut ready = Vec::new();
        for hosts in [first, others] {
            for result in each(hosts, AT_ONCE, interrupted, work) {
                ready.push(result?);
            }
        }
        self.hardware = binary::hardware_of(ready.iter().map(|((_, answer), _)| answer));
        let facts = placed.into_iter().zip(ready).map(|((slot, _), ((obtained, _), found))| {
            let name = slot.name.unwrap_or_else(|| obtained.node.name.clone());
            self.hosts.insert(name.clone(), obtained);
            let address = if slot.address.is_empty() { found } else { slot.address };
            HostFacts { name, address, settings: slot.settings }
        });
        Ok(facts.collect())
    }
}

/// Slurm's command could not be run.
fn not_run(program: &str, e: NotRun) -> LaunchError {
    match e {
        NotRun::Start(e) if e.kind() == io::ErrorKind::NotFound => LaunchError::Unfit {
            what: format!("Slurm's command `{program}`"),
            why: e.to_string(),
            hint: Some(
                "run this where the cluster's users log in, or name the folder of its commands".into(),
            ),
        },
        NotRun::Start(source) => LaunchError::Io { doing: format!("start {program}"), source },
        NotRun::TimedOut { stderr } => refused(program, &format!("no answer: {}", last_words(&stderr))),
        NotRun::Cancelled => LaunchError::Interrupted,
    }
}

/// The cluster said no.
fn refused(program: &str, said: &str) -> LaunchError {
    let has = |text: &str| said.contains(text);
    let hint = if has("configuration source") || has("slurm.conf") {
        "Slurm has no configuration here: set SLURM_CONF, or run this where the cluster's users log in"
    } else if has("ontact slurm controller")
        || has("Unable to contact")
        || has("no answer")
        || has("Connection refused")
    {
        "is slurmctld running? `scontrol ping` asks"
    } else if has("node name") {
        "`sinfo -N` lists the nodes"
    } else if has("artition") {
        "`sinfo` lists the partitions: `--partition=NAME`"
    } else if has("ccount") || has("qos") || has("QOS") {
        "`sacctmgr show assoc user=$USER` lists what you may ask for: `--account=NAME`, `--qos=NAME`"
    } else if has("node configuration") || has("More processors") {
        "fewer hosts, or other nodes: `sinfo -N -l` shows what there is"
    } else if has("uthentication") || has("munge") || has("Munge") {
        "is munged running here, with the cluster's key?"
    } else {
        "try the same by hand: `salloc --exclusive --nodes=N true`"
    };
    LaunchError::Unfit { what: format!("slurm ({program})"), why: said.to_owned(), hint: Some(hint.into()) }
}

fn unfit(node: &Node, why: String, hint: String) -> LaunchError {
    LaunchError::Unfit { what: format!("node {}", node.name), why, hint: Some(hint) }
}

impl Launcher for SlurmLauncher {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn obtaining(&self) -> &'static str {
        "waiting for nodes, and copying this program to them"
    }

    fn hardware(&self) -> HardwareClass {
        self.hardware
    }

    fn obtain(
        &mut self,
        needs: &Needs,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<HostFacts>, LaunchError> {
        if let Some(cache) = &self.options.cache {
            binary::check_cache(cache).map_err(LaunchError::Unsuited)?;
        }
        let listed = self.ask("sinfo", &["-h", "-N", "-o", "%N"])?;
        let cluster: BTreeSet<String> = listed.split_whitespace().map(str::to_owned).collect();
        let mut slots = request::slots(needs, &cluster)?;
        let allocation = match self.options.job {
            Some(job) => Allocation::join(
                job,
                &self.ask("squeue", &["-h", "-o", "%i %T %N", "-j", &job.to_string()])?,
                |list| self.expand(list),
            )?,
            None => {
                let request = Request::new(needs, &mut slots, &self.options.ask, &self.options.ask_of_role)?;
                let mut command = self.command("salloc");
                command.args(request.arguments()).args(allocation::holder());
                Allocation::make(
                    command,
                    self.options.queue_wait,
                    interrupted,
                    |list| self.expand(list),
                    |job| {
                        let reason = self.ask("squeue", &["-h", "-o", "%r", "-j", &job.to_string()]);
                        // What follows says better why.
                        let _ = self.ask("scancel", &["--quiet", &job.to_string()]);
                        reason.unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
                    },
                )?
            }
        };
        self.allocation = Some(allocation);
        self.prepare_all(slots, interrupted)
    }

    fn start(&mut self, host: &str) -> Result<AgentPipes, LaunchError> {
        let lost = |why: &str| LaunchError::Host { host: host.into(), why: why.into() };
        let obtained = self.hosts.get(host).ok_or_else(|| lost("it was not obtained"))?.clone();
        let allocation = self.allocation.as_mut().ok_or_else(|| lost("there is no allocation"))?;
        let job = allocation.job();
        if let Some(said) = allocation.lost() {
            return Err(unfit(&obtained.node, format!("job {job} is gone: {said}"), self.why_ended(job)));
        }
        let mut command = self.step(job, &obtained.node);
        command.arg(&obtained.file).args(self.binary.arguments());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C at our terminal is for the runner, which ends agents in order.
        command.process_group(0);
        let child = command.spawn().map_err(|e| not_run("srun", NotRun::Start(e)))?;
        Ok(AgentPipes { child })
    }

    fn release(&mut self) -> Result<(), LaunchError> {
        self.hosts.clear();
        let Some(mut allocation) = self.allocation.take() else { return Ok(()) };
        if !allocation.is_ours() {
            return Ok(());
        }
        let job = allocation.job().to_string();
        let cancelled = self.ask("scancel", &["--quiet", &job]);
        allocation.end();
        // A job that the controller has forgotten is an error to squeue.
        let states = || match self.ask("squeue", &["-h", "-o", "%T", "-j", &job]) {
            Err(e) if e.to_string().contains("Invalid job id") => Ok(String::new()),
            other => other,
        };
        let began = stamp();
        let completing = |states: &str| states.lines().all(|state| state == "COMPLETING");
        let gone = poll(CANCEL_WAIT, ASK_EVERY, || match states() {
            Ok(states) if states.trim().is_empty() => Some(Ok(())),
            Ok(states) if completing(&states) && stamp().since(began) > COMPLETING_WAIT.into() => {
                Some(Ok(()))
            }
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        });
        let why = match gone {
            Some(Ok(())) => return Ok(()),
            Some(Err(e)) => e.to_string(),
            None => match (cancelled, states()) {
                (Err(e), _) | (_, Err(e)) => e.to_string(),
                (_, Ok(states)) => format!("it was cancelled, and its state is {}", last_words(&states)),
            },
        };
        Err(LaunchError::Unfit {
            what: format!("job {job} may still be there"),
            why,
            hint: Some(format!("`scancel {job}`, then `squeue -j {job}`")),
        })
    }
}

impl SlurmLauncher {
    /// `n[1-3]` in single names, as only Slurm itself can.
    fn expand(&self, list: &str) -> Result<Vec<String>, LaunchError> {
        let names = self.ask("scontrol", &["show", "hostnames", list])?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }
}

impl Drop for SlurmLauncher {
    fn drop(&mut self) {
        // Who called it has heard; who did not cannot be told any more.
        let _ = self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn without_slurm_the_hint_says_where_to_go() {
        let binary = AgentBinary::read(Path::new("/bin/sh"), &[]).unwrap();
        let options = SlurmOptions { programs: Some("/no/such".into()), ..SlurmOptions::default() };
        let needs = Needs { name: "x".into(), hosts: vec![], roles: vec![], topology: None, longest_s: None };
        match SlurmLauncher::new(binary, options).obtain(&needs, &|| false).unwrap_err() {
            LaunchError::Unfit { what, hint: Some(hint), .. } => {
                assert!(what.contains("sinfo") && hint.contains("log in"), "{what} / {hint}");
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_the_cluster_says_gets_a_hint() {
        for (said, hint) in [
            ("salloc: error: Job submit/allocate failed: Invalid node name specified", "sinfo -N"),
            ("salloc: error: invalid partition specified: x", "--partition"),
            ("slurm_load_partitions: Unable to contact slurm controller (connect failure)", "scontrol ping"),
            ("salloc: fatal: Could not establish a configuration source", "SLURM_CONF"),
            ("Invalid account or account/partition combination specified", "partitions"),
            ("Requested node configuration is not available", "fewer hosts"),
            ("If munged is up, restart with --num-threads=10", "munged"),
            ("?", "by hand"),
        ] {
            let LaunchError::Unfit { hint: Some(got), .. } = refused("salloc", said) else {
                panic!("{said}")
            };
            assert!(got.contains(hint), "{said}: {got}");
        }
    }
}
