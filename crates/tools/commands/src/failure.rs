//! What an error means to whoever started us: exit code and hint.
//!
//! Libraries say what went wrong by type; this is the one place that says what follows from it. A verb that knows better wraps
//! its error in a [`Failure`].

use crate::console::{Console, StdoutGone};
use barewire_bench::messages::plan::PlanError;
use barewire_bench::{DriverError, WorkloadError};
use barewire_engine::{AttachError, PageError};
use barewire_lab::LabError;
use barewire_netns::NetnsError;
use barewire_port::OpenError;
use barewire_rdma_tools::RcError;
use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Exit codes, as the help text lists them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// Done.
    Done = 0,
    /// Failed, or found worse than asked for.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// This machine or this user cannot.
    Unfit = 3,
    /// It ran, but its figures are void.
    Void = 4,
    /// Interrupted.
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

/// An error whose meaning a verb knows.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    hint: Option<String>,
    error: anyhow::Error,
}

impl Failure {
    /// `text` as an error with this code.
    pub fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure { code, hint: None, error: anyhow::Error::msg(text.into()) }
    }

    /// What to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

const RIGHTS: &str = "run as root (`sudo`), or with CAP_NET_ADMIN, CAP_NET_RAW and (for xdp) CAP_BPF; `mem:` and `unix:` need \
                      no rights";
/// What a bench can do without hosts.
const OVER_MEM: &str = "`bench msg --over mem` needs no rights";
/// What stands before a hint in the text of an error.
const INLINE_HINT: &str = "; hint: ";

/// Exit code and hint of an error, by the first of its causes that is known here.
pub fn meaning(error: &anyhow::Error) -> (Code, Option<String>) {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return (failure.code, failure.hint.clone());
        }
        if let Some(known) = known(cause) {
            return known;
        }
    }
    (Code::Failed, None)
}

fn known(cause: &(dyn Error + 'static)) -> Option<(Code, Option<String>)> {
    let lab = cause.downcast_ref().map(of_lab).or_else(|| cause.downcast_ref().map(of_hosts));
    if let Some((code, hint)) = lab {
        // A bench wanted hosts; `lab` itself says what it means by [`lab`].
        let hint = hint.map(|hint| if code == Code::Unfit { format!("{hint}; {OVER_MEM}") } else { hint });
        return Some((code, hint));
    }
    // A transparent error stands for the one inside it and is no link of the chain of its own.
    let inside = match cause.downcast_ref::<barewire_client::OpenError>() {
        Some(barewire_client::OpenError::Attach(AttachError::Port(error))) => Some(error),
        _ => None,
    };
    let inside = match cause.downcast_ref() {
        Some(RcError::Open(barewire_verbs::OpenError::Attach(AttachError::Port(error)))) => Some(error),
        _ => inside,
    };
    if let Some(error) = inside.or_else(|| cause.downcast_ref::<OpenError>()) {
        return Some(of_port(error));
    }
    if cause.is::<PlanError>() || cause.is::<WorkloadError>() {
        return Some((Code::Usage, None));
    }
    if let Some(DriverError::Interrupted) = cause.downcast_ref() {
        return Some((Code::Interrupted, None));
    }
    if let Some(error) = cause.downcast_ref::<PageError>() {
        return Some(match error {
            PageError::BadName { .. } => (Code::Usage, None),
            _ => (Code::Failed, None),
        });
    }
    None
}

/// An error of `barewire lab`, where no bench would help.
pub fn lab(error: LabError) -> anyhow::Error {
    let (code, hint) = of_lab(&error);
    Failure { code, hint, error: error.into() }.into()
}

/// Hosts that cannot be made, for a bench or for a lab.
fn of_hosts(error: &NetnsError) -> (Code, Option<String>) {
    let code = if matches!(error, NetnsError::BadName { .. }) { Code::Usage } else { Code::Unfit };
    (code, error.hint().map(str::to_owned))
}

/// A lab that cannot be made, used or removed.
pub(crate) fn of_lab(error: &LabError) -> (Code, Option<String>) {
    let code = match error {
        LabError::Host(error) => return of_hosts(error),
        LabError::NoSuch { .. } | LabError::BadName { .. } | LabError::Asked { .. } => Code::Usage,
        LabError::Exists { .. }
        | LabError::State { .. }
        | LabError::Program { .. }
        | LabError::File { .. } => Code::Failed,
        LabError::Interrupted => Code::Interrupted,
        _ => Code::Unfit,
    };
    (code, error.hint().map(str::to_owned))
}

/// A port that does not open.
fn of_port(error: &OpenError) -> (Code, Option<String>) {
    let hint = |text: &str| Some(text.to_owned());
    match error {
        OpenError::BadUri { .. } => (
            Code::Usage,
            hint("a port is [wrapper+]scheme:target[?key=value&...]; docs/src/reference/ports.md lists them"),
        ),
        OpenError::NotPermitted { .. } => (Code::Unfit, hint(RIGHTS)),
        OpenError::NotFound { .. } => (Code::Unfit, hint("`ip link` lists the interfaces")),
        OpenError::Unsupported { uri, .. } if uri.contains("xdp:") => {
            (Code::Unfit, hint("`packet:` works on every interface"))
        }
        OpenError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            (Code::Unfit, hint(RIGHTS))
        }
        _ => (Code::Unfit, None),
    }
}

/// The message and its causes in one line: a cause that its effect has told already is not told again.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Whether it is only that whoever read our stdout has gone. A peer, a daemon or a program that went away breaks a pipe, too.
fn nobody_reads(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|error| {
        error.kind() == io::ErrorKind::BrokenPipe
            && error.get_ref().is_some_and(|inner| inner.is::<StdoutGone>())
    })
}

/// Prints the error once, with its hint, and says with which code to end.
pub fn report(error: &anyhow::Error, console: &Console) -> Code {
    if nobody_reads(error) {
        // `barewire ... | head`: nobody wants the rest, and nobody made a mistake.
        return Code::Done;
    }
    let (code, hint) = meaning(error);
    let text = text(error);
    // What the library itself says about this very case beats what is said here about its kind.
    let (text, hint) = match text.split_once(INLINE_HINT) {
        Some((text, inline)) => (text, Some(inline.to_owned())),
        None => (text.as_str(), hint),
    };
    console.error(text);
    if let Some(hint) = hint {
        console.hint(&hint);
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use barewire_bench::BenchError;

    fn io_error(kind: io::ErrorKind) -> io::Error {
        io::Error::from(kind)
    }

    #[test]
    fn only_our_own_stdout_may_break_without_an_error() {
        use std::io::Write as _;
        struct Broken(io::ErrorKind);
        impl io::Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(self.0.into())
            }
        }
        let ours = |kind| crate::console::Out::of(Broken(kind)).write_all(b"x").unwrap_err();
        let gone = anyhow::Error::new(ours(io::ErrorKind::BrokenPipe)).context("the table");
        assert!(nobody_reads(&gone));
        assert!(!nobody_reads(&ours(io::ErrorKind::StorageFull).into()), "a full disk is an error");
        // A peer's connection, a daemon's socket.
        let theirs = anyhow::Error::new(io_error(io::ErrorKind::BrokenPipe)).context("the peer");
        assert!(!nobody_reads(&theirs));
        assert_eq!(report(&theirs, &Console::new(crate::args::Color::Never, true)), Code::Failed);
    }

    #[test]
    fn types_decide_whatever_is_wrapped_around_them() {
        let denied = OpenError::NotPermitted { uri: "xdp:eth0".into(), call: "bpf", needs: "CAP_BPF" };
        let error = anyhow::Error::new(BenchError::Other(denied.into())).context("the first cell");
        let (code, hint) = meaning(&error);
        assert_eq!(code, Code::Unfit);
        assert!(hint.unwrap().contains("root"));
        assert_eq!(
            text(&error),
            "the first cell: port `xdp:eth0`: bpf: not permitted (needs CAP_BPF)",
            "each cause once"
        );

        let slip = barewire_client::OpenError::from("xpd:a".parse::<barewire_port::PortUri>().unwrap_err());
        let error = anyhow::Error::new(BenchError::Other(slip.into()));
        assert_eq!(meaning(&error).0, Code::Usage);
        assert_eq!(text(&error).matches("did you mean").count(), 1);

        let plan = anyhow::Error::new("xpd".parse::<barewire_bench::messages::plan::Over>().unwrap_err());
        assert_eq!(meaning(&plan).0, Code::Usage);
        let denied = || NetnsError::System { what: "x".into(), source: io::Error::from_raw_os_error(1) };
        let own = denied().hint().unwrap();
        for of_bench in [anyhow::Error::new(denied()), anyhow::Error::new(LabError::from(denied()))] {
            assert_eq!(meaning(&of_bench), (Code::Unfit, Some(format!("{own}; {OVER_MEM}"))));
        }
        assert_eq!(meaning(&lab(denied().into())), (Code::Unfit, Some(own.to_owned())));
        let unnamed = NetnsError::BadName { what: "x", name: "y".into(), why: "z" };
        assert_eq!(meaning(&lab(unnamed.into())), (Code::Usage, None));
        let file = LabError::File { path: "x".into(), source: io_error(io::ErrorKind::NotFound) };
        assert_eq!(meaning(&anyhow::Error::new(file)), (Code::Failed, None));
        assert_eq!(meaning(&anyhow::anyhow!("whatever")), (Code::Failed, None));
        let known: anyhow::Error = Failure::new(Code::Void, "void").hint("again").into();
        let result: anyhow::Result<()> = Err(known);
        assert_eq!(meaning(&result.context("outer").unwrap_err()), (Code::Void, Some("again".into())));
    }
}
