//! A baseline with its ends on two machines: the same client and the same echo servers as between the sides of one.
//!
//! Over TCP a client says first of each connection how long its messages are, how many connections it makes, and which baseline it is
//! (its place among all), [`HELLO_LEN`] bytes: `bwkernel`, then these numbers in 32 bits each, little endian. A server of another
//! baseline refuses it: the row would be called after what only one end did. A server has one client at a time, others wait in its
//! backlog.

use super::{Baseline, CONNECTIONS_MAX, Protocol, UDP_SIZE_MAX, check, grow_buffers, kernel_client, server};
use crate::awake::settle;
use crate::cpu::{CpuMeter, End};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::messages::driver::RunResult;
use crate::messages::run::Cell;
use crate::messages::{CellInfo, IdleState};
use crate::messages::{MsgWorkload, SIZE_MAX, SIZE_MIN, SystemName};
use crate::run::{one_end, watched};
use barewire_base::{Duration, Instant};
use barewire_measure::{Contention, stamp};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketAddrAny, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

const HELLO: [u8; 8] = *b"bwkernel";
/// Bytes of a hello.
pub const HELLO_LEN: usize = HELLO.len() + 12;
/// How long a client may take to greet, and to make all of its connections.
const GREETING_WAIT: Duration = Duration::from_secs(5);
/// How long a connection may take to be made.
const CONNECT_WAIT: std::time::Duration = std::time::Duration::from_secs(5);
/// Between two looks whether somebody came, or the end.
const LOOK: Duration = Duration::from_millis(20);

/// Which baseline, and where an end of it runs.
#[derive(Clone, Copy, Debug)]
pub struct KernelEnd {
    /// Which.
    pub baseline: Baseline,
    /// This end's address.
    pub ip: IpAddr,
    /// Its core.
    pub core: Option<usize>,
}

/// What a client says of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hello {
    size: u32,
    connections: u32,
    baseline: Baseline,
}

impl Hello {
    fn bytes(self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        bytes[..8].copy_from_slice(&HELLO);
        bytes[8..12].copy_from_slice(&self.size.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.connections.to_le_bytes());
        bytes[16..].copy_from_slice(&self.baseline.number().to_le_bytes());
        bytes
    }

    /// `None`: it is none, or asks for what nobody may have.
    fn parse(bytes: &[u8; HELLO_LEN]) -> Option<Hello> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let baseline = Baseline::numbered(number(16)).filter(|b| b.protocol == Protocol::Tcp)?;
        let hello = Hello { size: number(8), connections: number(12), baseline };
        let fits =
            (SIZE_MIN..=SIZE_MAX).contains(&hello.size) && (1..=CONNECTIONS_MAX).contains(&hello.connections);
        (bytes.starts_with(&HELLO) && fits).then_some(hello)
    }
}

/// Answers clients, one after the other, until `stop` says so or the process is [interrupted](crate::interrupt()). Calls `ready` when
/// it listens, `told` when a client was refused.
///
/// # Errors
/// When the address cannot be had, or the core.
pub fn serve(
    end: &KernelEnd,
    port: u16,
    ready: impl FnOnce(SocketAddr) + Send,
    mut told: impl FnMut(&str) + Send,
    stop: &AtomicBool,
) -> Result<(), BenchError> {
    let at = SocketAddr::new(end.ip, port);
    let listening = |source| BenchError::Setup { what: "listening", source };
    let done = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        // The servers look at one flag only.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) && !interrupted() {
                std::thread::sleep(LOOK.into());
            }
            done.store(true, Ordering::Relaxed);
        });
        let served = watched(end.core, || match end.baseline.protocol {
            Protocol::Udp => {
                let socket = UdpSocket::bind(at).map_err(listening)?;
                grow_buffers(&socket);
                ready(socket.local_addr().map_err(listening)?);
                server::serve_udp(&socket, end.baseline, UDP_SIZE_MAX as usize, &done).map_err(listening)
            }
            Protocol::Tcp => {
                let listener = TcpListener::bind(at).map_err(listening)?;
                listener.set_nonblocking(true).map_err(listening)?;
                ready(listener.local_addr().map_err(listening)?);
                while let Some((hello, sockets)) = client_of(&listener, end.baseline, &done, &mut told) {
                    let size = hello.size as usize;
                    if let Err(error) = server::serve_tcp(sockets, end.baseline, size, &done) {
                        told(&format!("a client's connections are closed: {error}"));
                    }
                }
                Ok(())
            }
        });
        done.store(true, Ordering::Relaxed);
        served
    });
    served.map_err(|source| BenchError::Setup { what: "pinning the server", source })?.0
}

/// The next client's connections, all of them. `None`: the end has come.
fn client_of(
    listener: &TcpListener,
    baseline: Baseline,
    done: &AtomicBool,
    told: &mut impl FnMut(&str),
) -> Option<(Hello, Vec<OwnedFd>)> {
    loop {
        let (first, sockets) = match greeted(listener, done, None) {
            Ok(Some((hello, _))) if hello.baseline != baseline => {
                told(&format!(
                    "a client of another baseline ({}, this end {}) is refused: the same `--baseline` at both ends",
                    hello.baseline.name(),
                    baseline.name()
                ));
                continue;
            }
            Ok(Some((hello, socket))) => (hello, vec![socket]),
            Ok(None) => return None,
            Err(why) => {
                told(&why);
                continue;
            }
        };
        match others(listener, done, first, sockets) {
            Ok(Some(sockets)) => return Some((first, sockets)),
            Ok(None) => return None,
            Err(why) => told(&why),
        }
    }
}

fn others(
    listener: &TcpListener,
    done: &AtomicBool,
    first: Hello,
    mut sockets: Vec<OwnedFd>,
) -> Result<Option<Vec<OwnedFd>>, String> {
    let by = stamp() + GREETING_WAIT;
    while sockets.len() < first.connections as usize {
        match greeted(listener, done, Some(by))? {
            Some((hello, socket)) if hello == first => sockets.push(socket),
            Some(_) => return Err("two clients at once: both are refused".to_owned()),
            None => return Ok(None),
        }
    }
    Ok(Some(sockets))
}

/// A connection and what it said first. `None`: the end has come.
fn greeted(
    listener: &TcpListener,
    done: &AtomicBool,
    by: Option<Instant>,
) -> Result<Option<(Hello, OwnedFd)>, String> {
    let (mut stream, from) = loop {
        if done.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match listener.accept() {
            Ok(accepted) => break accepted,
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK.into()),
            Err(e) => return Err(format!("accept: {e}")),
        }
        if by.is_some_and(|by| stamp() > by) {
            return Err("a client made fewer connections than it said".to_owned());
        }
    };
    let mut bytes = [0; HELLO_LEN];
    let mut read = || -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETING_WAIT.into()))?;
        stream.read_exact(&mut bytes)?;
        // From now on: how often a sleeping server looks whether it should stop.
        set_socket_timeout(&stream, Timeout::Recv, Some(LOOK.into())).map_err(Into::into)
    };
    read().map_err(|e| format!("{from}: {e}"))?;
    match Hello::parse(&bytes) {
        Some(hello) => Ok(Some((hello, stream.into()))),
        None => Err(format!("{from} is no client of this baseline, or asks for too much")),
    }
}

/// A client here, its server on another machine: a [`Cell`].
pub struct RemoteKernelCell {
    end: KernelEnd,
    server: SocketAddr,
    info: CellInfo,
}

impl RemoteKernelCell {
    /// The client `end` of the server at `server`.
    pub fn new(
        end: KernelEnd,
        server: SocketAddr,
        workload: MsgWorkload,
        idle_state: IdleState,
        command: String,
    ) -> RemoteKernelCell {
        let name = SystemName {
            system: end.baseline.name().to_owned(),
            mode: end.baseline.waiting.name().to_owned(),
            over: "network".to_owned(),
            idle: None,
        };
        RemoteKernelCell { end, server, info: CellInfo { name, workload, idle_state, command } }
    }

    fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let workload = &self.info.workload;
        let baseline = self.end.baseline;
        let hello = Hello { size: workload.size, connections: workload.connections, baseline };
        let connect = |_| -> io::Result<OwnedFd> {
            match baseline.protocol {
                Protocol::Tcp => {
                    let mut stream = connect_from(self.end.ip, self.server)?;
                    stream.set_nodelay(true)?;
                    stream.write_all(&hello.bytes())?;
                    Ok(stream.into())
                }
                Protocol::Udp => {
                    let socket = UdpSocket::bind(SocketAddr::new(self.end.ip, 0))?;
                    socket.connect(self.server)?;
                    grow_buffers(&socket);
                    Ok(socket.into())
                }
            }
        };
        (0..workload.connections).map(connect).collect()
    }
}

/// A connection from this address of ours: another one might go another way.
fn connect_from(ip: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let family = SocketAddrAny::from(server).address_family();
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::new(ip, 0))?;
    // Of a socket that sleeps in connect, this is how long it may.
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_WAIT))?;
    connect(&socket, &server).map_err(|errno| match errno {
        Errno::INPROGRESS | Errno::AGAIN => io::Error::from(ErrorKind::TimedOut),
        errno => errno.into(),
    })?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

impl Cell for RemoteKernelCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        let workload = &self.info.workload;
        let KernelEnd { baseline, core, .. } = self.end;
        check(baseline.protocol, workload)?;
        let setup = |what| move |source| BenchError::Setup { what, source };
        let sockets = self.sockets().map_err(setup("connecting to the server's kernel"))?;
        let cores: Vec<usize> = core.into_iter().collect();
        let awake = settle(self.info.idle_state, &cores)?;
        let meter = CpuMeter::new(&cores);
        let watch = Contention::start().threads(1);
        let ask = || {
            meter.joins(End::Client);
            let mut client =
                kernel_client(baseline, sockets, workload.size).map_err(setup("client sockets"))?;
            Ok(meter.run(&mut client, workload)?)
        };
        let (mut result, switches) = one_end(core, ask)?;
        result.contention = awake.judged(watch.finish(), &[switches]).reasons;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_seen;
    use std::net::Ipv4Addr;
    use std::sync::mpsc;

    fn end(baseline: Baseline) -> KernelEnd {
        KernelEnd { baseline, ip: Ipv4Addr::LOCALHOST.into(), core: None }
    }

    /// Runs `client` against a server; what the server told of refused ones.
    fn beside_server(end: KernelEnd, client: impl FnOnce(SocketAddr)) -> Vec<String> {
        let (stop, told) = (AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
        let (ready, at) = mpsc::sync_channel(1);
        std::thread::scope(|scope| {
            let (stop, told) = (&stop, &told);
            let server = scope.spawn(move || {
                let tell = |why: &str| told.lock().unwrap().push(why.to_owned());
                serve(&end, 0, move |at| ready.send(at).unwrap(), tell, stop)
            });
            client(at.recv().unwrap());
            stop.store(true, Ordering::Relaxed);
            server.join().unwrap().unwrap();
        });
        told.into_inner().unwrap()
    }

    #[test]
    fn every_baseline_answers_one_client_after_the_other() {
        for baseline in Baseline::all() {
            for (connections, size) in [(1, 64), (3, 200), (2, 5000)] {
                let told = beside_server(end(baseline), |at| {
                    let client = |duration| {
                        let workload = MsgWorkload {
                            size,
                            connections,
                            window: 4,
                            verify: true,
                            duration,
                            warmup: Duration::from_millis(10),
                            ..MsgWorkload::default()
                        };
                        let command = String::new();
                        let mut cell =
                            RemoteKernelCell::new(end(baseline), at, workload, IdleState::Warm, command);
                        let counts = cell.run(0).unwrap().counts;
                        assert_eq!(counts.mismatches, 0, "{baseline:?}");
                        counts.completed
                    };
                    for _ in 0..2 {
                        let completed = until_seen(Duration::from_millis(60), client, |&n| n > 0);
                        assert!(completed > 0, "{baseline:?}");
                    }
                });
                assert_eq!(told, Vec::<String>::new(), "{baseline:?}");
            }
        }
    }

    #[test]
    fn strangers_are_refused_and_the_next_client_is_served() {
        let baseline = Baseline::BLOCKING_TCP;
        let told = beside_server(end(baseline), |at| {
            let good = Hello { size: SIZE_MIN, connections: 1, baseline };
            for words in [
                *b"GET / HTTP/1.1\r\n\r\n\r\n",
                Hello { size: u32::MAX, ..good }.bytes(),
                Hello { baseline: Baseline::named("kernel-tcp-spin").unwrap(), ..good }.bytes(),
            ] {
                let mut stranger = TcpStream::connect(at).unwrap();
                stranger.write_all(&words).unwrap();
                // Closed, with words of ours unread: a reset or an end.
                assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)));
            }
            let mut stream = TcpStream::connect(at).unwrap();
            stream.write_all(&good.bytes()).unwrap();
            let mut message = SIZE_MIN.to_le_bytes().to_vec();
            message.resize(4 + SIZE_MIN as usize, 7);
            stream.write_all(&message).unwrap();
            let mut answer = vec![0; message.len()];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, message);
        });
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("no client of this baseline"), "{told:?}");
        assert!(told[2].contains("another baseline (kernel-tcp-spin, this end kernel-tcp)"), "{told:?}");
    }
}
