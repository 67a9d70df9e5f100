//! An allocation, held by a command whose input we hold.

use super::{Node, refused};
use crate::launcher::LaunchError;
use crate::launcher::command::{SLICE, Waited, end, last_words, wait};
use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The last line of what the holding command prints.
const END: &str = "bw1 end";
/// How long `salloc` may take to give back what it holds.
const END_WAIT: Duration = Duration::from_secs(5);
/// What is kept of what `salloc` says.
const SAID_BYTES: usize = 16 * 1024;

/// What `salloc` is to run: print what was given, then hold it until the input ends.
pub(super) fn holder() -> [String; 3] {
    ["sh".into(), "-c".into(), format!("env | grep ^SLURM_; echo {END}; exec cat >/dev/null")]
}

/// Nodes that are ours for now.
#[derive(Debug)]
pub(super) struct Allocation {
    job: u64,
    nodes: Vec<Node>,
    /// `salloc`; `None` of an allocation that was there before.
    holder: Option<Holder>,
}

#[derive(Debug)]
struct Holder {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Holder {
    fn start(command: &mut Command) -> Result<(Holder, Receiver<String>), LaunchError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|e| super::not_run("salloc", super::NotRun::Start(e)))?;
        let said = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            thread::spawn(move || listen(stderr, &said));
        }
        let (to, given) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(stdout.take(1 << 20)).lines().map_while(Result::ok);
                let lines: Vec<String> = lines.take_while(|line| line != END).collect();
                let _ = to.send(lines.join("\n"));
            });
        }
        Ok((Holder { child, said }, given))
    }

    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its input ends: it gives back what it holds, and ends. A pending one is asked by a signal.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        if let Waited::Ended(_) = wait(&mut self.child, END_WAIT, &|| false) {
            return;
        }
        // It has not been waited for, so its number is still its own.
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
        if let Waited::Ended(_) = wait(&mut self.child, END_WAIT, &|| false) {
            return;
        }
        end(&mut self.child);
    }
}

fn listen(mut stderr: impl Read, said: &Mutex<String>) {
    let mut piece = [0; 1024];
    while let Ok(n @ 1..) = stderr.read(&mut piece) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < SAID_BYTES {
            said.push_str(&String::from_utf8_lossy(&piece[..n]));
        }
    }
}

/// The number in `salloc: Pending job allocation 7`.
fn pending_job(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("job allocation ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

impl Allocation {
    /// Asks for one, and waits until it is there. `give_up` is told the number of one that still waits in the queue; it cancels it
    /// and says why it waited.
    pub(super) fn make(
        mut command: Command,
        queue_wait: Duration,
        interrupted: &dyn Fn() -> bool,
        expand: impl Fn(&str) -> Result<Vec<String>, LaunchError>,
        give_up: impl Fn(u64) -> String,
    ) -> Result<Allocation, LaunchError> {
        let (mut holder, given) = Holder::start(&mut command)?;
        let ended = |holder: &Holder| {
            let said = holder.said();
            Err(refused("salloc", &last_words(&said)))
        };
        for _ in 0..(queue_wait.as_millis() / SLICE.as_millis()).max(1) {
            // What it prints ends before its own end shows.
            if let Ok(text) = given.recv_timeout(SLICE) {
                return match Given::parse(&text) {
                    Some(given) => {
                        let nodes = given.nodes(&expand);
                        let job = given.job;
                        match nodes {
                            Ok(nodes) => Ok(Allocation { job, nodes, holder: Some(holder) }),
                            Err(e) => {
                                give_up(job);
                                holder.end();
                                Err(e)
                            }
                        }
                    }
                    None => {
                        holder.end();
                        thread::sleep(SLICE * 5);
                        ended(&holder)
                    }
                };
            }
            if matches!(holder.child.try_wait(), Ok(Some(_)) | Err(_)) {
                // Its last words may still be on their way.
                thread::sleep(SLICE * 5);
                return ended(&holder);
            }
            if interrupted() {
                pending_job(&holder.said()).map(&give_up);
                holder.end();
                return Err(LaunchError::Interrupted);
            }
        }
        let job = pending_job(&holder.said());
        let reason = job.map_or_else(|| "slurmctld does not answer".to_owned(), give_up);
        holder.end();
        Err(LaunchError::Unfit {
            what: format!("no allocation within {} s", queue_wait.as_secs()),
            why: format!("the job stayed in the queue, and was taken out of it; Slurm's reason: {reason}"),
            hint: Some(queue_hint(&reason).into()),
        })
    }

    /// Uses one that is there: lines of `JOB STATE NODES`, for a heterogeneous job one for each component.
    pub(super) fn join(
        job: u64,
        listed: &str,
        expand: impl Fn(&str) -> Result<Vec<String>, LaunchError>,
    ) -> Result<Allocation, LaunchError> {
        let mut nodes = Vec::new();
        for line in listed.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [id, "RUNNING", list] = words[..] else {
                return Err(LaunchError::Unsuited(format!("job {job} is not running: {line}")));
            };
            let component = id.split_once('+').and_then(|(_, at)| at.parse().ok());
            nodes.extend(expand(list)?.into_iter().map(|name| Node { name, component }));
        }
        if nodes.is_empty() {
            return Err(LaunchError::Unsuited(format!("there is no job {job}")));
        }
        Ok(Allocation { job, nodes, holder: None })
    }

    pub(super) fn job(&self) -> u64 {
        self.job
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether it is for us to give it back.
    pub(super) fn is_ours(&self) -> bool {
        self.holder.is_some()
    }

    /// What was said when it went away under us, if it did.
    pub(super) fn lost(&mut self) -> Option<String> {
        let holder = self.holder.as_mut()?;
        match holder.child.try_wait() {
            Ok(None) => None,
            _ => Some(last_words(&holder.said())),
        }
    }

    /// Ends the holding command.
    pub(super) fn end(&mut self) {
        if let Some(holder) = &mut self.holder {
            holder.end();
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.end();
    }
}

fn queue_hint(reason: &str) -> &'static str {
    match reason {
        "Resources" | "Priority" => {
            "others have the nodes: wait longer, ask for fewer hosts, or for another partition"
        }
        "PartitionNodeLimit" => {
            "more hosts than the partition gives to one job: ask for fewer, or for another partition"
        }
        "PartitionTimeLimit" => "longer than the partition allows: shorter runs, or a `--time` of your own",
        _ if reason.contains("DOWN") || reason.starts_with("ReqNodeNotAvail") => {
            "nodes that were asked for are down, drained or reserved: `sinfo -R` says why"
        }
        _ if reason.contains("Limit") => "a limit of your account: `sacctmgr show assoc user=$USER`",
        _ => "`sinfo` and `squeue` show what the cluster is doing",
    }
}

/// What the holding command printed.
struct Given {
    job: u64,
    variables: BTreeMap<String, String>,
}

impl Given {
    fn parse(text: &str) -> Option<Given> {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let variables: BTreeMap<String, String> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let job = variables.get("SLURM_JOB_ID")?.parse().ok()?;
        Some(Given { job, variables })
    }

    fn nodes(
        &self,
        expand: &impl Fn(&str) -> Result<Vec<String>, LaunchError>,
    ) -> Result<Vec<Node>, LaunchError> {
        let list = |key: &str| {
            let list = self.variables.get(key).filter(|list| !list.is_empty());
            let missing = || LaunchError::Io {
                doing: format!("read {key} of job {}", self.job),
                source: io::ErrorKind::NotFound.into(),
            };
            list.ok_or_else(missing).and_then(|list| expand(list))
        };
        let components: Option<usize> =
            self.variables.get("SLURM_HET_SIZE").and_then(|size| size.parse().ok());
        let Some(components) = components else {
            let names = list("SLURM_JOB_NODELIST")?;
            return Ok(names.into_iter().map(|name| Node { name, component: None }).collect());
        };
        let mut nodes = Vec::new();
        for at in 0..components {
            let names = list(&format!("SLURM_JOB_NODELIST_HET_GROUP_{at}"))?;
            nodes.extend(names.into_iter().map(|name| Node { name, component: Some(at) }));
        }
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(list: &str) -> Result<Vec<String>, LaunchError> {
        Ok(list.split(',').map(str::to_owned).collect())
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn make(script: &str, wait_ms: u64) -> Result<Allocation, LaunchError> {
        Allocation::make(sh(script), Duration::from_millis(wait_ms), &|| false, split, |job| {
            format!("Resources of {job}")
        })
    }

    const LONG_MS: u64 = 60_000;

    #[test]
    fn nodes_of_plain_and_heterogeneous_jobs_are_read() {
        let plain = format!("echo SLURM_JOB_ID=7; echo SLURM_JOB_NODELIST=a,b; echo {END}; exec cat");
        let mut allocation = make(&plain, LONG_MS).unwrap();
        let names: Vec<&str> = allocation.nodes().iter().map(|node| node.name.as_str()).collect();
        assert_eq!((allocation.job(), names), (7, vec!["a", "b"]));
        assert_eq!(allocation.lost(), None);
        allocation.end();
        assert!(allocation.lost().is_some());

        let het = format!(
            "echo SLURM_JOB_ID=8; echo SLURM_HET_SIZE=2; echo SLURM_JOB_NODELIST_HET_GROUP_0=a; \
             echo SLURM_JOB_NODELIST_HET_GROUP_1=b,c; echo {END}; exec cat"
        );
        let components: Vec<_> =
            make(&het, LONG_MS).unwrap().nodes().iter().map(|node| node.component).collect();
        assert_eq!(components, [Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn who_is_refused_hears_why_and_who_waits_too_long_leaves_the_queue() {
        // Last words are waited for a moment only, which a busy machine may need for something else.
        let hears_why = (0..3).any(|_| {
            let e = make("echo salloc: error: Invalid node name specified >&2; exit 1", LONG_MS).unwrap_err();
            assert!(e.to_string().contains("salloc"), "{e}");
            e.to_string().contains("Invalid node name")
        });
        assert!(hears_why);
        // The number has to be there before the time is up: on a busy machine there is more of it.
        let leaves = [300, 3_000, 30_000].into_iter().any(|wait_ms| {
            let began = barewire_measure::stamp();
            let e = make("echo salloc: Pending job allocation 12 >&2; exec sleep 1000", wait_ms).unwrap_err();
            let waited = barewire_measure::stamp().since(began);
            assert!(waited >= barewire_base::Duration::from_millis(wait_ms), "{waited:?}: {e}");
            assert!(e.to_string().contains("the job stayed in the queue"), "{e}");
            e.to_string().contains("Resources of 12")
        });
        assert!(leaves);
        // Granted, and no number with it.
        assert!(make(&format!("echo {END}; exec cat"), LONG_MS).is_err());
    }

    #[test]
    fn an_allocation_that_is_there_is_joined() {
        let joined = Allocation::join(4, "4+0 RUNNING a,b\n4+1 RUNNING c\n", split).unwrap();
        assert_eq!(joined.nodes().len(), 3);
        assert_eq!(joined.nodes()[2].component, Some(1));
        assert!(!joined.is_ours());
        assert!(Allocation::join(4, "4 PENDING \n", split).is_err());
        assert!(Allocation::join(4, "", split).is_err());
    }

    #[test]
    fn pending_numbers_are_found() {
        assert_eq!(pending_job("salloc: Pending job allocation 42\nsalloc: job 42 queued"), Some(42));
        assert_eq!(pending_job("salloc: error: x"), None);
    }
}
