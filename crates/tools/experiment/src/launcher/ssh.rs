//! Hosts over SSH: the user's own OpenSSH client, so that `ssh_config`, agents, keys and bastions are what they are for `ssh` itself.
//!
//! ```text
//! obtain   ssh DEST sh -c '…'            what is the host, has it the binary? if not: the same again, the binary, compressed, at its input
//! start    ssh DEST exec FILE agent      the pipes of this process are the agent's
//! ```
//! A password is never asked for (`BatchMode`), so none is ever seen here. When the client dies, the agent's input ends, and it
//! ends what it started. Where an agent was killed whole, what it left is found by its mark and ended before the host is given back.

use super::binary::{self, AgentBinary, Answer};
use super::command::{NotRun, Ran, each, last_words, run};
use super::{AgentPipes, HostFacts, HostSpec, LaunchError, Launcher, Needs};
use crate::agent::{RUN_MARK, SWEEPS};
use barewire_measure::realtime_ns;
use barewire_report::run::HardwareClass;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many hosts are spoken to at once while hosts are obtained: a bastion refuses the eleventh log-in by default.
const AT_ONCE: usize = 8;
/// How long the binary may take to a host.
const STORE_WAIT: Duration = Duration::from_secs(300);
/// What a command on a host may take beside connecting.
const COMMAND_WAIT: Duration = Duration::from_secs(8);
/// How many questions for a sign of life may stay unanswered on a connection.
const ALIVE: u32 = 3;
/// The exit code of ssh for errors of its own.
const SSH_FAILED: i32 = 255;

/// How the SSH client is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshOptions {
    /// The client. Default `ssh`.
    pub program: PathBuf,
    /// Another configuration than `~/.ssh/config`: `ssh -F`.
    pub config: Option<PathBuf>,
    /// Options of `ssh_config` in the form `Key=Value`, over those of the configuration.
    pub options: Vec<String>,
    /// One connection for each host, which its commands share (`ControlMaster`). Default off: what the user's configuration says.
    pub share: bool,
    /// Where hosts keep the binary; `~/` is the home there. A folder that nobody else may write. Default `~/.cache/barewire`,
    /// or below the host's `XDG_CACHE_HOME`.
    pub cache: Option<String>,
    /// How long a host may take to answer. Default 6.
    pub connect_timeout_s: u32,
    /// After how much silence a connection is given up. Default as for an agent in a plan.
    pub silence: Duration,
}

impl Default for SshOptions {
    fn default() -> SshOptions {
        SshOptions {
            program: "ssh".into(),
            config: None,
            options: Vec::new(),
            share: false,
            cache: None,
            connect_timeout_s: 6,
            silence: crate::agent::SILENCE,
        }
    }
}

/// A host that was obtained.
#[derive(Clone, Debug)]
struct Obtained {
    destination: String,
    /// The agent's file there.
    file: String,
}

/// Agents over SSH.
#[derive(Debug)]
pub struct SshLauncher {
    options: SshOptions,
    binary: AgentBinary,
    hosts: BTreeMap<String, Obtained>,
    /// Where sockets of shared connections are.
    sockets: Option<PathBuf>,
    hardware: HardwareClass,
    /// By what our agents and all that they start are known on a host.
    mark: String,
    /// Hosts whose agent was lost.
    lost: Vec<String>,
}

impl SshLauncher {
    /// A launcher that sends `binary` to hosts which do not have it.
    pub fn new(binary: AgentBinary, options: SshOptions) -> SshLauncher {
        SshLauncher {
            options,
            binary,
            hosts: BTreeMap::new(),
            sockets: None,
            hardware: HardwareClass::BareMetal,
            mark: format!("{:x}-{:x}", realtime_ns(), std::process::id()),
            lost: Vec::new(),
        }
    }

    /// `ssh … DESTINATION -- COMMAND`, nothing of it asked for on a terminal.
    fn command(&self, destination: &str, remote: &str) -> Command {
        let mut command = self.client();
        // What a host runs is ours to say, whatever its section of the configuration has for people who log in.
        for option in ["ClearAllForwardings=yes", "RemoteCommand=none", "EscapeChar=none", "LogLevel=ERROR"] {
            command.args(["-o", option]);
        }
        command.args([destination, "--", remote]);
        command
    }

    fn client(&self) -> Command {
        let mut command = Command::new(&self.options.program);
        if let Some(config) = &self.options.config {
            command.arg("-F").arg(config);
        }
        command.args(["-T", "-a", "-x", "-o", "BatchMode=yes"]);
        // The first of a name counts: what the user says stands before what we would choose.
        for option in &self.options.options {
            command.arg("-o").arg(option);
        }
        command.arg("-o").arg(format!("ConnectTimeout={}", self.options.connect_timeout_s));
        let interval_s = self.options.silence.as_secs().div_ceil(ALIVE.into()).max(1);
        command.arg("-o").arg(format!("ServerAliveInterval={interval_s}"));
        command.arg("-o").arg(format!("ServerAliveCountMax={ALIVE}"));
        if let Some(sockets) = &self.sockets {
            command.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o"]);
            command.arg(format!("ControlPath={}/%C", sockets.display()));
        }
        command
    }

    /// What a script on a host answers.
    fn ask(
        &self,
        host: &HostSpec,
        script: &str,
        input: Option<Arc<Vec<u8>>>,
        cancel: &AtomicBool,
    ) -> Result<Answer, LaunchError> {
        let destination = destination(host);
        let longest = if input.is_some() { STORE_WAIT } else { COMMAND_WAIT };
        let longest = longest + Duration::from_secs(self.options.connect_timeout_s.into());
        let mut command = self.command(destination, &format!("exec sh -c '{script}'"));
        let failed = |why: String, hint: String| unfit(host, why, hint);
        match run(&mut command, input, longest, cancel) {
            Ok(ran) => Answer::parse(&ran.stdout).ok_or_else(|| {
                let (why, hint) = self.diagnose(destination, &ran);
                failed(why, hint)
            }),
            Err(NotRun::Start(e)) if e.kind() == io::ErrorKind::NotFound => Err(LaunchError::Unfit {
                what: format!("no SSH client {}", self.options.program.display()),
                why: e.to_string(),
                hint: Some("install OpenSSH's client (Debian: openssh-client), or name one".into()),
            }),
            Err(NotRun::Start(source)) => {
                Err(LaunchError::Io { doing: format!("start {}", self.options.program.display()), source })
            }
            Err(NotRun::TimedOut { stderr }) => {
                let said = if stderr.trim().is_empty() {
                    String::new()
                } else {
                    format!(": {}", last_words(&stderr))
                };
                let why = format!("no answer within {} s{said}", longest.as_secs());
                Err(failed(why, format!("look what `ssh {destination} true` does")))
            }
            Err(NotRun::Cancelled) => Err(LaunchError::Interrupted),
        }
    }

    /// What went wrong, and what to do about it.
    fn diagnose(&self, destination: &str, ran: &Ran) -> (String, String) {
        if ran.status.code() == Some(SSH_FAILED) {
            return diagnosis(destination, &ran.stderr, self.options.connect_timeout_s);
        }
        let said = last_words(&format!("{}\n{}", ran.stdout, ran.stderr));
        let why = match ran.status.code() {
            Some(71..=76) => format!("the binary cannot be stored there: {said}"),
            _ => format!("the first command there ended with {} and said: {said}", ran.status),
        };
        let hint = match ran.status.code() {
            Some(71..=76) => "is there room, and may the user write there? Another cache folder can be named",
            _ => "the account needs a shell that runs `sh -c`",
        };
        (why, hint.into())
    }

    /// Makes one host ready; says where the binary is, and what the host is.
    fn prepare(&self, host: &HostSpec, cancel: &AtomicBool) -> Result<(Obtained, Answer), LaunchError> {
        let cache = self.options.cache.as_deref();
        let mut answer = self.ask(host, &binary::look_script(&self.binary, cache), None, cancel)?;
        if let Some((why, hint)) = answer.unsuited(&self.binary) {
            return Err(unfit(host, why, hint));
        }
        if answer.runs.is_none() && answer.fails.is_none() {
            let (packed, sent) = (answer.unpacks, self.binary.sent(answer.unpacks));
            let script = binary::store_script(&self.binary, cache, packed);
            let stored = self.ask(host, &script, Some(sent), cancel)?;
            (answer.bad_sum, answer.no_sum) = (stored.bad_sum, stored.no_sum);
            (answer.runs, answer.fails, answer.shared) = (stored.runs, stored.fails, stored.shared);
        }
        let file = answer.place().map_err(|(why, hint)| unfit(host, why, hint))?;
        Ok((Obtained { destination: destination(host).to_owned(), file }, answer))
    }
}

fn unfit(host: &HostSpec, why: String, hint: String) -> LaunchError {
    let destination = destination(host);
    let by = if destination == host.name { String::new() } else { format!(" ({destination})") };
    LaunchError::Unfit { what: format!("host {}{by}", host.name), why, hint: Some(hint) }
}

fn destination(host: &HostSpec) -> &str {
    if host.reach.is_empty() { &host.name } else { &host.reach }
}

/// What an error of ssh's own means. Its texts are in English whatever the language.
fn diagnosis(destination: &str, stderr: &str, connect_timeout_s: u32) -> (String, String) {
    let said = last_words(stderr);
    let has = |text: &str| stderr.contains(text);
    if has("IDENTIFICATION HAS CHANGED") {
        let hint = format!(
            "was it reinstalled? then remove the old key with `ssh-keygen -R`; `ssh {destination}` shows the new one"
        );
        return ("its host key differs from the known one".into(), hint);
    }
    if has("Host key verification failed") || has("host key is known for") {
        let hint = format!("log in once by hand and compare the key: `ssh {destination}`");
        return ("its host key is unknown".into(), hint);
    }
    if has("Permission denied (") || has("Too many authentication failures") {
        let hint = format!(
            "passwords are not supported: install your key (`ssh-copy-id {destination}`), and check that `ssh-add -l` lists it"
        );
        return (format!("log-in refused: {said}"), hint);
    }
    if has("Could not resolve hostname") {
        return (said, "a name of DNS, or a `Host` of ~/.ssh/config, with `HostName` in it".into());
    }
    if has("Connection refused") {
        return (said, "nothing listens there: is sshd running, and is that its port?".into());
    }
    if ["Connection timed out", "No route to host", "Network is unreachable", "Operation timed out"]
        .iter()
        .any(|t| has(t))
    {
        let hint = format!(
            "is it up? There was no answer for {connect_timeout_s} s; leave it out with `black` if it stays down"
        );
        return (said, hint);
    }
    if has("Bad configuration option")
        || has("Bad owner or permissions")
        || has("terminating,")
        || has("No such file")
    {
        return (said, "fix the SSH configuration".into());
    }
    if has("closed by") || has("Connection reset") || has("Broken pipe") || has("not responding") {
        let hint = "the connection ended; its sshd's log says why (MaxStartups, AllowUsers, a fault there)";
        return (said, hint.into());
    }
    let why = if said.is_empty() { "ssh failed and said nothing".into() } else { said };
    (why, format!("look what `ssh -v {destination} true` says"))
}

/// What could be an option to ssh, or several words, is no destination.
fn check_destination(host: &HostSpec) -> Result<(), LaunchError> {
    let destination = destination(host);
    if destination.is_empty()
        || destination.starts_with('-')
        || destination.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        let why = format!(
            "host {}: {destination:?} is not an SSH destination: HOST, USER@HOST or ssh://USER@HOST:PORT",
            host.name
        );
        return Err(LaunchError::Unsuited(why));
    }
    Ok(())
}

/// The hosts that the file lists, and those that only its roles name: their names are destinations, which OpenSSH's configuration knows.
fn wanted(needs: &Needs) -> Vec<HostSpec> {
    let mut wanted = needs.hosts.clone();
    for name in needs.roles.iter().flat_map(|role| role.named.iter().take(role.count)) {
        if !wanted.iter().any(|host| host.name == *name) {
            wanted.push(HostSpec { name: name.clone(), ..HostSpec::default() });
        }
    }
    wanted
}

impl Launcher for SshLauncher {
    fn name(&self) -> &'static str {
        "ssh"
    }

    fn obtaining(&self) -> &'static str {
        "contacting hosts, and copying this program to them"
    }

    fn hardware(&self) -> HardwareClass {
        self.hardware
    }

    fn obtain(
        &mut self,
        needs: &Needs,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<HostFacts>, LaunchError> {
        let wanted = wanted(needs);
        if wanted.is_empty() {
            let why = "ssh needs hosts: [[host]] tables with `name` and, where they differ, `ssh = \"USER@HOST\"`, in the experiment \
                       or in a file for --hosts";
            return Err(LaunchError::Unsuited(why.into()));
        }
        wanted.iter().try_for_each(check_destination)?;
        if let Some(cache) = &self.options.cache {
            binary::check_cache(cache).map_err(LaunchError::Unsuited)?;
        }
        if let Some(bad) = self.options.options.iter().find(|option| !option.contains(['=', ' '])) {
            return Err(LaunchError::Unsuited(format!("SSH option {bad:?}: in the form Key=Value")));
        }
        for word in self.binary.arguments() {
            binary::quoted(word).map_err(LaunchError::Unsuited)?;
        }
        if self.options.share && self.sockets.is_none() {
            self.sockets = Some(private_folder()?);
        }
        let mut answers = Vec::new();
        let prepared = each(&wanted, AT_ONCE, interrupted, |host, cancel| self.prepare(host, cancel));
        for (host, prepared) in wanted.iter().zip(prepared) {
            let (obtained, answer) = prepared?;
            self.hosts.insert(host.name.clone(), obtained);
            answers.push(answer);
        }
        self.hardware = binary::hardware_of(answers.iter());
        let facts = wanted.iter().zip(answers).map(|(host, answer)| {
            let told = (!host.address.is_empty()).then(|| host.address.clone());
            let address = told.or(answer.address).unwrap_or_else(|| host_part(destination(host)).to_owned());
            HostFacts { name: host.name.clone(), address, settings: host.settings.clone() }
        });
        Ok(facts.collect())
    }

    fn start(&mut self, host: &str) -> Result<AgentPipes, LaunchError> {
        let Some(obtained) = self.hosts.get(host) else {
            return Err(LaunchError::Host { host: host.into(), why: "it was not obtained".into() });
        };
        let words =
            self.agent(obtained, RUN_MARK).map_err(|why| LaunchError::Host { host: host.into(), why })?;
        let mut command = self.command(&obtained.destination, &words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C at our terminal is for the runner, which ends agents in order.
        command.process_group(0);
        let doing = || format!("start {} for host {host}", self.options.program.display());
        let child = command.spawn().map_err(|source| LaunchError::Io { doing: doing(), source })?;
        Ok(AgentPipes { child })
    }

    fn release(&mut self) -> Result<(), LaunchError> {
        let hosts = std::mem::take(&mut self.hosts);
        let swept = self.sweep(&hosts);
        let Some(sockets) = self.sockets.take() else { return swept };
        let never = AtomicBool::new(false);
        for obtained in hosts.values() {
            let mut command = self.client();
            command.arg("-o").arg(format!("ControlPath={}/%C", sockets.display()));
            command.args(["-O", "exit", &obtained.destination]);
            // It may have ended by itself.
            let _ = run(&mut command, None, COMMAND_WAIT, &never);
        }
        let removed = std::fs::remove_dir_all(&sockets)
            .map_err(|source| LaunchError::Io { doing: format!("remove {}", sockets.display()), source });
        swept.and(removed)
    }

    fn lost(&mut self, host: &str) {
        self.lost.push(host.to_owned());
    }
}

impl SshLauncher {
    /// The agent's command on a host, with the mark in this variable.
    fn agent(&self, obtained: &Obtained, variable: &str) -> Result<String, String> {
        let words = std::iter::once(&obtained.file).chain(self.binary.arguments());
        let words: Result<Vec<String>, String> = words.map(|word| binary::quoted(word)).collect();
        Ok(format!("exec env {variable}={} {}", self.mark, words?.join(" ")))
    }

    /// Ends what lost agents may have left: they clean up themselves, but for those that were killed whole. A host that cannot be reached
    /// is no error here: its agent notices that, too.
    fn sweep(&mut self, hosts: &BTreeMap<String, Obtained>) -> Result<(), LaunchError> {
        let never = AtomicBool::new(false);
        let mut done = Ok(());
        for host in std::mem::take(&mut self.lost) {
            let Some(obtained) = hosts.get(&host) else { continue };
            let Ok(words) = self.agent(obtained, SWEEPS) else { continue };
            let ran = run(&mut self.command(&obtained.destination, &words), None, COMMAND_WAIT, &never);
            if let Ok(ran) = ran
                && !matches!(ran.status.code(), Some(0 | SSH_FAILED))
            {
                done = Err(LaunchError::Host { host, why: last_words(&ran.stderr) });
            }
        }
        done
    }
}

impl Drop for SshLauncher {
    fn drop(&mut self) {
        // Who called it has heard; who did not cannot be told any more.
        let _ = self.release();
    }
}

/// `HOST` of `ssh://USER@HOST:PORT` or `USER@HOST`.
fn host_part(destination: &str) -> &str {
    let uri = destination.strip_prefix("ssh://");
    let rest = uri.unwrap_or(destination);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    match (uri, rest.strip_prefix('[')) {
        (_, Some(bracketed)) => bracketed.split(']').next().unwrap_or(rest),
        (Some(_), None) => rest.split([':', '/']).next().unwrap_or(rest),
        (None, None) => rest,
    }
}

/// A folder that only we may enter: whoever reaches a shared connection's socket is us on that host. Its name is short, as a socket's
/// path must be.
fn private_folder() -> Result<PathBuf, LaunchError> {
    use std::os::unix::fs::DirBuilderExt;
    static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let parent = std::env::temp_dir();
    let failed = |source| LaunchError::Io { doing: format!("make a folder in {}", parent.display()), source };
    for _ in 0..100 {
        let path =
            parent.join(format!("bw-ssh-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            // Somebody else's, or of a process that had our number.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| path).map_err(failed),
        }
    }
    Err(failed(io::ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_ssh_says_becomes_a_reason_and_a_hint() {
        for (said, why, hint) in [
            ("Host key verification failed.", "host key is unknown", "log in once"),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "differs from",
                "ssh-keygen -R",
            ),
            (
                "No ED25519 host key is known for 10.0.0.1 and you have requested strict checking.",
                "unknown",
                "by hand",
            ),
            ("u@h: Permission denied (publickey).", "refused", "ssh-copy-id"),
            ("ssh: Could not resolve hostname h: Name or service not known", "resolve", "HostName"),
            ("ssh: connect to host h port 22: Connection refused", "refused", "sshd running"),
            ("ssh: connect to host h port 22: No route to host", "No route", "6 s"),
            ("kex_exchange_identification: Connection closed by remote host", "closed", "MaxStartups"),
            ("/c: line 1: Bad configuration option: x", "Bad configuration", "fix"),
            ("", "said nothing", "ssh -v"),
        ] {
            let (got, advice) = diagnosis("u@h", said, 6);
            assert!(got.contains(why) && advice.contains(hint), "{said}: {got} / {advice}");
        }
    }

    #[test]
    fn destinations_that_are_options_are_refused() {
        let check = |reach: &str| {
            check_destination(&HostSpec { name: "h".into(), reach: reach.into(), ..HostSpec::default() })
        };
        assert!(check("-oProxyCommand=x").is_err() && check("a b").is_err() && check("a\nb").is_err());
        assert!(check("").is_ok() && check("u@h").is_ok() && check("ssh://u@[fd00::1]:22").is_ok());
        for (destination, host) in [
            ("u@h", "h"),
            ("h", "h"),
            ("ssh://u@h:22", "h"),
            ("ssh://u@[fd00::1]:22", "fd00::1"),
            ("fd00::1", "fd00::1"),
        ] {
            assert_eq!(host_part(destination), host);
        }
    }

    #[test]
    fn without_a_client_the_hint_says_what_to_install() {
        let binary = AgentBinary::read(Path::new("/bin/sh"), &[]).unwrap();
        let options = SshOptions { program: "/no/such/ssh".into(), ..SshOptions::default() };
        let mut ssh = SshLauncher::new(binary, options);
        let host = HostSpec { name: "h1".into(), ..HostSpec::default() };
        let mut needs =
            Needs { name: "x".into(), hosts: vec![host], roles: vec![], topology: None, longest_s: None };
        match ssh.obtain(&needs, &|| false).unwrap_err() {
            LaunchError::Unfit { what, hint: Some(hint), .. } => {
                assert!(what.contains("no SSH client") && hint.contains("openssh-client"));
            }
            other => panic!("{other}"),
        }
        needs.hosts.clear();
        assert!(matches!(ssh.obtain(&needs, &|| false), Err(LaunchError::Unsuited(_))));
    }
}
