//! The programs that a lab's processes are.

use crate::progress::Steps;
use crate::state::ProcessState;
use crate::{LabError, READY_LINE};
use barewire_engine::Owner;
use barewire_netns::Namespace;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How long a link node may take until frames pass, in steps of [`LINK_NODE_STEP`].
const LINK_NODE_WAIT: Duration = Duration::from_secs(10);
const LINK_NODE_STEP: Duration = Duration::from_millis(50);
/// How long a switch may take to compile its program and open its ports, in steps of [`SWITCH_STEP`].
const SWITCH_WAIT: Duration = Duration::from_secs(30);
const SWITCH_STEP: Duration = Duration::from_millis(20);
/// What is told of a program's last words.
const TAIL_BYTES: usize = 2000;
/// Where a switch of a lab listens, inside its own namespace.
pub(super) const THRIFT_PORT: u16 = 9090;

/// The command lines of the programs that a lab starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// Runs a [link node](crate::run_link_node): reads its configuration as JSON from standard input, prints
    /// [`READY_LINE`] when frames pass, ends well on SIGTERM.
    pub link_node: Vec<OsString>,
    /// Runs a switch; program, ports and options are added.
    pub switch: Vec<OsString>,
    /// Sends commands to a switch; a file and options are added.
    pub switch_commands: Vec<OsString>,
    /// Variables that all of them get.
    pub environment: Vec<(OsString, OsString)>,
}

impl Programs {
    /// The verbs of the `barewire` binary: `lab link-node`, `switch run`, `switch cli`.
    pub fn of_binary(binary: &Path) -> Programs {
        let verbs = |words: &[&str]| {
            let words = words.iter().map(OsString::from);
            std::iter::once(binary.as_os_str().to_owned()).chain(words).collect()
        };
        Programs {
            link_node: verbs(&["lab", "link-node"]),
            switch: verbs(&["switch", "run"]),
            switch_commands: verbs(&["switch", "cli"]),
            environment: Vec::new(),
        }
    }

    fn command(&self, what: &str, argv: &[OsString], arguments: &[OsString]) -> Result<Command, LabError> {
        let Some((program, first)) = argv.split_first() else {
            return Err(LabError::Program {
                what: what.to_owned(),
                why: "no program is known for it".into(),
            });
        };
        let mut command = Command::new(program);
        command.args(first).args(arguments);
        command.envs(self.environment.iter().map(|(k, v)| (k, v)));
        Ok(command)
    }
}

/// A process that has been started and is not yet known to work.
pub(super) struct Starting {
    what: String,
    namespace: String,
    log: PathBuf,
    child: Child,
}

impl Starting {
    fn start(
        command: &mut Command,
        namespace: &Namespace,
        what: &str,
        log: PathBuf,
    ) -> Result<Starting, LabError> {
        let failed = |e: std::io::Error| LabError::Program { what: what.to_owned(), why: e.to_string() };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&log).map_err(failed)?;
        command.stderr(file);
        let child = namespace.spawn_apart(command).map_err(failed)?;
        let namespace = namespace.name().unwrap_or_default().to_owned();
        Ok(Starting { what: what.to_owned(), namespace, log, child })
    }

    /// What to write down: at once, not only when it works.
    pub(super) fn state(&self) -> ProcessState {
        let pid = self.child.id();
        // A child that we have not waited for keeps its id, so this is its own start time.
        let started = Owner::of(pid).map_or(0, |owner| owner.start_ticks);
        ProcessState {
            what: self.what.clone(),
            namespace: self.namespace.clone(),
            pid,
            started,
            log: Some(self.log.clone()),
        }
    }

    fn failed(&mut self, why: &str) -> LabError {
        let status = self.child.try_wait().ok().flatten();
        let ended = status.map_or(String::new(), |status| format!(" ({status})"));
        let said = fs::read(&self.log).unwrap_or_default();
        let tail = &said[said.len().saturating_sub(TAIL_BYTES)..];
        let tail = String::from_utf8_lossy(tail);
        let tail = if tail.trim().is_empty() { String::new() } else { format!(":\n{}", tail.trim_end()) };
        LabError::Program { what: self.what.clone(), why: format!("{why}{ended}{tail}") }
    }
}

/// Starts a link node in its namespace.
pub(super) fn start_link_node(
    programs: &Programs,
    namespace: &Namespace,
    link: &str,
    config: &str,
    folder: &Path,
) -> Result<Starting, LabError> {
    let what = format!("link node of {link}");
    let mut command = programs.command(&what, &programs.link_node, &[])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut starting =
        Starting::start(&mut command, namespace, &what, folder.join(format!("link-{link}.log")))?;
    if let Some(mut stdin) = starting.child.stdin.take()
        && let Err(e) = stdin.write_all(config.as_bytes())
    {
        return Err(starting.failed(&format!("did not take its configuration: {e}")));
    }
    Ok(starting)
}

/// Waits until a link node says that frames pass.
pub(super) fn await_link_node(mut starting: Starting, steps: &mut Steps<'_>) -> Result<(), LabError> {
    let Some(stdout) = starting.child.stdout.take() else { return Ok(()) };
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        // A test's own harness talks before the node does.
        let ready = lines.any(|line| line.trim() == READY_LINE);
        // Nobody listens any more when the wait is over.
        let _ = tell.send(ready);
        // Reading on keeps the pipe open as long as we live; nothing more is said.
        lines.for_each(drop);
    });
    for _ in 0..LINK_NODE_WAIT.as_millis() / LINK_NODE_STEP.as_millis() {
        match told.recv_timeout(LINK_NODE_STEP) {
            Ok(true) => return steps.step(&starting.what),
            Ok(false) | Err(RecvTimeoutError::Disconnected) => {
                return Err(starting.failed("ended before it was ready"));
            }
            Err(RecvTimeoutError::Timeout) => steps.look(&starting.what)?,
        }
    }
    let why = format!("was not ready within {} s", LINK_NODE_WAIT.as_secs());
    Err(starting.failed(&why))
}

/// Starts a switch in its namespace. `ports` are `NUMBER@URI`.
pub(super) fn start_switch(
    programs: &Programs,
    namespace: &Namespace,
    switch: &str,
    arguments: &[OsString],
    folder: &Path,
) -> Result<Starting, LabError> {
    let what = format!("switch {switch}");
    let mut command = programs.command(&what, &programs.switch, arguments)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Starting::start(&mut command, namespace, &what, folder.join(format!("switch-{switch}.log")))
}

/// Waits until a switch forwards: its Thrift port answers last. Then fills its tables.
pub(super) fn await_switch(
    programs: &Programs,
    namespace: &Namespace,
    mut starting: Starting,
    entries: Option<&Path>,
    steps: &mut Steps<'_>,
) -> Result<(), LabError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, THRIFT_PORT));
    let mut looks = SWITCH_WAIT.as_millis() / SWITCH_STEP.as_millis();
    // Connecting within one host is done or refused at once.
    while namespace.enter(|| TcpStream::connect(address))?.is_err() {
        let ended = starting.child.try_wait().ok().flatten().is_some();
        if ended {
            return Err(starting.failed("ended before it forwarded"));
        }
        looks -= 1;
        steps.look(&starting.what)?;
        if looks == 0 {
            let why = format!("did not forward within {} s", SWITCH_WAIT.as_secs());
            return Err(starting.failed(&why));
        }
        std::thread::sleep(SWITCH_STEP);
    }
    let Some(entries) = entries else { return steps.step(&starting.what) };
    steps.look(&format!("entries of {}", starting.what))?;
    let what = format!("entries {} of {}", entries.display(), starting.what);
    let arguments: Vec<OsString> =
        ["--stop-at-failure".into(), "--thrift-port".into(), THRIFT_PORT.to_string().into(), entries.into()]
            .into();
    let mut command = programs.command(&what, &programs.switch_commands, &arguments)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |why: String| LabError::Program { what: what.clone(), why };
    let child = namespace.spawn_in(&mut command).map_err(|e| failed(e.to_string()))?;
    let output = child.wait_with_output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return steps.step(&starting.what);
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(TAIL_BYTES)..]).trim_end().to_owned();
    Err(failed(format!("{}:\n{said}", output.status)))
}
