//! The runner: hosts obtained, agents started, cells run in turn, everything ended and given back, a run folder left.

mod assign;
mod cell;
mod control;
mod fleet;
mod folder;
mod journal;
mod merge;
mod overlap;
mod rows;

pub use folder::{Failure, Outcome};
pub use journal::newest_unfinished;

use crate::agent::protocol::{CHUNK_BYTES, Event, Request, SCHEMA};
use crate::file::point_text;
use crate::launcher::{AgentPipes, HERE, HostFacts, LaunchError, Launcher, Needs};
use crate::plan::{Plan, Point, RoleHosts, SyncPlan};
use crate::redact::Redactor;
use assign::assign;
use barewire_base::Duration;
use barewire_measure::stamp;
use barewire_report::run::RunError;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cell::{RunOutcome, Task};
use control::Controls;
use fleet::{Fleet, Lost};
use folder::Folder;
use journal::Earlier;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How long an agent may take until it answers: a login may be slow.
const HELLO_WAIT: Duration = Duration::from_secs(30);
/// How long a file may take to arrive.
const PUT_WAIT: Duration = Duration::from_secs(600);
/// Who waits for longer than two seconds is told what for, and then as often.
const TOLD_EVERY: Duration = Duration::from_secs(2);
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Exchanges of clock readings at the start.
const CLOCK_EXCHANGES: u32 = 8;
/// What is kept of one host's output for its log, in bytes, and of all hosts' together.
const LOG_BYTES_MAX: usize = 16 << 20;
const LOGS_BYTES_MAX: usize = 512 << 20;
/// Pieces of files that wait to be sent to one host.
const PIECES_WAITING: usize = 64;
/// How long is waited for a word of a host while there are pieces to send.
const SENDING_LOOK: std::time::Duration = std::time::Duration::from_millis(2);

/// How an experiment is run, beside what its plan says.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where run folders are.
    pub out: PathBuf,
    /// The command line, for the folder. What looks secret is hidden.
    pub command: Vec<String>,
    /// The command line of the agent on this machine, for roles that run `here`.
    pub agent: Vec<OsString>,
    /// What a host that measures is asked for its control rows with, as words of a role's command. Empty: nothing.
    pub control: Vec<String>,
    /// The run folder of the same experiment that broke off: what it has is not measured again.
    pub resume: Option<PathBuf>,
}

/// Told what happens.
pub trait Watch {
    /// A host has written a line.
    fn line(&mut self, host: &str, text: &str);
    /// Something that a person wants to know.
    fn note(&mut self, text: &str);
    /// A run of a cell begins.
    fn progress(&mut self, progress: &Progress);
}

/// How far it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Runs that are done.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
    /// The run that begins, from 1.
    pub run: u32,
    /// The point of the sweep, in words.
    pub cell: String,
    /// How long it will take still, in seconds.
    pub left_s: f64,
}

/// Why an experiment was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// Hosts cannot be had.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The plan does not fit the hosts.
    #[error("{0}")]
    Plan(String),
    /// The folder cannot be written.
    #[error(transparent)]
    Folder(#[from] RunError),
    /// An agent was lost before anything was measured.
    #[error("host {host}: {why}")]
    Lost {
        /// Which.
        host: String,
        /// What happened.
        why: String,
    },
    /// Somebody pressed Ctrl-C before anything was measured.
    #[error("interrupted")]
    Interrupted,
}

/// Why a run of a cell, and all that come after it, cannot go on; a host's loss only while nothing was measured.
#[derive(Clone, Debug)]
enum Stop {
    Interrupted,
    /// What lies on this machine, and on no host.
    Here(String),
    Lost {
        host: usize,
        why: String,
    },
}

/// Runs `plan` on hosts of `launcher`. Whatever happens, everything that was started has ended and every host is given back when
/// this returns. `interrupted` is asked all the time.
///
/// # Errors
/// [`ExperimentError`] when nothing was measured; what fails later stands in the [`Outcome`].
pub fn run(
    plan: &Plan,
    launcher: &mut dyn Launcher,
    options: &Options,
    watch: &mut dyn Watch,
    interrupted: &dyn Fn() -> bool,
) -> Result<Outcome, ExperimentError> {
    let done = on_hosts(plan, launcher, options, watch, interrupted);
    // The agents have ended by now: their fleet is gone.
    let released = launcher.release();
    match (done, released) {
        (Ok(mut outcome), Err(e)) => {
            let left = outcome.left_behind.into_iter().chain([e.to_string()]);
            outcome.left_behind = Some(left.collect::<Vec<_>>().join("; "));
            Ok(outcome)
        }
        (Ok(outcome), Ok(())) => Ok(outcome),
        (Err(e), Err(left)) => {
            watch.note(&format!("not everything could be released: {left}"));
            Err(e)
        }
        (Err(e), Ok(())) => Err(e),
    }
}

/// Whether a role runs on the host of the controller.
fn needs_here(plan: &Plan) -> bool {
    plan.roles.iter().any(|role| role.hosts == RoleHosts::Here)
}

/// Obtains the hosts that the plan uses, and no others.
fn obtained(
    plan: &Plan,
    launcher: &mut dyn Launcher,
    watch: &mut dyn Watch,
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<HostFacts>, ExperimentError> {
    let mut hosts = {
        let (what, pulse) = (format!("{}: {}", launcher.name(), launcher.obtaining()), Pulse::new());
        let watch = RefCell::new(watch);
        // It is asked all the time whether to go on: so it can say now and then what it waits for.
        launcher.obtain(&Needs::of(plan), &|| {
            if let Some(seconds) = pulse.due() {
                watch.borrow_mut().note(&format!("{what}, {seconds:.0} s"));
            }
            interrupted()
        })?
    };
    if needs_here(plan) {
        let address = "127.0.0.1".to_owned();
        hosts.push(HostFacts { name: HERE.to_owned(), address, ..HostFacts::default() });
    }
    with_settings(plan, &mut hosts);
    // Asked of every point before anything starts.
    let mut used = vec![false; hosts.len()];
    for point in &plan.points {
        let assigned = assign(plan, &hosts, point).map_err(ExperimentError::Plan)?;
        assign::can_be_filled(plan, &hosts, &assigned, point).map_err(ExperimentError::Plan)?;
        assigned.into_iter().flatten().for_each(|at| used[at] = true);
    }
    let mut keep = used.iter();
    hosts.retain(|_| *keep.next().unwrap_or(&false));
    Ok(hosts)
}

/// Starts an agent on each host.
fn with_agents(
    plan: &Plan,
    hosts: &[HostFacts],
    launcher: &mut dyn Launcher,
    options: &Options,
    interrupted: &dyn Fn() -> bool,
) -> Result<Fleet, ExperimentError> {
    let mut fleet = Fleet::new(plan.method.silence.into());
    for host in hosts {
        if interrupted() {
            return Err(ExperimentError::Interrupted);
        }
        let pipes = match host.name == HERE && needs_here(plan) {
            true => start_here(&options.agent)?,
            false => launcher.start(&host.name)?,
        };
        fleet.add(&host.name, pipes);
    }
    Ok(fleet)
}

fn on_hosts(
    plan: &Plan,
    launcher: &mut dyn Launcher,
    options: &Options,
    watch: &mut dyn Watch,
    interrupted: &dyn Fn() -> bool,
) -> Result<Outcome, ExperimentError> {
    for sync in &plan.sync {
        // Before anything starts: what is read again when it is sent was there at least.
        File::open(&sync.source)
            .map_err(|e| ExperimentError::Plan(format!("sync: {}: {e}", sync.source.display())))?;
    }
    // Before hosts are obtained, too.
    let earlier = options.resume.as_deref().map(|folder| Earlier::read(folder, plan, launcher.name()));
    let earlier = earlier.transpose().map_err(ExperimentError::Plan)?;
    let hosts = obtained(plan, launcher, watch, interrupted)?;
    let fleet = with_agents(plan, &hosts, launcher, options, interrupted)?;
    let hardware = plan.hardware.unwrap_or(launcher.hardware());
    let controls = Controls::of(plan, &hosts, hardware, &options.control);
    let mut controller = Controller {
        plan,
        hosts: &hosts,
        fleet,
        watch,
        interrupted,
        redactor: Redactor::of_plan(plan),
        logs: hosts.iter().map(|_| Log::default()).collect(),
        tasks: Vec::new(),
        next_id: 1,
        clock_seq: 0,
        unended: Vec::new(),
        measuring: false,
        gone: Vec::new(),
        began: stamp(),
    };
    let begun = controller.greet().and_then(|()| controller.put_files());
    begun.and_then(|()| controller.put_cleanup()).map_err(|stop| controller.failed(stop))?;
    let fingerprint = |agent: &fleet::Agent| agent.hello.as_ref()?.fingerprint.clone();
    for agent in &controller.fleet.agents {
        let elsewhere = |earlier: &Earlier| earlier.is_elsewhere(&agent.name, &fingerprint(agent)?);
        if let Some(why) = earlier.as_ref().and_then(elsewhere) {
            return Err(ExperimentError::Plan(why));
        }
    }
    let done: BTreeSet<(usize, u32)> =
        earlier.iter().flat_map(|earlier| earlier.runs.keys().copied()).collect();
    let mut folder = Folder::create(&controller, launcher.name(), hardware, options, earlier)?;
    controller.measuring = true;
    let floor = controls.as_ref().map(|controls| controller.measure_controls(controls)).transpose();
    let ended = match floor {
        Ok(floor) => {
            floor.map_or(Ok(()), |floor| folder.controls(floor))?;
            controller.run_all(&done, &mut folder)
        }
        Err(stop) => Err(stop),
    };
    let late = controller.fleet.end();
    controller.log_leftover();
    let uncleaned = std::mem::take(&mut controller.fleet.uncleaned);
    controller.unended.extend(uncleaned.into_iter().map(|told| controller.redactor.text(told)));
    let lost: Vec<String> =
        controller.gone.iter().map(|(host, _)| controller.hosts[*host].name.clone()).collect();
    lost.iter().chain(&late).for_each(|host| launcher.lost(host));
    let measured = folder.path().to_owned();
    folder.finish(&mut controller, ended, &late).map_err(|e| {
        // Who reads why there is no folder must hear all the same what hosts were left like.
        let lost = lost.iter().map(|host| format!("host {host} was lost"));
        let late = late.iter().map(|host| format!("the agent of {host} did not end in time"));
        lost.chain(late).chain(controller.unended.clone()).for_each(|told| controller.watch.note(&told));
        controller.watch.note(&format!("the results so far are in {}", measured.display()));
        e.into()
    })
}

/// How far the sending of files has come.
struct Sending {
    pulse: Pulse,
    all: usize,
    /// Files that are still to arrive, those of each host for themselves.
    left: usize,
}

/// A regular file and its permissions.
fn whole(path: &Path) -> std::io::Result<(Vec<u8>, u32)> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    // A pipe would be waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "no regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((bytes, meta.permissions().mode() & 0o777))
}

/// When somebody who waits is to be told again.
struct Pulse {
    began: barewire_base::Instant,
    told: Cell<barewire_base::Instant>,
}

impl Pulse {
    fn new() -> Pulse {
        let began = stamp();
        Pulse { began, told: Cell::new(began) }
    }

    /// How many seconds it has been, when it is time to say so.
    fn due(&self) -> Option<f64> {
        let now = stamp();
        (now.since(self.told.get()) > TOLD_EVERY).then(|| {
            self.told.set(now);
            now.since(self.began).as_secs_f64()
        })
    }
}

/// Settings of the file stand above what the launcher found out.
fn with_settings(plan: &Plan, hosts: &mut [HostFacts]) {
    for host in &mut *hosts {
        host.settings.extend(plan.everywhere.clone());
    }
    for spec in &plan.hosts {
        if let Some(host) = hosts.iter_mut().find(|host| host.name == spec.name) {
            host.settings.extend(spec.settings.clone());
            if !spec.address.is_empty() {
                host.address.clone_from(&spec.address);
            }
        }
    }
}

/// Starts the agent on this machine.
///
/// # Errors
/// [`LaunchError`].
pub(crate) fn start_here(agent: &[OsString]) -> Result<AgentPipes, LaunchError> {
    let mut command = agent_command(agent)?;
    let failed = |source| LaunchError::Io { doing: "starting the agent".to_owned(), source };
    command.spawn().map(|child| AgentPipes { child }).map_err(failed)
}

/// The agent's command, with three pipes, out of reach of our terminal's Ctrl-C: we end it ourselves.
pub(crate) fn agent_command(agent: &[OsString]) -> Result<Command, LaunchError> {
    use std::os::unix::process::CommandExt;
    let Some((program, arguments)) = agent.split_first() else {
        return Err(LaunchError::Unsuited("no command of the agent is known".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    Ok(command)
}

#[derive(Debug, Default)]
struct Log {
    text: String,
    dropped: u64,
}

struct Controller<'a> {
    plan: &'a Plan,
    hosts: &'a [HostFacts],
    fleet: Fleet,
    watch: &'a mut dyn Watch,
    interrupted: &'a dyn Fn() -> bool,
    redactor: Redactor,
    logs: Vec<Log>,
    tasks: Vec<Task>,
    next_id: u32,
    clock_seq: u64,
    /// What of its processes a host could not end.
    unended: Vec<String>,
    /// There is a run folder: a host that is lost ends only what needs it.
    measuring: bool,
    /// Hosts that were lost since then, one after the other, and what happened.
    gone: Vec<(usize, String)>,
    began: barewire_base::Instant,
}

impl Controller<'_> {
    /// Until every agent has said who it is.
    fn greet(&mut self) -> Result<(), Stop> {
        for (at, host) in self.hosts.iter().enumerate() {
            let silence_ms = self.plan.method.silence.as_millis() as u64;
            let hello =
                Request::Hello { schema: SCHEMA, host: host.name.clone(), fingerprint: true, silence_ms };
            self.fleet.send(at, hello);
        }
        let began = stamp();
        while let Some(host) = self.fleet.agents.iter().position(|agent| agent.hello.is_none()) {
            if (self.interrupted)() {
                return Err(Stop::Interrupted);
            }
            if stamp().since(began) > HELLO_WAIT {
                let why = format!("its agent did not answer within {} s", HELLO_WAIT.as_secs_f64());
                return Err(Stop::Lost { host, why });
            }
            match self.next()? {
                Some((host, Event::Hello(hello))) if hello.schema == SCHEMA => {
                    self.fleet.agents[host].hello = Some(hello);
                }
                Some((host, Event::Hello(hello))) => {
                    let why = format!("its agent speaks version {}, this program {SCHEMA}", hello.schema);
                    return Err(Stop::Lost { host, why });
                }
                Some((host, Event::Error { text, .. })) => return Err(Stop::Lost { host, why: text }),
                _ => {}
            }
        }
        self.measure_clocks(CLOCK_EXCHANGES)
    }

    fn next(&mut self) -> Result<Option<(usize, Event)>, Stop> {
        self.next_within(LOOK)
    }

    fn next_within(&mut self, wait: std::time::Duration) -> Result<Option<(usize, Event)>, Stop> {
        match self.fleet.next(wait) {
            Ok(Some((host, Event::Error { id, text }))) => {
                Ok(Some((host, Event::Error { id, text: self.redactor.text(text) })))
            }
            Ok(event) => Ok(event),
            Err(Lost { host, why }) => Err(Stop::Lost { host, why: self.redactor.text(why) }),
        }
    }

    /// What hosts run when everything is over: told before anything is started, since a host may be lost at any time.
    fn put_cleanup(&mut self) -> Result<(), Stop> {
        for (role, spec) in self.plan.roles.iter().enumerate().filter(|(_, role)| !role.cleanup.is_empty()) {
            let mut told: Vec<usize> = Vec::new();
            for point in &self.plan.points {
                // It was asked of every point before.
                let Ok(assigned) = assign(self.plan, self.hosts, point) else { continue };
                for (index, &host) in assigned[role].iter().enumerate() {
                    if told.contains(&host) {
                        continue;
                    }
                    told.push(host);
                    let hello = self.fleet.agents[host].hello.as_ref();
                    let values = assign::Values {
                        plan: self.plan,
                        hosts: self.hosts,
                        assigned: &assigned,
                        point,
                        run: 1,
                        role,
                        index,
                        exe: hello.map_or("", |hello| &hello.exe),
                        scratch: hello.map_or("", |hello| &hello.scratch),
                    };
                    let argv = values.words(&spec.cleanup).map_err(|why| Stop::Lost { host, why })?;
                    let mut env = self.plan.environment.clone();
                    env.extend(spec.environment.clone());
                    self.fleet.send(host, Request::Cleanup { argv, env });
                }
            }
        }
        Ok(())
    }

    /// Files to all hosts that want them, one file after the other: each is read once, so that all hosts get the same, and lies in memory
    /// once, however many they are.
    fn put_files(&mut self) -> Result<(), Stop> {
        let wants = |sync: &SyncPlan, facts: &HostFacts| {
            sync.targets.is_empty() || sync.targets.contains(&facts.name)
        };
        let of_file = |sync| self.hosts.iter().filter(|facts| wants(sync, facts)).count();
        let mut sending =
            Sending { pulse: Pulse::new(), left: self.plan.sync.iter().map(of_file).sum(), all: 0 };
        sending.all = sending.left;
        for sync in &self.plan.sync {
            let (bytes, mode) = whole(&sync.source)
                .map_err(|e| Stop::Here(format!("sync: {}: {e}", sync.source.display())))?;
            let to = (0..self.hosts.len()).filter(|&host| wants(sync, &self.hosts[host])).collect();
            self.put_file(&sync.to.to_string_lossy(), &bytes, mode, to, &mut sending)?;
        }
        Ok(())
    }

    fn put_file(
        &mut self,
        path: &str,
        bytes: &[u8],
        mode: u32,
        to: Vec<usize>,
        sending: &mut Sending,
    ) -> Result<(), Stop> {
        let sum = crc32fast::hash(bytes);
        let pieces: Vec<&[u8]> =
            if bytes.is_empty() { vec![&[]] } else { bytes.chunks(CHUNK_BYTES).collect() };
        // Each host, and its next piece.
        let mut open: Vec<(usize, usize)> = to.into_iter().map(|host| (host, 0)).collect();
        while let Some(&(waits_for, _)) = open.first() {
            for (host, next) in &mut open {
                while *next < pieces.len() && self.fleet.queued(*host) < PIECES_WAITING {
                    let chunk = BASE64_STANDARD.encode(pieces[*next]);
                    *next += 1;
                    let last = (*next == pieces.len()).then_some(sum);
                    self.fleet.send(*host, Request::Put { path: path.to_owned(), mode, chunk, last });
                }
            }
            if let Some(seconds) = sending.pulse.due() {
                let (all, there) = (sending.all, sending.all - sending.left);
                self.watch.note(&format!("files: {there} of {all} have arrived, {seconds:.0} s"));
            }
            if (self.interrupted)() {
                return Err(Stop::Interrupted);
            }
            let all_sent = open.iter().all(|(_, next)| *next == pieces.len());
            match self.next_within(if all_sent { LOOK } else { SENDING_LOOK })? {
                Some((host, Event::Put { .. })) => {
                    let before = open.len();
                    open.retain(|(open, next)| *open != host || *next < pieces.len());
                    sending.left -= before - open.len();
                }
                Some((host, Event::Error { text, .. })) => return Err(Stop::Lost { host, why: text }),
                _ if stamp().since(sending.pulse.began) > PUT_WAIT => {
                    let why = "its files did not arrive in time".to_owned();
                    return Err(Stop::Lost { host: waits_for, why });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn failed(&self, stop: Stop) -> ExperimentError {
        match stop {
            Stop::Interrupted => ExperimentError::Interrupted,
            Stop::Here(why) => ExperimentError::Plan(why),
            Stop::Lost { host, why } => ExperimentError::Lost { host: self.hosts[host].name.clone(), why },
        }
    }

    /// All runs of all cells but for those that are done.
    fn run_all(&mut self, had: &BTreeSet<(usize, u32)>, folder: &mut Folder) -> Result<(), Stop> {
        let plan = self.plan;
        let mut order = plan.order();
        order.retain(|one| !had.contains(one));
        let began = stamp();
        let planned = plan.run_seconds();
        for (done, &(cell, run)) in order.iter().enumerate() {
            let of_one = match done {
                0 => planned,
                _ => stamp().since(began).as_secs_f64() / done as f64,
            };
            let point = &plan.points[cell];
            self.watch.progress(&Progress {
                done,
                total: order.len(),
                run,
                cell: shown(plan, point),
                left_s: of_one * (order.len() - done) as f64,
            });
            for host in 0..self.hosts.len() {
                self.log(host, &format!("== {} run {run}", shown(plan, point)));
            }
            let outcome = match assign(plan, self.hosts, point) {
                Ok(assigned) => self.run_cell(point, run, &assigned)?,
                Err(why) => Err(why),
            };
            if let Err(why) = &outcome {
                self.watch.note(&format!("{}: {why}", cell_text(plan, point, run)));
            }
            folder.keep(cell, run, outcome, &self.redactor);
            if done + 1 < order.len() && self.gone.len() < self.hosts.len() {
                self.pause(plan.method.pause)?;
            }
        }
        Ok(())
    }

    fn pause(&mut self, wait: std::time::Duration) -> Result<(), Stop> {
        let began = stamp();
        while stamp().since(began).as_secs_f64() < wait.as_secs_f64() {
            if (self.interrupted)() {
                return Err(Stop::Interrupted);
            }
            self.handle_next()?;
        }
        Ok(())
    }

    fn log(&mut self, host: usize, line: &str) {
        let at = stamp().since(self.began).as_secs_f64();
        let most = LOG_BYTES_MAX.min(LOGS_BYTES_MAX / self.logs.len());
        let log = &mut self.logs[host];
        if log.text.len() + line.len() > most {
            log.dropped += 1;
        } else {
            use std::fmt::Write as _;
            let _ = writeln!(log.text, "{at:10.3} {line}");
        }
    }
}

/// `threads 2, run 1`.
fn cell_text(plan: &Plan, point: &Point, run: u32) -> String {
    match point.is_empty() {
        true => format!("run {run}"),
        false => format!("{}, run {run}", shown(plan, point)),
    }
}

/// The point in words, without axes that only say whose value is meant, where others tell it apart.
fn shown(plan: &Plan, point: &Point) -> String {
    let telling: Point = point
        .iter()
        .filter(|(_, value)| plan.placeholder_of_host(&value.to_string()).is_none())
        .cloned()
        .collect();
    point_text(if telling.is_empty() { point } else { &telling })
}
