//! The worker: speaks with the controller and starts processes.

use super::files::Files;
use super::guardian::{give_back, hold};
use super::outbox::Outbox;
use super::process::Process;
use super::protocol::{Event, Hello, LINE_BYTES_MAX, Request, SCHEMA, SignalWord};
use super::slurmd::Slurmd;
use super::undo::{self, Undo};
use super::{Family, SILENCE, WORKER, end_family};
use barewire_base::{Duration, Instant};
use barewire_measure::{Fingerprint, realtime_ns, stamp};
use std::collections::HashMap;
use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};

/// A sign of life at least so often.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at the clock and at signals. An agent must not disturb what is measured beside it.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);
/// Sleep is coarse: the rest until a start is waited for awake.
const AWAKE: Duration = Duration::from_millis(1);
/// A start is ordered some hundred milliseconds ahead. One that seems to be further away was ordered by another clock than this host's,
/// which was set meanwhile: it is not waited for longer than so.
const AHEAD_MAX: Duration = Duration::from_secs(10);

/// What reaches the worker's main thread.
enum Incoming {
    Request(Request),
    /// A line that is none.
    Garbage(String),
    /// The controller is gone.
    Closed,
}

pub(super) fn run(scratch: &Path, stop: &AtomicBool) -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let guardian = rustix::process::getppid();
    // Should the guardian be killed, the next agent here must not take its folder for a dead one's while we clean up.
    let _held = hold(scratch);
    let (outbox, _writer) = Outbox::start(io::stdout())?;
    let (sender, requests) = mpsc::channel();
    std::thread::Builder::new().name("requests".into()).spawn(move || read_all(&sender))?;
    let mut worker = Worker {
        scratch,
        outbox,
        processes: HashMap::new(),
        waiting: Vec::new(),
        files: Files::default(),
        exe: env::current_exe()?.display().to_string(),
        slurmd: Slurmd::find(),
        heard: stamp(),
        silence: SILENCE.into(),
        told: stamp(),
    };
    let served = worker.serve(&requests, stop);
    worker.outbox.close();
    worker.sweep();
    drop(worker);
    if rustix::process::getppid() == guardian {
        // It does the rest, as it does when we are killed.
        return served;
    }
    served.and(give_back(scratch))
}

fn read_all(sender: &Sender<Incoming>) {
    let mut stdin = BufReader::new(io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut stdin).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
        let incoming = match read {
            Ok(n) if n > 0 => match serde_json::from_slice(&line) {
                Ok(request) => Incoming::Request(request),
                Err(e) => Incoming::Garbage(e.to_string()),
            },
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            _ => Incoming::Closed,
        };
        let last = matches!(incoming, Incoming::Closed);
        if sender.send(incoming).is_err() || last {
            return;
        }
    }
}

/// A process whose time has not come.
struct Waiting {
    /// By the clock that nobody sets.
    due: Instant,
    id: u32,
    command: Command,
}

/// When a process is to start that was ordered for this instant of the host's clock.
fn due(now: Instant, clock_ns: u64, at_unix_ns: u64) -> Instant {
    now + Duration::from_nanos(at_unix_ns.saturating_sub(clock_ns)).min(AHEAD_MAX)
}

struct Worker<'a> {
    scratch: &'a Path,
    outbox: Outbox,
    processes: HashMap<u32, Process>,
    waiting: Vec<Waiting>,
    files: Files,
    exe: String,
    slurmd: Option<Slurmd>,
    heard: Instant,
    /// A controller that has said nothing for so long is gone.
    silence: Duration,
    told: Instant,
}

impl Worker<'_> {
    /// Until the controller says that it is enough, or is gone.
    ///
    /// # Errors
    /// When what holds the host is gone.
    fn serve(&mut self, requests: &Receiver<Incoming>, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            match requests.recv_timeout(self.until_next()) {
                Ok(Incoming::Request(Request::End) | Incoming::Closed) => return Ok(()),
                Ok(Incoming::Request(request)) => {
                    self.heard = stamp();
                    self.answer(request);
                }
                Ok(Incoming::Garbage(why)) => {
                    self.heard = stamp();
                    self.error(None, format!("malformed request: {why}"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if stamp().since(self.heard) > self.silence {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // Unasked, too: a question may wait behind a large file.
            if stamp().since(self.told) > TELL_EVERY {
                self.told = stamp();
                self.outbox.tell(Event::Pong);
                if let Some(why) = self.slurmd.as_mut().and_then(|slurmd| slurmd.lost(self.told)) {
                    // Before the cleaning up, which takes seconds.
                    self.error(None, why.clone());
                    return Err(io::Error::other(why));
                }
            }
            self.start_due();
        }
        Ok(())
    }

    /// How long nothing has to be done.
    fn until_next(&self) -> std::time::Duration {
        let next = self.waiting.iter().map(|w| w.due).min();
        let left = next.map(|due| due.since(stamp() + AWAKE).as_nanos());
        left.map_or(LOOK, |left| LOOK.min(std::time::Duration::from_nanos(left)))
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Hello { schema, fingerprint, silence_ms, .. } => {
                self.silence = Duration::from_millis(silence_ms);
                self.hello(schema, fingerprint);
            }
            Request::Ping => self.outbox.tell(Event::Pong),
            Request::Clock { seq } => self.outbox.tell(Event::Clock { seq, unix_ns: realtime_ns() }),
            Request::Start { id, argv, cwd, env, at_unix_ns } => {
                let Some((program, arguments)) = argv.split_first() else {
                    return self.error(Some(id), "no program is named".to_owned());
                };
                let mut command = Command::new(super::program(program, &self.exe));
                command.args(arguments).envs(env).env_remove(WORKER);
                command
                    .current_dir(cwd.map_or_else(|| self.scratch.to_owned(), |cwd| self.scratch.join(cwd)));
                let due = due(stamp(), realtime_ns(), at_unix_ns);
                self.waiting.push(Waiting { due, id, command });
            }
            Request::Signal { id, signal } => {
                // A process that was not started yet never will be.
                self.forget_waiting(|waiting| waiting.id == id);
                if let Some(process) = self.processes.get(&id) {
                    process.signal(signal);
                }
            }
            Request::Put { path, mode, chunk, last } => {
                match self.files.put(self.scratch, &path, mode, &chunk, last) {
                    Ok(true) => self.outbox.tell(Event::Put { path }),
                    Ok(false) => {}
                    Err(why) => self.error(None, why),
                }
            }
            Request::Cleanup { argv, env } => {
                if let Err(e) = undo::keep(self.scratch, &Undo { argv, env }) {
                    self.error(None, format!("a cleanup command cannot be saved: {e}"));
                }
            }
            Request::Sweep => {
                self.forget_waiting(|_| true);
                let family = self.family();
                let outbox = self.outbox.clone();
                // Takes seconds when somebody does not want to go; pings must be answered meanwhile.
                std::thread::spawn(move || {
                    let ended = family();
                    outbox.tell(Event::Swept { ended: ended.ended, left: ended.left });
                });
                self.processes.retain(|_, process| process.is_running());
            }
            Request::End => {}
        }
    }

    /// Processes that will not be started any more.
    fn forget_waiting(&mut self, which: impl Fn(&Waiting) -> bool) {
        let (forgotten, waiting): (Vec<Waiting>, Vec<Waiting>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| which(waiting));
        self.waiting = waiting;
        for waiting in forgotten {
            let signal = Some(rustix::process::Signal::TERM.as_raw());
            self.outbox.tell(Event::Exited { id: waiting.id, code: None, signal, unix_ns: realtime_ns() });
        }
    }

    fn hello(&self, schema: u32, fingerprint: bool) {
        if schema != SCHEMA {
            return self.error(None, format!("this agent speaks version {SCHEMA}, the controller {schema}"));
        }
        let machine = Fingerprint::collect();
        self.outbox.tell(Event::Hello(Hello {
            schema: SCHEMA,
            version: machine.build.version.clone(),
            commit: machine.build.git_commit.clone(),
            exe: self.exe.clone(),
            scratch: self.scratch.display().to_string(),
            fingerprint: fingerprint.then(|| serde_json::to_value(&machine).unwrap_or_default()),
        }));
    }

    fn start_due(&mut self) {
        let horizon = stamp() + AWAKE;
        let (mut due, later): (Vec<Waiting>, Vec<Waiting>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|w| w.due <= horizon);
        self.waiting = later;
        due.sort_by_key(|w| w.due);
        for mut waiting in due {
            while stamp() < waiting.due {
                std::hint::spin_loop();
            }
            let unix_ns = realtime_ns();
            // The processes are tied to this thread, which lives as long as the worker.
            match Process::start(waiting.id, &mut waiting.command, &self.outbox) {
                Ok(process) => {
                    self.outbox.tell(Event::Started { id: waiting.id, pid: process.pid(), unix_ns });
                    self.processes.insert(waiting.id, process);
                }
                Err(e) => {
                    let program = waiting.command.get_program().to_string_lossy().into_owned();
                    self.error(Some(waiting.id), format!("cannot start `{program}`: {e}"));
                }
            }
        }
    }

    fn error(&self, id: Option<u32>, text: String) {
        self.outbox.tell(Event::Error { id, text });
    }

    /// What ends everything below us.
    fn family(&self) -> impl FnOnce() -> super::family::Ended + Send + 'static {
        let processes: Vec<Process> = self.processes.values().cloned().collect();
        let me = std::process::id();
        move || {
            end_family(Family::Below(me), &|pid| {
                processes.iter().any(|process| process.pid() == pid && process.is_running())
            })
        }
    }

    fn sweep(&mut self) {
        self.waiting.clear();
        for process in self.processes.values() {
            process.signal(SignalWord::Term);
        }
        self.family()();
    }
}
