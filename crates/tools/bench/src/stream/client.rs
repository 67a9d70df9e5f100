//! The sending end, and what it makes of the server's counts.

use super::pump::{self, CHUNK, Sent, exact};
use super::{Interval, Protocol, Ran, StreamError, WAITS, WORK};
use crate::awake::stolen;
use crate::cpu::{CpuUse, Family};
use crate::talk::client::{self, OtherEnd, connect_from};
use crate::talk::frame::say;
use crate::talk::{Counted, Hello, LOOK, TalkError};
use barewire_base::{Duration, Instant};
use barewire_measure::{Contention, ContentionReport, stamp};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest time to wait for a server that is not there yet.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// One attempt to connect.
const ATTEMPT: std::time::Duration = std::time::Duration::from_secs(1);
/// Smallest datagram: it carries the session's token, and one more byte would be needed for none.
pub const DATAGRAM_MIN: usize = 8;
/// Largest datagram over UDP on IPv4.
pub const DATAGRAM_MAX: usize = 65_507;

/// What to send, and to whom.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The server.
    pub server: SocketAddr,
    /// The address to send from; `None`: the kernel's choice.
    pub from: Option<IpAddr>,
    /// Over what.
    pub protocol: Protocol,
    /// How many at a time.
    pub streams: u32,
    /// Bytes of a datagram.
    pub size: usize,
    /// Datagrams a second, of all streams together; `None`: as fast as it goes.
    pub rate: Option<u64>,
    /// Measured time of a run.
    pub duration: Duration,
    /// Time before it that is not counted.
    pub warmup: Duration,
    /// Between two reports.
    pub interval: Duration,
}

/// Sends a thing for `duration`, counted by the server.
struct Session<'a> {
    config: &'a ClientConfig,
    talk: client::Session,
    /// What this process had used when the window began.
    used: Option<Family>,
    begun: Instant,
}

/// A whole window: what the server counted, and what both ends used for it.
struct Window {
    counted: Counted,
    used: Option<CpuUse>,
    other: OtherEnd,
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> StreamError {
    move |source| StreamError::Io { what, source }
}

impl<'a> Session<'a> {
    fn open(config: &'a ClientConfig) -> Result<Session<'a>, StreamError> {
        let talk = client::Session::open(connect(config)?, WORK, WAITS, Some(config.interval))?;
        Ok(Session { config, talk, used: None, begun: Instant::ZERO })
    }

    /// Reports of intervals until a time, each told.
    fn watch(
        &mut self,
        until: Instant,
        tell: &mut dyn FnMut(&Interval),
    ) -> Result<Vec<Interval>, StreamError> {
        let mut intervals = Vec::new();
        let protocol = self.config.protocol;
        self.talk.watch(until, &mut |counted| {
            let at_s = intervals.last().map_or(0.0, |i: &Interval| i.to_s);
            let interval = Interval::of(at_s, &counted, protocol);
            tell(&interval);
            intervals.push(interval);
        })?;
        Ok(intervals)
    }

    /// Begins the window.
    fn begin(&mut self) -> Result<(), StreamError> {
        self.talk.begin()?;
        (self.used, self.begun) = (Family::look(), stamp());
        Ok(())
    }

    /// Ends the window.
    fn end(&mut self) -> Result<Window, StreamError> {
        let used = Family::look().zip(self.used).map(|(now, begin)| now.since(&begin));
        let took = stamp().since(self.begun);
        let report = self.talk.end()?;
        let told = report.for_one(took);
        let used = used.map(|used| used.with_server(told.as_ref().ok().copied()));
        Ok(Window {
            counted: report.counted,
            used,
            other: OtherEnd::of(WAITS, Some(&self.talk.waits), told.err()),
        })
    }
}

fn bound(config: &ClientConfig) -> SocketAddr {
    let any: IpAddr = if config.server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    SocketAddr::new(config.from.unwrap_or(any), 0)
}

/// Connects, as soon as the server is there.
fn connect(config: &ClientConfig) -> Result<TcpStream, StreamError> {
    let until = stamp() + PATIENCE;
    loop {
        match connect_from(config.from, config.server, ATTEMPT) {
            Ok(stream) => return Ok(stream),
            Err(_) if crate::interrupted() => return Err(StreamError::Interrupted),
            Err(source) if stamp() >= until => {
                return Err(TalkError::Unreachable { server: config.server, source }.into());
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// Runs it once. `tell` hears each interval when it has passed.
///
/// # Errors
/// [`StreamError`]: a server that is not there, or stops answering.
pub fn run(config: &ClientConfig, tell: &mut dyn FnMut(&Interval)) -> Result<Ran, StreamError> {
    config.check()?;
    let mut session = Session::open(config)?;
    let watch = Contention::start();
    let mut run = match config.protocol {
        Protocol::Tcp => streams(&mut session, tell)?,
        Protocol::Udp => datagrams(&mut session, tell)?,
    };
    // Senders, receivers and what is between them may share few cores: being switched out is the rule here, and says nothing.
    // What the hypervisor took does.
    let report = watch.finish();
    run.contention = Some(ContentionReport { contended: !stolen(report.clone()).is_empty(), ..report });
    if run.void.is_none() && run.received_bytes == 0 {
        run.void = Some("nothing arrived".to_owned());
    }
    Ok(run)
}

fn streams(session: &mut Session<'_>, tell: &mut dyn FnMut(&Interval)) -> Result<Ran, StreamError> {
    let config = session.config;
    let mut open = Vec::new();
    for _ in 0..config.streams {
        let mut stream = connect(config)?;
        say(&mut stream, &Hello::Data { token: session.talk.token }).map_err(failed("opening a stream"))?;
        open.push(stream);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let writing: Vec<_> =
            open.into_iter().map(|stream| scope.spawn(move || pump::write_until(stream, stop))).collect();
        let mut measure = || {
            session.watch(stamp() + config.warmup, &mut |_| {})?;
            session.begin()?;
            let intervals = session.watch(stamp() + config.duration, tell)?;
            Ok::<_, StreamError>((intervals, session.end()?))
        };
        let measured = measure();
        stop.store(true, Ordering::Relaxed);
        let mut written = Ok(());
        for thread in writing {
            let ended = thread.join().map_err(|_| StreamError::Panicked)?;
            written = written.and(ended.map_err(failed("sending")));
        }
        // A stream that broke explains what the server said, or did not.
        written?;
        let (intervals, Window { counted, used, other }) = measured?;
        let operations = counted.bytes / CHUNK as u64;
        Ok(Ran::of(&counted, counted.seconds, intervals, Protocol::Tcp).charged(used, other, operations))
    })
}

/// A session whose intervals are told while something is sent.
type Watching<'a, 'b> = (&'a mut Session<'b>, &'a mut dyn FnMut(&Interval));

fn datagrams(session: &mut Session<'_>, tell: &mut dyn FnMut(&Interval)) -> Result<Ran, StreamError> {
    let config = session.config;
    let mut bytes = vec![0x5a; config.size];
    bytes[..8].copy_from_slice(&session.talk.token.to_le_bytes());
    let each = config.rate.map(|rate| (rate / u64::from(config.streams)).max(1));
    let sockets: Vec<UdpSocket> = (0..config.streams)
        .map(|_| {
            let socket = UdpSocket::bind(bound(config))?;
            socket.connect(config.server)?;
            Ok(socket)
        })
        .collect::<io::Result<_>>()
        .map_err(failed("making a socket"))?;
    let send = |duration: Duration, session: Option<Watching<'_, '_>>| {
        std::thread::scope(|scope| {
            let bytes = &bytes;
            let sending: Vec<_> = sockets
                .iter()
                .map(|socket| scope.spawn(move || exact(|| pump::datagrams(socket, bytes, each, duration))))
                .collect();
            let watched = session.map(|(session, tell)| session.watch(stamp() + duration, tell));
            let mut all = Sent::default();
            for thread in sending {
                let sent = thread.join().ok().and_then(Result::ok).ok_or(StreamError::Panicked)?;
                let sent = sent.map_err(failed("sending"))?;
                all.count += sent.count;
                all.behind += sent.behind;
                all.took = all.took.max(sent.took);
            }
            Ok::<_, StreamError>((all, watched.unwrap_or(Ok(Vec::new()))?))
        })
    };
    if config.warmup > Duration::ZERO {
        send(config.warmup, None)?;
        std::thread::sleep(pump::SETTLE);
    }
    session.begin()?;
    let (sent, intervals) = send(config.duration, Some((session, tell)))?;
    std::thread::sleep(pump::SETTLE);
    if crate::interrupted() {
        return Err(StreamError::Interrupted);
    }
    let Window { counted, used, other } = session.end()?;
    let mut run = Ran::of(&counted, sent.took.as_secs_f64(), intervals, Protocol::Udp).charged(
        used,
        other,
        counted.datagrams,
    );
    run.datagrams = Some([sent.count, counted.datagrams]);
    if config.rate.is_some() {
        run.behind_percent = Some(sent.behind_percent());
        if sent.behind_percent() > crate::messages::driver::LAG_PERCENT_MAX {
            run.void = Some(format!("the sender was late for {:.1} % of its packets", sent.behind_percent()));
        }
    }
    Ok(run)
}

impl ClientConfig {
    /// Checks what can be checked before anything is sent.
    ///
    /// # Errors
    /// [`StreamError::Plan`] in words.
    pub fn check(&self) -> Result<(), StreamError> {
        let bad = |why: String| Err(StreamError::Plan(why));
        if !(1..=super::STREAMS_MAX).contains(&self.streams) {
            return bad(format!("streams {}: 1 to {} are possible", self.streams, super::STREAMS_MAX));
        }
        if self.duration == Duration::ZERO {
            return bad("the measured time must not be zero".to_owned());
        }
        if self.protocol == Protocol::Udp && !(DATAGRAM_MIN..=DATAGRAM_MAX).contains(&self.size) {
            return bad(format!(
                "datagrams of {} bytes: {DATAGRAM_MIN} to {DATAGRAM_MAX} are possible",
                self.size
            ));
        }
        if self.rate.is_some_and(|rate| rate < u64::from(self.streams) || rate > 1_000_000_000) {
            return bad("a rate is at least one a second for each stream, and at most 10^9".to_owned());
        }
        if self.rate.is_some() && self.protocol == Protocol::Tcp {
            return bad("a TCP stream has no rate: it goes as fast as it can".to_owned());
        }
        if self.from.is_some_and(|from| from.is_ipv4() != self.server.is_ipv4()) {
            return bad("one address is of IPv4, the other of IPv6".to_owned());
        }
        Ok(())
    }
}
