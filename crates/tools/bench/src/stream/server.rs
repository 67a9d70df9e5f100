//! The receiving end: counts what comes, for any number of clients, and says so.

use super::StreamError;
use super::protocol::{Answer, BEGIN, Counted, END, Hello, Line, Lines, VERSION, write_line};
use super::pump::{self, LOOK, is_wait};
use crate::cpu::Family;
use crate::switch::wires::packets_in;
use barewire_base::{Duration, Instant};
use barewire_measure::stamp;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Clients at a time.
pub const SESSIONS_MAX: usize = 256;
/// Connections at a time: of all clients together.
const CONNECTIONS_MAX: usize = 4096;
/// Room for datagrams in the kernel.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
/// How long a new connection may take to say what it is.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Ports that are tried where the kernel chooses one.
const PORT_TRIES: u32 = 16;
/// Shortest interval that is reported.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// One client.
#[derive(Default)]
struct Session {
    bytes: AtomicU64,
    datagrams: AtomicU64,
    over: AtomicBool,
}

#[derive(Default)]
struct Shared {
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    connections: AtomicUsize,
    stop: AtomicBool,
}

impl Shared {
    fn session(&self, token: u64) -> Option<Arc<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(&token).cloned()
    }

    /// Whether there is one client: what this process uses is for it then.
    fn is_alone(&self) -> bool {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).len() == 1
    }

    fn stopped(&self, stop: &AtomicBool) -> bool {
        self.stop.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) || crate::interrupted()
    }
}

/// One connection less, whatever way its thread ends.
struct Connection<'a>(&'a Shared);

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Receives at `at`, over TCP and UDP, until `stop` is set or the process is [interrupted](crate::interrupt()). Calls `ready`
/// with the address when it listens.
///
/// # Errors
/// What could not be listened on. What a client does wrong ends that client.
pub fn serve(at: SocketAddr, ready: impl FnOnce(SocketAddr), stop: &AtomicBool) -> Result<(), StreamError> {
    let failed = |what: &'static str| move |source| StreamError::Io { what, source };
    let (listener, datagrams) = bind_both(at, UdpSocket::bind)?;
    let at = listener.local_addr().map_err(failed("listening"))?;
    datagrams.set_read_timeout(Some(LOOK)).map_err(failed("listening for datagrams"))?;
    // More than an unprivileged process may ask for, where it may.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&datagrams, RECEIVE_BUFFER_BYTES);
    listener.set_nonblocking(true).map_err(failed("listening"))?;
    let shared = Shared::default();
    ready(at);
    std::thread::scope(|scope| {
        let shared = &shared;
        let counting = scope.spawn(|| count_datagrams(&datagrams, shared, stop));
        let mut result = Ok(());
        while result.is_ok() && !shared.stopped(stop) {
            match listener.accept() {
                Ok((stream, _)) => {
                    if shared.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                        shared.connections.fetch_sub(1, Ordering::Relaxed);
                        continue;
                    }
                    scope.spawn(move || {
                        let _one = Connection(shared);
                        // What a client does wrong ends its connection, and is no failure of ours.
                        let _ = connection(stream, shared, stop);
                    });
                }
                Err(e) if is_wait(&e) => std::thread::sleep(std::time::Duration::from_millis(2)),
                // Out of descriptors, or a client that left before it was accepted: later ones may be luckier.
                Err(_) => std::thread::sleep(LOOK),
            }
            // It ends when it is told to, too, and may be told before this loop looks again.
            if counting.is_finished() && !shared.stopped(stop) {
                result = Err(StreamError::Stopped);
            }
        }
        shared.stop.store(true, Ordering::Relaxed);
        let counted = counting.join().map_err(|_| StreamError::Stopped)?;
        counted.map_err(failed("receiving datagrams"))?;
        result
    })
}

/// Both at one port. Where the kernel chooses it, it chooses for TCP, and somebody may have it for UDP: then it chooses again.
fn bind_both(
    at: SocketAddr,
    udp: impl Fn(SocketAddr) -> io::Result<UdpSocket>,
) -> Result<(TcpListener, UdpSocket), StreamError> {
    let failed = |what: &'static str| move |source| StreamError::Io { what, source };
    let mut tries = if at.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        let listener = TcpListener::bind(at).map_err(failed("listening"))?;
        let own = listener.local_addr().map_err(failed("listening"))?;
        tries -= 1;
        match udp(own) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            datagrams => return Ok((listener, datagrams.map_err(failed("listening for datagrams"))?)),
        }
    }
}

fn count_datagrams(socket: &UdpSocket, shared: &Shared, stop: &AtomicBool) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    // The last one's, so that the map is not locked for every datagram.
    let mut last: Option<(u64, Arc<Session>)> = None;
    while !shared.stopped(stop) {
        let n = match socket.recv(&mut bytes) {
            Ok(n) => n,
            Err(e) if is_wait(&e) => continue,
            Err(e) => return Err(e),
        };
        let Some(token) = bytes[..n].first_chunk().map(|first| u64::from_le_bytes(*first)) else { continue };
        if last
            .as_ref()
            .is_none_or(|(known, session)| *known != token || session.over.load(Ordering::Relaxed))
        {
            last = shared.session(token).map(|session| (token, session));
        }
        if let Some((_, session)) = &last {
            session.bytes.fetch_add(n as u64, Ordering::Relaxed);
            session.datagrams.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn connection(stream: TcpStream, shared: &Shared, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(std::time::Duration::from_secs(2)))?;
    let mut lines = Lines::new(stream.try_clone()?);
    let until = stamp() + HELLO_TIME;
    let hello = loop {
        match lines.next()? {
            Line::Text(text) => break text,
            Line::Nothing if stamp() < until && !shared.stopped(stop) => {}
            _ => return Ok(()),
        }
    };
    let mut out = stream.try_clone()?;
    match serde_json::from_str(&hello) {
        Ok(Hello::Control { barewire_stream: VERSION, token, interval_ms }) => {
            let session = Arc::new(Session::default());
            {
                let mut sessions = shared.sessions.lock().unwrap_or_else(PoisonError::into_inner);
                if sessions.len() >= SESSIONS_MAX || sessions.contains_key(&token) {
                    drop(sessions);
                    return write_line(&mut out, &Answer::Refused("too many clients".to_owned()));
                }
                sessions.insert(token, Arc::clone(&session));
            }
            let loopback = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
            let interval = Duration::from_millis(interval_ms).max(INTERVAL_MIN);
            let around = Around { shared, stop, loopback };
            let result = control(lines, out, &session, interval, &around);
            session.over.store(true, Ordering::Relaxed);
            shared.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
            result
        }
        Ok(Hello::Data { barewire_stream: VERSION, token }) => match shared.session(token) {
            Some(session) => pump::read_until(stream, &session.over, &session.bytes),
            None => Ok(()),
        },
        Ok(_) => write_line(&mut out, &Answer::Refused(format!("this server speaks version {VERSION}"))),
        Err(_) => Ok(()),
    }
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
    fn now(session: &Session, loopback: bool) -> Look {
        Look {
            at: stamp(),
            bytes: session.bytes.load(Ordering::Relaxed),
            datagrams: session.datagrams.load(Ordering::Relaxed),
            rx_packets: packets_in(loopback).unwrap_or(0),
        }
    }

    fn since(&self, before: &Look) -> Counted {
        Counted {
            seconds: self.at.since(before.at).as_secs_f64(),
            bytes: self.bytes - before.bytes,
            datagrams: self.datagrams - before.datagrams,
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
            cpu: None,
        }
    }
}

/// What a session needs to know of its server.
struct Around<'a> {
    shared: &'a Shared,
    stop: &'a AtomicBool,
    loopback: bool,
}

impl Around<'_> {
    /// What this process has used, as long as it is for one client.
    fn family(&self) -> Option<Family> {
        self.shared.is_alone().then(Family::look).flatten()
    }
}

fn control(
    mut lines: Lines<TcpStream>,
    mut out: TcpStream,
    session: &Session,
    interval: Duration,
    around: &Around<'_>,
) -> io::Result<()> {
    write_line(&mut out, &Answer::Ready)?;
    // The window's begin, and that of its interval.
    let mut window: Option<(Look, Look)> = None;
    let mut used = None;
    while !around.shared.stopped(around.stop) {
        let due = window.map(|(_, last)| last.at + interval);
        let wait = due.map_or(LOOK, |due| LOOK.min(due.since(stamp()).into()));
        out.set_read_timeout(Some(wait.max(std::time::Duration::from_millis(1))))?;
        let line = lines.next()?;
        let now = Look::now(session, around.loopback);
        match (line, &mut window) {
            (Line::End, _) => return Ok(()),
            (Line::Nothing, Some((_, last))) if due.is_some_and(|due| now.at >= due) => {
                write_line(&mut out, &Answer::Interval(now.since(last)))?;
                *last = now;
            }
            (Line::Nothing, _) => {}
            (Line::Text(text), window) => match (text.trim_matches('"'), &*window) {
                (BEGIN, _) => {
                    *window = Some((now, now));
                    used = around.family();
                }
                (END, Some((begin, _))) => {
                    let cpu = around.family().zip(used).map(|(now, begin)| now.told_since(&begin));
                    write_line(&mut out, &Answer::Report(Counted { cpu, ..now.since(begin) }))?;
                    *window = None;
                }
                _ => return Ok(()),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_port_that_is_taken_for_datagrams_is_left_and_one_that_was_asked_for_is_not() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let asked = RefCell::new(Vec::new());
        let taken = |times: usize| {
            let asked = &asked;
            move |at: SocketAddr| {
                asked.borrow_mut().push(at.port());
                if asked.borrow().len() <= times {
                    Err(io::ErrorKind::AddrInUse.into())
                } else {
                    UdpSocket::bind(at)
                }
            }
        };
        let (listener, datagrams) = bind_both(any, taken(2)).unwrap();
        let own = listener.local_addr().unwrap();
        assert_eq!((own, asked.borrow().len()), (datagrams.local_addr().unwrap(), 3));
        assert!(asked.borrow().iter().all(|&port| port != 0) && asked.borrow().last() == Some(&own.port()));
        drop((listener, datagrams));
        asked.borrow_mut().clear();
        let given_up = bind_both(any, taken(usize::MAX));
        assert!(matches!(given_up, Err(StreamError::Io { what: "listening for datagrams", .. })));
        assert_eq!(asked.borrow().len(), PORT_TRIES as usize);
        asked.borrow_mut().clear();
        assert!(bind_both(own, taken(1)).is_err());
        assert_eq!(*asked.borrow(), [own.port()], "who names a port wants that one");
    }
}
