//! The sending end, and what it makes of the server's counts.

use super::protocol::{Answer, BEGIN, Counted, END, Hello, Line, Lines, VERSION, write_line};
use super::pump::{self, CHUNK, LOOK, Sent, exact};
use super::{Interval, Protocol, StreamError, StreamRun};
use crate::awake::stolen;
use crate::cpu::{CpuUse, Family};
use barewire_base::{Duration, Instant};
use barewire_measure::{Contention, stamp};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest time to wait for a server that is not there yet.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// One attempt to connect.
const ATTEMPT: std::time::Duration = std::time::Duration::from_secs(1);
/// Longest time for an answer.
const ANSWER: Duration = Duration::from_secs(10);
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
    control: TcpStream,
    lines: Lines<TcpStream>,
    token: u64,
    /// What this process had used when the window began.
    used: Option<Family>,
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> StreamError {
    move |source| StreamError::Io { what, source }
}

impl<'a> Session<'a> {
    fn open(config: &'a ClientConfig) -> Result<Session<'a>, StreamError> {
        let control = connect(config)?;
        control.set_read_timeout(Some(LOOK)).map_err(failed("connecting"))?;
        control.set_nodelay(true).map_err(failed("connecting"))?;
        // Unpredictable, so that nobody's datagrams are counted as another's: keys of the system's randomness.
        let token = RandomState::new().build_hasher().finish();
        let lines = Lines::new(control.try_clone().map_err(failed("connecting"))?);
        let mut session = Session { config, control, lines, token, used: None };
        let interval_ms = config.interval.as_nanos() / 1_000_000;
        session.say(&Hello::Control { barewire_stream: VERSION, token, interval_ms })?;
        match session.answer(stamp() + ANSWER)? {
            Answer::Ready => Ok(session),
            Answer::Refused(why) => Err(StreamError::Refused(why)),
            _ => Err(StreamError::Words),
        }
    }

    fn say(&mut self, line: &impl serde::Serialize) -> Result<(), StreamError> {
        write_line(&mut self.control, line).map_err(failed("talking to the server"))
    }

    /// The server's next line; [`StreamError::Silent`] when there is none until then.
    fn answer(&mut self, until: Instant) -> Result<Answer, StreamError> {
        loop {
            match self.lines.next().map_err(failed("listening to the server"))? {
                Line::Text(text) => return serde_json::from_str(&text).map_err(|_| StreamError::Words),
                Line::End => return Err(StreamError::Closed),
                Line::Nothing if crate::interrupted() => return Err(StreamError::Interrupted),
                Line::Nothing if stamp() >= until => return Err(StreamError::Silent),
                Line::Nothing => {}
            }
        }
    }

    /// Reports of intervals until a time, each told.
    fn watch(
        &mut self,
        until: Instant,
        tell: &mut dyn FnMut(&Interval),
    ) -> Result<Vec<Interval>, StreamError> {
        let mut intervals = Vec::new();
        loop {
            match self.answer(until) {
                Ok(Answer::Interval(counted)) => {
                    let at_s = intervals.last().map_or(0.0, |i: &Interval| i.to_s);
                    let interval = Interval::of(at_s, &counted, self.config.protocol);
                    tell(&interval);
                    intervals.push(interval);
                }
                Ok(_) => return Err(StreamError::Words),
                Err(StreamError::Silent) => return Ok(intervals),
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins the window.
    fn begin(&mut self) -> Result<(), StreamError> {
        self.say(&BEGIN)?;
        self.used = Family::look();
        Ok(())
    }

    /// Ends the window. Intervals that are still on their way are passed over.
    fn end(&mut self) -> Result<(Counted, Option<CpuUse>), StreamError> {
        let used = Family::look().zip(self.used).map(|(now, begin)| now.since(&begin));
        self.say(&END)?;
        let until = stamp() + ANSWER;
        loop {
            match self.answer(until)? {
                Answer::Report(counted) => {
                    return Ok((counted, used.map(|used| used.with_server(counted.cpu))));
                }
                Answer::Interval(_) => {}
                _ => return Err(StreamError::Words),
            }
        }
    }
}

fn bound(config: &ClientConfig) -> SocketAddr {
    let any: IpAddr = if config.server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    SocketAddr::new(config.from.unwrap_or(any), 0)
}

/// Connects, as soon as the server is there.
fn connect(config: &ClientConfig) -> Result<TcpStream, StreamError> {
    use rustix::net::{AddressFamily, SocketType, bind, socket};
    let until = stamp() + PATIENCE;
    loop {
        let attempt = match config.from {
            None => TcpStream::connect_timeout(&config.server, ATTEMPT),
            Some(_) => {
                let family = if config.server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                socket(family, SocketType::STREAM, None)
                    .and_then(|fd| bind(&fd, &bound(config)).map(|()| fd))
                    .and_then(|fd| rustix::net::connect(&fd, &config.server).map(|()| TcpStream::from(fd)))
                    .map_err(io::Error::from)
            }
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(_) if crate::interrupted() => return Err(StreamError::Interrupted),
            Err(source) if stamp() >= until => {
                return Err(StreamError::Unreachable { server: config.server, source });
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// Runs it once. `tell` hears each interval when it has passed.
///
/// # Errors
/// [`StreamError`]: a server that is not there, or stops answering.
pub fn run(config: &ClientConfig, tell: &mut dyn FnMut(&Interval)) -> Result<StreamRun, StreamError> {
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
    run.contention.clone_from(&report.reasons);
    run.contended = !stolen(report).is_empty();
    if run.void.is_none() && run.received_bytes == 0 {
        run.void = Some("nothing arrived".to_owned());
    }
    Ok(run)
}

fn streams(session: &mut Session<'_>, tell: &mut dyn FnMut(&Interval)) -> Result<StreamRun, StreamError> {
    let config = session.config;
    let mut open = Vec::new();
    for _ in 0..config.streams {
        let mut stream = connect(config)?;
        let hello = Hello::Data { barewire_stream: VERSION, token: session.token };
        write_line(&mut stream, &hello).map_err(failed("opening a stream"))?;
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
            Ok((intervals, session.end()?))
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
        let (intervals, (counted, used)): (Vec<Interval>, (Counted, Option<CpuUse>)) = measured?;
        Ok(StreamRun::of(&counted, counted.seconds, intervals, Protocol::Tcp)
            .charged(used, counted.bytes / CHUNK as u64))
    })
}

/// A session whose intervals are told while something is sent.
type Watching<'a, 'b> = (&'a mut Session<'b>, &'a mut dyn FnMut(&Interval));

fn datagrams(session: &mut Session<'_>, tell: &mut dyn FnMut(&Interval)) -> Result<StreamRun, StreamError> {
    let config = session.config;
    let mut bytes = vec![0x5a; config.size];
    bytes[..8].copy_from_slice(&session.token.to_le_bytes());
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
            Ok((all, watched.unwrap_or(Ok(Vec::new()))?))
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
    let (counted, used) = session.end()?;
    let mut run = StreamRun::of(&counted, sent.took.as_secs_f64(), intervals, Protocol::Udp)
        .charged(used, counted.datagrams);
    run.sent = Some(sent.count);
    run.received = Some(counted.datagrams);
    run.lost = Some(sent.count.saturating_sub(counted.datagrams));
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
