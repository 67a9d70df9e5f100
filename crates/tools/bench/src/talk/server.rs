//! The serving end: sessions of clients, and who tells them what they cost.

use super::frame::{Heard, Hearing, say};
use super::{Answer, Ask, At, Counted, Hello, LOOK, Report, TalkError, drain, is_wait};
use crate::cpu::Family;
use crate::switch::wires::packets_in;
use barewire_base::{Duration, Instant};
use barewire_measure::head::VERSION;
use barewire_measure::stamp;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// Clients at a time.
const SESSIONS_MAX: usize = 256;
/// Connections at a time: of all clients together.
const CONNECTIONS_MAX: usize = 4096;
/// How long a new connection may take to say what it is.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Shortest interval that is reported.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// How long a word to a client may take.
const SAY_TIME: std::time::Duration = std::time::Duration::from_secs(2);

/// One client.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) bytes: AtomicU64,
    pub(crate) datagrams: AtomicU64,
    pub(crate) over: AtomicBool,
}

/// How long a window waits for its client's turn.
const TURN_TIME: Duration = Duration::from_secs(1);

/// Who has the server, where it serves one client at a time.
#[derive(Clone, Copy, Default, PartialEq)]
struct Turn {
    whose: Option<u64>,
    /// Clients that had it so far.
    clients: u64,
}

impl Turn {
    fn is_of(&self, token: u64) -> bool {
        self.whose == Some(token)
    }
}

#[derive(Default)]
struct Sessions {
    open: HashMap<u64, Arc<Session>>,
    /// That ever were.
    ever: u64,
    turn: Turn,
}

/// What a server has for its clients' control connections.
pub(crate) struct Desk {
    work: String,
    waits: String,
    /// Whether a client may have said otherwise what is measured.
    accepts: fn(&str) -> bool,
    /// Operations done so far for all clients, where they are counted.
    operations: Option<AtomicU64>,
    /// Clients have the server by [turns](Desk::turn).
    by_turns: bool,
    sessions: Mutex<Sessions>,
    connections: AtomicUsize,
}

/// One connection less, whatever way its thread ends.
struct Connection<'a>(&'a Desk);

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What else a connection may be.
pub(crate) type Data<'a> = &'a (dyn Fn(TcpStream, Hello) -> io::Result<()> + Sync);

impl Desk {
    /// Of a server that does `work`, and waits for it as `waits` says.
    pub(crate) fn new(work: impl Into<String>, waits: impl Into<String>) -> Desk {
        Desk {
            work: work.into(),
            waits: waits.into(),
            accepts: |_| false,
            operations: None,
            by_turns: false,
            sessions: Mutex::default(),
            connections: AtomicUsize::new(0),
        }
    }

    /// The same for clients that name the work otherwise, if this says so.
    pub(crate) fn accepting(self, accepts: fn(&str) -> bool) -> Desk {
        Desk { accepts, ..self }
    }

    /// The same of a server that says how many operations it has done: [`Desk::did`].
    pub(crate) fn counting(self) -> Desk {
        Desk { operations: Some(AtomicU64::new(0)), ..self }
    }

    /// The same of a server that has one client at a time: [`Desk::turn`].
    pub(crate) fn by_turns(self) -> Desk {
        Desk { by_turns: true, ..self }
    }

    /// So many operations more.
    #[inline]
    pub(crate) fn did(&self, more: u64) {
        if let Some(operations) = &self.operations {
            operations.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn session(&self, token: u64) -> Option<Arc<Session>> {
        self.sessions().open.get(&token).cloned()
    }

    /// Does what there is to do for this client, and for no other meanwhile.
    pub(crate) fn turn<T>(&self, token: u64, serve: impl FnOnce() -> T) -> T {
        let set = |whose: Option<u64>| {
            let turn = &mut self.sessions().turn;
            *turn = Turn { whose, clients: turn.clients + u64::from(whose.is_some()) };
        };
        set(Some(token));
        let served = serve();
        set(None);
        served
    }

    /// Takes whoever connects until `stopped`, each in a thread. `data` has those that are no control connections.
    pub(crate) fn listen(&self, listener: &TcpListener, stopped: &(dyn Fn() -> bool + Sync), data: Data<'_>) {
        std::thread::scope(|scope| {
            while !stopped() {
                match listener.accept() {
                    Ok((stream, _)) => {
                        if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                            self.connections.fetch_sub(1, Ordering::Relaxed);
                            continue;
                        }
                        scope.spawn(move || {
                            let _one = Connection(self);
                            // What a client does wrong ends its connection, and is no failure of ours.
                            let _ = self.connection(stream, stopped, data);
                        });
                    }
                    Err(e) if is_wait(&e) => std::thread::sleep(std::time::Duration::from_millis(2)),
                    // Out of descriptors, or a client that left before it was accepted: later ones may be luckier.
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
    }

    fn connection(
        &self,
        stream: TcpStream,
        stopped: &(dyn Fn() -> bool + Sync),
        data: Data<'_>,
    ) -> Result<(), TalkError> {
        stream.set_nodelay(true)?;
        let mut out = stream.try_clone()?;
        let (hello, stream) = match greeted(stream, stopped) {
            Ok(Some(greeted)) => greeted,
            Ok(None) => return Ok(()),
            Err(error) => {
                if let TalkError::Version(_) = error {
                    say(&mut out, &Answer::Refused(format!("this server speaks version {VERSION}")))?;
                    drain(&mut out, HELLO_TIME, stopped);
                }
                return Err(error);
            }
        };
        let Hello::Control { token, work, interval_ms, .. } = hello else { return Ok(data(stream, hello)?) };
        if work != self.work && !(self.accepts)(&work) {
            return Ok(say(&mut out, &Answer::Other(self.work.clone()))?);
        }
        let session = Arc::new(Session::default());
        {
            let mut sessions = self.sessions();
            if sessions.open.len() >= SESSIONS_MAX || sessions.open.contains_key(&token) {
                drop(sessions);
                return Ok(say(&mut out, &Answer::Refused("too many clients".to_owned()))?);
            }
            sessions.open.insert(token, Arc::clone(&session));
            sessions.ever += 1;
        }
        let mut waits = self.waits.clone();
        if work != self.work {
            waits = format!("{waits} ({})", self.work);
        }
        let talk = Talk { desk: self, token, session: &session, interval_ms };
        // `out` stays open until the session is removed: the client may open its next one when it sees this one closed.
        let asked = talk.go(waits, stream, &mut out, stopped);
        session.over.store(true, Ordering::Relaxed);
        self.sessions().open.remove(&token);
        asked
    }
}

/// The first word of a connection, and the connection, not a byte further. `None`: it was not said in time, or is no longer wanted.
pub(crate) fn greeted(
    stream: TcpStream,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<(Hello, TcpStream)>, TalkError> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(SAY_TIME))?;
    let mut hearing = Hearing::new(stream);
    let until = stamp() + HELLO_TIME;
    // Byte by byte it has no longer, either.
    while stamp() < until && !stopped() {
        match hearing.next()? {
            Heard::Word(hello) => return Ok(Some((hello, hearing.into_source()))),
            Heard::Nothing => {}
            Heard::End => return Ok(None),
        }
    }
    Ok(None)
}

/// Counters at a time.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    bytes: u64,
    datagrams: u64,
    rx_packets: u64,
}

impl Look {
    fn since(&self, before: &Look) -> Counted {
        Counted {
            seconds: self.at.since(before.at).as_secs_f64(),
            bytes: self.bytes - before.bytes,
            datagrams: self.datagrams - before.datagrams,
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
        }
    }
}

/// A window that is open.
#[derive(Clone, Copy)]
struct Window {
    begin: Look,
    /// Begin of its interval.
    last: Look,
    used: Option<Family>,
    operations: Option<u64>,
    others: bool,
    ever: u64,
    turn: Turn,
}

/// One session's conversation.
struct Talk<'a> {
    desk: &'a Desk,
    token: u64,
    session: &'a Session,
    interval_ms: u64,
}

impl Talk<'_> {
    fn go(
        &self,
        waits: String,
        stream: TcpStream,
        out: &mut TcpStream,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), TalkError> {
        let loopback = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
        let interval = (self.interval_ms > 0)
            .then(|| Duration::from_millis(self.interval_ms.min(u64::from(u32::MAX))).max(INTERVAL_MIN));
        let look = || Look {
            at: stamp(),
            bytes: self.session.bytes.load(Ordering::Relaxed),
            datagrams: self.session.datagrams.load(Ordering::Relaxed),
            // Of streams alone: reading them costs more than all else.
            rx_packets: interval.and_then(|_| packets_in(loopback)).unwrap_or(0),
        };
        say(out, &Answer::Ready { waits })?;
        let mut hearing = Hearing::new(stream);
        let mut window: Option<Window> = None;
        while !stopped() {
            let due = window.as_ref().zip(interval).map(|(window, interval)| window.last.at + interval);
            let wait = due.map_or(LOOK, |due| LOOK.min(due.since(stamp()).into()));
            hearing.source().set_read_timeout(Some(wait.max(std::time::Duration::from_millis(1))))?;
            match (hearing.next()?, &mut window) {
                (Heard::End, _) => return Ok(()),
                (Heard::Nothing, Some(window)) if due.is_some_and(|due| stamp() >= due) => {
                    let now = look();
                    say(out, &Answer::Interval(now.since(&window.last)))?;
                    window.last = now;
                }
                (Heard::Nothing, _) => {}
                (Heard::Word(Ask::Begin), window) => {
                    self.await_turn(stopped);
                    *window = Some(self.begin(look()));
                    say(out, &Answer::Begun)?;
                }
                (Heard::Word(Ask::End), open) => {
                    // Nothing has begun.
                    let Some(window) = open.take() else { return Err(TalkError::Words) };
                    say(out, &Answer::Report(self.report(&window, &look())))?;
                }
            }
        }
        Ok(())
    }

    fn operations(&self) -> Option<u64> {
        self.desk.operations.as_ref().map(|n| n.load(Ordering::Relaxed))
    }

    /// Until the server is this client's: connections may wait behind another's.
    fn await_turn(&self, stopped: &dyn Fn() -> bool) {
        let until = stamp() + TURN_TIME;
        let is_next = || !self.desk.by_turns || self.desk.sessions().turn.is_of(self.token);
        while !is_next() && stamp() < until && !stopped() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn begin(&self, now: Look) -> Window {
        let sessions = self.desk.sessions();
        Window {
            begin: now,
            last: now,
            used: Family::look(),
            operations: self.operations(),
            others: sessions.open.len() > 1,
            ever: sessions.ever,
            turn: sessions.turn,
        }
    }

    fn report(&self, window: &Window, now: &Look) -> Report {
        let used = Family::look().zip(window.used).map(|(now, begin)| now.told_since(&begin));
        let operations = self.operations().zip(window.operations).map(|(now, begin)| now - begin);
        let sessions = self.desk.sessions();
        let is_in_turn = window.turn.is_of(self.token) && sessions.turn.clients == window.turn.clients;
        let is_other = self.desk.by_turns && !is_in_turn;
        let shared = window.others || sessions.ever != window.ever || is_other;
        Report { counted: now.since(&window.begin), operations, shared, cpu: used.filter(|_| !shared) }
    }
}

/// Where a server opens its control connections once it is known where it serves.
pub(crate) struct Door {
    at: At,
    tell: mpsc::Sender<TcpListener>,
}

impl Door {
    /// Listens, for a server of what is measured at `measured`. What is to be told of it.
    pub(crate) fn open(&self, measured: SocketAddr) -> String {
        let Some(at) = self.at.of(measured) else {
            return "no control connection: clients will not know this end's CPU".to_owned();
        };
        let listening = || -> io::Result<(TcpListener, SocketAddr)> {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            let own = listener.local_addr()?;
            Ok((listener, own))
        };
        match listening() {
            Ok((listener, own)) => {
                let _ = self.tell.send(listener);
                format!("control connection at {own}")
            }
            Err(why) => {
                format!("no control connection at {at}, so clients will not know this end's CPU: {why}")
            }
        }
    }
}

/// Runs `serve` with the desk's control connections beside it, in threads that are made before: `serve` may pin its own.
pub(crate) fn beside<T>(desk: &Desk, at: At, stop: &AtomicBool, serve: impl FnOnce(&Door) -> T) -> T {
    /// Whatever way the server ends.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    let over = &over;
    let (tell, told) = mpsc::channel::<TcpListener>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let stopped =
                || over.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) || crate::interrupted();
            // The server hangs up when it ends, or when it is not to be talked to.
            if let Ok(listener) = told.recv() {
                desk.listen(&listener, &stopped, &|_, _| Ok(()));
            }
        });
        let _over = Over(over);
        let door = Door { at, tell };
        serve(&door)
    })
}
