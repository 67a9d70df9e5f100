//! The asking end: one session at a server, and what its report is worth.

use super::frame::{Heard, Hearing, say};
use super::{Answer, Ask, At, Counted, Hello, LOOK, Report, TalkError, drain};
use crate::cpu::{CpuUse, EndUse};
use barewire_base::{Duration, Instant};
use barewire_measure::stamp;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketAddrAny, SocketFlags, SocketType, bind, connect, socket_with};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

/// Longest time for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest time for one where the measurement does without.
const ANSWER_SOON: Duration = Duration::from_secs(3);
/// Longest time for the end of a session.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long the control connection of such a measurement may take.
const CONNECT_SOON: std::time::Duration = std::time::Duration::from_secs(1);
/// Server and client may read their counters so much of a window apart, and so long.
const APART: f64 = 0.05;
const APART_S: f64 = 0.02;
/// Cores of a machine, at the most: who says that more were busy says nothing.
const CORES_MAX: f64 = 8192.0;

/// Connects from this address of ours, if it is given: from another one a connection might go another way.
pub(crate) fn connect_from(
    from: Option<IpAddr>,
    server: SocketAddr,
    wait: std::time::Duration,
) -> io::Result<TcpStream> {
    let family = SocketAddrAny::from(server).address_family();
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(from) = from {
        bind(&socket, &SocketAddr::new(from, 0))?;
    }
    // Of a socket that sleeps in connect, this is how long it may.
    set_socket_timeout(&socket, Timeout::Send, Some(wait))?;
    connect(&socket, &server).map_err(|errno| match errno {
        Errno::INPROGRESS | Errno::AGAIN => io::Error::from(io::ErrorKind::TimedOut),
        errno => errno.into(),
    })?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// Unpredictable, so that nobody's datagrams are counted as another's: keys of the system's randomness.
pub(crate) fn new_token() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A session's control connection.
pub(crate) struct Session {
    control: TcpStream,
    hearing: Hearing<TcpStream>,
    answer_time: Duration,
    pub(crate) token: u64,
    /// How the server waits.
    pub(crate) waits: String,
}

impl Session {
    /// Says what is to be measured, and how this end waits, over a connection to the server.
    pub(crate) fn open(
        control: TcpStream,
        work: &str,
        waits: &str,
        interval: Option<Duration>,
    ) -> Result<Session, TalkError> {
        control.set_read_timeout(Some(LOOK))?;
        control.set_write_timeout(Some(ANSWER_SOON.into()))?;
        control.set_nodelay(true)?;
        let token = new_token();
        let hearing = Hearing::new(control.try_clone()?);
        let answer_time = if interval.is_some() { ANSWER } else { ANSWER_SOON };
        let mut session = Session { control, hearing, answer_time, token, waits: String::new() };
        let interval_ms = interval.map_or(0, |interval| (interval.as_nanos() / 1_000_000).max(1));
        let (work, waits) = (work.to_owned(), waits.to_owned());
        say(&mut session.control, &Hello::Control { token, work, waits, interval_ms })?;
        match session.answer(stamp() + answer_time)? {
            Answer::Ready { waits } => session.waits = waits,
            Answer::Other(work) => return Err(TalkError::Other(work)),
            Answer::Refused(why) => return Err(TalkError::Refused(why)),
            _ => return Err(TalkError::Words),
        }
        Ok(session)
    }

    /// The server's next word; [`TalkError::Silent`] when there is none until then.
    fn answer(&mut self, until: Instant) -> Result<Answer, TalkError> {
        loop {
            match self.hearing.next()? {
                Heard::Word(answer) => return Ok(answer),
                Heard::End => return Err(TalkError::Closed),
                Heard::Nothing if crate::interrupted() => return Err(TalkError::Interrupted),
                Heard::Nothing if stamp() >= until => return Err(TalkError::Silent),
                Heard::Nothing => {}
            }
        }
    }

    /// What the server counts in each interval, told until a time.
    pub(crate) fn watch(&mut self, until: Instant, tell: &mut dyn FnMut(Counted)) -> Result<(), TalkError> {
        loop {
            match self.answer(until) {
                Ok(Answer::Interval(counted)) => tell(counted),
                Ok(_) => return Err(TalkError::Words),
                Err(TalkError::Silent) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins the window, and does not wait until the server has.
    fn ask_begin(&mut self) -> Result<(), TalkError> {
        Ok(say(&mut self.control, &Ask::Begin)?)
    }

    /// Begins the window: when this returns, the server has.
    pub(crate) fn begin(&mut self) -> Result<(), TalkError> {
        self.ask_begin()?;
        match self.answer(stamp() + self.answer_time)? {
            Answer::Begun => Ok(()),
            _ => Err(TalkError::Words),
        }
    }

    /// Ends the window. Intervals that are still on their way are passed over.
    pub(crate) fn end(&mut self) -> Result<Report, TalkError> {
        say(&mut self.control, &Ask::End)?;
        let until = stamp() + self.answer_time;
        loop {
            match self.answer(until)? {
                Answer::Report(report) => return Ok(report),
                Answer::Interval(_) | Answer::Begun => {}
                _ => return Err(TalkError::Words),
            }
        }
    }
}

/// A session is over when the server has closed it, too: the next one of this client would else find it still open, and be told that
/// the server has others.
impl Drop for Session {
    fn drop(&mut self) {
        drain(&mut self.control, GOODBYE, &crate::interrupted);
    }
}

impl Report {
    /// The server's CPU, if all of it was for one client's window, which took that long.
    ///
    /// # Errors
    /// Why it is not known, in words.
    pub(crate) fn for_one(&self, window: Duration) -> Result<EndUse, String> {
        if self.shared {
            return Err("the server had other clients, too: its CPU is shared".to_owned());
        }
        let cpu = self.cpu.ok_or("the server cannot read its CPU")?;
        let (ours, theirs) = (window.as_secs_f64(), self.counted.seconds);
        let apart = (theirs - ours).abs();
        if apart.is_nan() || apart > ours * APART + APART_S {
            return Err(format!("the server read it over {theirs:.3} s, this end over {ours:.3} s"));
        }
        let most = (theirs + 1.0) * CORES_MAX * 1e9;
        if !cpu.is_at_most(most as u64) {
            return Err("the server tells of more CPU than there is".to_owned());
        }
        Ok(cpu)
    }

    /// The same of a server that also says what it did: for this client, `ours` operations, give or take so many on their way.
    fn for_these(&self, window: Duration, ours: u64, on_their_way: u64) -> Result<EndUse, String> {
        let cpu = self.for_one(window)?;
        let slack = (ours / 50).saturating_add(on_their_way);
        match self.operations {
            Some(theirs) if theirs > ours.saturating_add(slack) => {
                Err("the server did more than this client asked for: its CPU is shared".to_owned())
            }
            Some(theirs) if theirs.saturating_add(slack) < ours => {
                Err("the server that tells its CPU did less than was done: another one served".to_owned())
            }
            _ => Ok(cpu),
        }
    }
}

/// How both ends of a row wait, and what is known of the other end's CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherEnd {
    /// `both spin`, or `client spin, server yield`.
    pub waits: String,
    /// Why the other end's CPU is not known, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_unknown: Option<String>,
}

impl OtherEnd {
    pub(crate) fn of(client: &str, server: Option<&str>, cpu_unknown: Option<String>) -> OtherEnd {
        let waits = match server {
            Some(server) if server == client => format!("both {client}"),
            Some(server) => format!("client {client}, server {server}"),
            None => format!("client {client}, server unknown"),
        };
        OtherEnd { waits, cpu_unknown }
    }

    /// Of several runs: the first that does not know, as their sum does not, either.
    pub(crate) fn of_runs<'a>(runs: impl Iterator<Item = Option<&'a OtherEnd>> + Clone) -> Option<OtherEnd> {
        let mut known = runs.flatten();
        let first = known.clone().next()?.clone();
        Some(known.find(|run| run.cpu_unknown.is_some()).cloned().unwrap_or(first))
    }
}

/// Who is to be talked to besides what is measured.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Where the server's control connections are.
    pub(crate) at: At,
    /// What is measured, at the server.
    pub(crate) measured: SocketAddr,
    /// What it is called.
    pub(crate) work: String,
    /// How this end waits.
    pub(crate) waits: String,
    /// Why there was no session: nobody is asked again for each run.
    pub(crate) missing: Option<String>,
}

/// How a reason begins for which nobody is asked again.
const FAILED: &str = "the control connection failed";

impl Asked {
    /// A session that failed in a run is not opened for the next one: who does not answer was waited for.
    pub(crate) fn remember(&mut self, other: Option<&OtherEnd>) {
        let why = other.and_then(|other| other.cpu_unknown.as_ref());
        self.missing = self.missing.take().or(why.filter(|why| why.starts_with(FAILED)).cloned());
    }
}

/// A window's report, and how long this end's window was.
type Told = (Report, Duration);

/// The other end of a measurement that goes on without it: who does not answer is not known, and is not asked again.
#[derive(Default)]
pub(crate) struct Peer {
    waits: String,
    session: Option<Session>,
    /// How the server waits.
    theirs: Option<String>,
    begun: Option<Instant>,
    told: Option<Told>,
    why: Option<String>,
}

impl Peer {
    /// Opens a session, if there is somebody who talks. Somebody else's work, if that is what is there, is told.
    pub(crate) fn open(asked: &mut Asked) -> (Peer, Option<String>) {
        let mut peer = Peer { waits: asked.waits.clone(), ..Peer::default() };
        if asked.missing.is_some() {
            peer.why.clone_from(&asked.missing);
            return (peer, None);
        }
        let Some(at) = asked.at.of(asked.measured) else {
            peer.why = Some("no control connection was asked for".to_owned());
            return (peer, None);
        };
        let opened = connect_from(None, at, CONNECT_SOON)
            .map_err(TalkError::from)
            .and_then(|control| Session::open(control, &asked.work, &asked.waits, None));
        match opened {
            Ok(session) => {
                peer.theirs = Some(session.waits.clone());
                peer.session = Some(session);
                (peer, None)
            }
            Err(error) => {
                peer.why = Some(format!("no control connection to {at}: {error}"));
                asked.missing.clone_from(&peer.why);
                (peer, if let TalkError::Other(work) = error { Some(work) } else { None })
            }
        }
    }

    /// The session's, for the server to know whose connections are whose.
    pub(crate) fn token(&self) -> Option<u64> {
        self.session.as_ref().map(|session| session.token)
    }

    fn give_up(&mut self, error: &TalkError) {
        self.session = None;
        self.why = Some(format!("{FAILED}: {error}"));
    }

    /// The window begins. `gate`: not before the server has begun, too.
    pub(crate) fn begin(&mut self, gate: bool) {
        let Some(session) = &mut self.session else { return };
        let asked = if gate { session.begin() } else { session.ask_begin() };
        match asked {
            Ok(()) => self.begun = Some(stamp()),
            Err(error) => self.give_up(&error),
        }
    }

    /// The window ends.
    pub(crate) fn end(&mut self) {
        let (Some(session), Some(begun)) = (&mut self.session, self.begun.take()) else { return };
        let window = stamp().since(begun);
        match session.end() {
            Ok(report) => self.told = Some((report, window)),
            Err(error) => self.give_up(&error),
        }
    }

    /// What this end used, with what the other told of it, for `ours` operations of this client's, give or take so many.
    pub(crate) fn charge(
        &self,
        used: Option<CpuUse>,
        ours: u64,
        on_their_way: u64,
    ) -> (Option<CpuUse>, OtherEnd) {
        let told = match &self.told {
            Some((report, window)) => report.for_these(*window, ours, on_their_way),
            None => Err(self.why.clone().unwrap_or_else(|| "the server told nothing".to_owned())),
        };
        let used = used.map(|used| used.with_server(told.as_ref().ok().copied()));
        let is_known = used.as_ref().is_none_or(CpuUse::is_whole);
        let one = || (!is_known).then(|| "both ends are one process".to_owned());
        (used, OtherEnd::of(&self.waits, self.theirs.as_deref(), told.err().or_else(one)))
    }
}
