//! The Thrift server: one thread a connection, a bounded number of them.
//!
//! Messages follow each other on a connection without a frame (p4lang's clients use the buffered transport). A
//! connection that sends what is no message is closed and counted; the others and the switch go on.

use super::codec::{CodecError, Limits, read_message, write_message};
use super::{Context, answer};
use barewire_base::{Duration, Instant};
use barewire_switch::control::Switch;
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A client that has been silent for so long is asked whether it is there, by the kernel.
const ALIVE_AFTER: std::time::Duration = std::time::Duration::from_secs(60);
/// Between two such questions.
const ALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(10);

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// Connections at one time; one more is closed at once.
    pub max_connections: usize,
    /// How long a message may take to arrive once it has begun, and an answer to leave.
    pub message_timeout_ms: u64,
    /// What a message may hold.
    pub limits: Limits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions { max_connections: 256, message_timeout_ms: 30_000, limits: Limits::REQUEST }
    }
}

/// What a server has seen.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Connections taken.
    pub accepted: AtomicU64,
    /// Connections closed because there were too many.
    pub refused: AtomicU64,
    /// Calls answered.
    pub calls: AtomicU64,
    /// Connections closed because they sent what is no message, or too slowly.
    pub malformed: AtomicU64,
}

struct Shared {
    context: Context,
    options: ServerOptions,
    stats: ServerStats,
    stop: AtomicBool,
    /// A second handle on each open connection, by which it is shut when the server stops.
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<u64, TcpStream>> {
        // Nothing under this lock can leave the map half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Listen on an address (port 0 takes a free one) and serve.
    pub fn start(address: impl ToSocketAddrs, switch: Switch, options: ServerOptions) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            context: Context { switch, port: Some(address.port()) },
            options,
            stats: ServerStats::default(),
            stop: AtomicBool::new(false),
            open: Mutex::new(HashMap::new()),
        });
        let for_acceptor = Arc::clone(&shared);
        let acceptor = std::thread::Builder::new()
            .name("thrift".into())
            .spawn(move || accept(&listener, &for_acceptor))?;
        Ok(Server { address, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What it has seen.
    pub fn stats(&self) -> &ServerStats {
        &self.shared.stats
    }

    /// Stop: no new connections, the open ones shut, their threads joined.
    pub fn stop(mut self) {
        self.shut();
    }

    fn shut(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.stop.store(true, Ordering::SeqCst);
        // `accept` waits for a connection: make it one.
        let mut to = self.address;
        if to.ip().is_unspecified() {
            to.set_ip(match to.ip() {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        let woken = TcpStream::connect_timeout(&to, std::time::Duration::from_secs(1)).is_ok();
        for stream in self.shared.open().values() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        if woken {
            // A panic there was reported by its own thread.
            let _ = acceptor.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut next = 0;
    loop {
        let accepted = listener.accept();
        if shared.stop.load(Ordering::SeqCst) {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, or the peer is gone already: leave the processor to others for a moment.
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        };
        if threads.len() >= shared.options.max_connections {
            shared.stats.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let id = next;
        next += 1;
        let Ok(second) = stream.try_clone() else { continue };
        shared.open().insert(id, second);
        let for_thread = Arc::clone(shared);
        let spawned = std::thread::Builder::new().name("thrift-call".into()).spawn(move || {
            serve(&stream, &for_thread);
            for_thread.open().remove(&id);
        });
        match spawned {
            Ok(thread) => {
                shared.stats.accepted.fetch_add(1, Ordering::Relaxed);
                threads.push(thread);
            }
            Err(_) => {
                shared.open().remove(&id);
                shared.stats.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    // One may have come between the flag and the shutting of those open then.
    for stream in shared.open().values() {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Bytes of a connection, with a deadline for a message that has begun.
struct Timed<'a> {
    stream: &'a TcpStream,
    timeout: Duration,
    /// When the message under way must be whole; none between messages.
    deadline: Option<Instant>,
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = (&mut &*self.stream).read(into);
            let now = barewire_engine::now();
            match result {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    match self.deadline {
                        // Between messages a client may be silent for as long as it likes.
                        None => continue,
                        Some(_) => return Err(io::ErrorKind::TimedOut.into()),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(count) if count > 0 => {
                    let deadline = *self.deadline.get_or_insert(now + self.timeout);
                    return if now > deadline { Err(io::ErrorKind::TimedOut.into()) } else { Ok(count) };
                }
                other => return other,
            }
        }
    }
}

/// Clients may be silent for as long as they like, so the kernel asks whether one is there at all: a host that went away
/// without a word would keep its place for ever.
fn prepare(stream: &TcpStream, timeout: std::time::Duration) -> io::Result<()> {
    let asked =
        socket2::TcpKeepalive::new().with_time(ALIVE_AFTER).with_interval(ALIVE_EVERY).with_retries(3);
    socket2::SockRef::from(stream).set_tcp_keepalive(&asked)?;
    // Answers are small and waited for.
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

fn serve(stream: &TcpStream, shared: &Shared) {
    let timeout = std::time::Duration::from_millis(shared.options.message_timeout_ms.max(1));
    // A socket that refuses any of these is dead, which the first read shows.
    let _ = prepare(stream, timeout);
    let timed = Timed {
        stream,
        timeout: Duration::from_millis(shared.options.message_timeout_ms.max(1)),
        deadline: None,
    };
    let mut from = BufReader::with_capacity(1 << 16, timed);
    let mut bytes = Vec::new();
    loop {
        // Bytes read ahead belong to the next message: its time runs from now.
        let begun = !from.buffer().is_empty();
        let timed = from.get_mut();
        timed.deadline = begun.then(|| barewire_engine::now() + timed.timeout);
        let message = match read_message(&mut from, shared.options.limits) {
            Ok(message) => message,
            Err(error) => {
                let ended = matches!(&error, CodecError::Io(io) if io.kind() == io::ErrorKind::UnexpectedEof)
                    && from.get_ref().deadline.is_none();
                if !ended && !shared.stop.load(Ordering::Relaxed) {
                    shared.stats.malformed.fetch_add(1, Ordering::Relaxed);
                }
                break;
            }
        };
        shared.stats.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(reply) = answer(&shared.context, message) {
            bytes.clear();
            write_message(&mut bytes, &reply);
            if (&mut &*stream).write_all(&bytes).is_err() {
                break;
            }
        }
        // A dump of a million entries need not be kept for the next answer.
        if bytes.capacity() > 1 << 20 {
            bytes = Vec::new();
        }
    }
    // Shut explicitly: the second handle in the map would keep it open.
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_is_asked_whether_it_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let timeout = std::time::Duration::from_secs(30);
        prepare(&stream, timeout).unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), ALIVE_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), ALIVE_EVERY);
        assert_eq!(stream.read_timeout().unwrap(), Some(timeout));
        assert!(stream.nodelay().unwrap());
    }
}
