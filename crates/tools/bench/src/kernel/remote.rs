//! A baseline with its ends on two machines: the same client and the same echo servers as between the sides of one.
//!
//! Over TCP a client says first of each connection which baseline it is, how long its messages are, and how many connections it makes
//! ([`talk`](crate::talk)). A server of another baseline refuses it: the row would be called after what only one end did. A server has one
//! client at a time, others wait in its backlog. Over UDP a row says how both ends wait.

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
use crate::talk::client::{Asked, Peer, connect_from, new_token};
use crate::talk::server::{Desk, beside, greeted};
use crate::talk::{At, Hello, frame::say};
use barewire_base::{Duration, Instant};
use barewire_measure::{Contention, stamp};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a client may take to make all of its connections.
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

/// What a client says of its connections, the same of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    token: u64,
    baseline: Baseline,
    size: u32,
    connections: u32,
}

impl Client {
    /// `None`: it is none, or asks for what nobody may have.
    fn of(hello: Hello) -> Option<Client> {
        let Hello::Messages { token, baseline, size, connections } = hello else { return None };
        let baseline = Baseline::named(&baseline).filter(|b| b.protocol == Protocol::Tcp)?;
        let fits = (SIZE_MIN..=SIZE_MAX).contains(&size) && (1..=CONNECTIONS_MAX).contains(&connections);
        fits.then_some(Client { token, baseline, size, connections })
    }
}

/// What clients may call the work of a server: over TCP what it is, over UDP whatever sends datagrams.
fn desk_of(baseline: Baseline) -> Desk {
    let desk = Desk::new(baseline.name(), baseline.waiting.name());
    match baseline.protocol {
        Protocol::Tcp => desk.by_turns(),
        Protocol::Udp => desk
            .counting()
            .accepting(|work| Baseline::named(work).is_some_and(|theirs| theirs.protocol == Protocol::Udp)),
    }
}

/// Answers clients, one after the other, until `stop` says so or the process is [interrupted](crate::interrupt()). Calls `ready` when
/// it listens, `told` when a client was refused, and first with where its [control connections](At) are.
///
/// # Errors
/// When the address cannot be had, or the core.
pub fn serve(
    end: &KernelEnd,
    port: u16,
    control: At,
    ready: &mut (dyn FnMut(SocketAddr) + Send),
    told: &mut (dyn FnMut(&str) + Send),
    stop: &AtomicBool,
) -> Result<(), BenchError> {
    let at = SocketAddr::new(end.ip, port);
    let listening = |source| BenchError::Setup { what: "listening", source };
    let done = AtomicBool::new(false);
    let desk = desk_of(end.baseline);
    let served = std::thread::scope(|scope| {
        // The servers look at one flag only.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) && !interrupted() {
                std::thread::sleep(LOOK.into());
            }
            done.store(true, Ordering::Relaxed);
        });
        let served = beside(&desk, control, &done, |door| {
            watched(end.core, || match end.baseline.protocol {
                Protocol::Udp => {
                    let socket = UdpSocket::bind(at).map_err(listening)?;
                    grow_buffers(&socket);
                    let own = socket.local_addr().map_err(listening)?;
                    told(&door.open(own));
                    ready(own);
                    let did = |bytes| desk.did(bytes);
                    server::serve_udp(&socket, end.baseline, UDP_SIZE_MAX as usize, &done, did)
                        .map_err(listening)
                }
                Protocol::Tcp => {
                    let listener = TcpListener::bind(at).map_err(listening)?;
                    listener.set_nonblocking(true).map_err(listening)?;
                    let own = listener.local_addr().map_err(listening)?;
                    told(&door.open(own));
                    ready(own);
                    while let Some((client, sockets)) = client_of(&listener, end.baseline, &done, told) {
                        let size = client.size as usize;
                        let serve = || server::serve_tcp(sockets, end.baseline, size, &done);
                        if let Err(error) = desk.turn(client.token, serve) {
                            told(&format!("a client's connections are closed: {error}"));
                        }
                    }
                    Ok(())
                }
            })
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
    told: &mut dyn FnMut(&str),
) -> Option<(Client, Vec<OwnedFd>)> {
    loop {
        let (first, sockets) = match next_of(listener, done, None) {
            Ok(Some((client, _))) if client.baseline != baseline => {
                told(&format!(
                    "a client of another baseline ({}, this end {}) is refused: the same `--baseline` at both ends",
                    client.baseline.name(),
                    baseline.name()
                ));
                continue;
            }
            Ok(Some((client, socket))) => (client, vec![socket]),
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
    first: Client,
    mut sockets: Vec<OwnedFd>,
) -> Result<Option<Vec<OwnedFd>>, String> {
    let by = stamp() + GREETING_WAIT;
    while sockets.len() < first.connections as usize {
        match next_of(listener, done, Some(by))? {
            Some((client, socket)) if client == first => sockets.push(socket),
            Some(_) => return Err("two clients at once: both are refused".to_owned()),
            None => return Ok(None),
        }
    }
    Ok(Some(sockets))
}

/// A connection and what it said first. `None`: the end has come.
fn next_of(
    listener: &TcpListener,
    done: &AtomicBool,
    by: Option<Instant>,
) -> Result<Option<(Client, OwnedFd)>, String> {
    let stopped = || done.load(Ordering::Relaxed);
    let (stream, from) = loop {
        if stopped() {
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
    let greeted = stream.set_nodelay(true).map_err(Into::into).and_then(|()| greeted(stream, &stopped));
    let Some((hello, stream)) = greeted.map_err(|e| format!("{from} is no client of this baseline: {e}"))?
    else {
        return if stopped() { Ok(None) } else { Err(format!("{from} said nothing")) };
    };
    // From now on: how often a sleeping server looks whether it should stop.
    let waits = set_socket_timeout(&stream, Timeout::Recv, Some(LOOK.into()))
        .and_then(|()| set_socket_timeout(&stream, Timeout::Send, None));
    waits.map_err(|e| format!("{from}: {e}"))?;
    match Client::of(hello) {
        Some(client) => Ok(Some((client, stream.into()))),
        None => Err(format!("{from} is no client of this baseline, or asks for too much")),
    }
}

/// A client here, its server on another machine: a [`Cell`].
pub struct RemoteKernelCell {
    end: KernelEnd,
    server: SocketAddr,
    asked: Asked,
    info: CellInfo,
}

impl RemoteKernelCell {
    /// The client `end` of the server at `server`, whose control connections are at `control`.
    pub fn new(
        end: KernelEnd,
        server: SocketAddr,
        control: At,
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
        let asked = Asked {
            at: control,
            measured: server,
            work: end.baseline.name().to_owned(),
            waits: end.baseline.waiting.name().to_owned(),
            missing: None,
        };
        RemoteKernelCell { end, server, asked, info: CellInfo { name, workload, idle_state, command } }
    }

    fn sockets(&self, token: u64) -> io::Result<Vec<OwnedFd>> {
        let workload = &self.info.workload;
        let baseline = self.end.baseline;
        let (name, size, connections) = (baseline.name().to_owned(), workload.size, workload.connections);
        let hello = Hello::Messages { token, baseline: name, size, connections };
        let connect = |_| -> io::Result<OwnedFd> {
            match baseline.protocol {
                Protocol::Tcp => {
                    let mut stream = connect_from(Some(self.end.ip), self.server, CONNECT_WAIT)?;
                    stream.set_nodelay(true)?;
                    say(&mut stream, &hello)?;
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

impl Cell for RemoteKernelCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        let workload = &self.info.workload;
        let KernelEnd { baseline, core, .. } = self.end;
        check(baseline.protocol, workload)?;
        let setup = |what| move |source| BenchError::Setup { what, source };
        let (peer, other) = Peer::open(&mut self.asked);
        let refuses = |work: &String| Baseline::named(work).is_some_and(|b| b.protocol == Protocol::Tcp);
        if let Some(work) = other.filter(|work| baseline.protocol == Protocol::Tcp && refuses(work)) {
            let why = format!(
                "the server is {work}, this end {}: the same `--baseline` at both ends",
                baseline.name()
            );
            return Err(BenchError::Plan(why));
        }
        let token = peer.token().unwrap_or_else(new_token);
        let sockets = self.sockets(token).map_err(setup("connecting to the server's kernel"))?;
        let cores: Vec<usize> = core.into_iter().collect();
        let awake = settle(self.info.idle_state, &cores)?;
        let meter = CpuMeter::with_peer(peer);
        let watch = Contention::start().threads(1);
        let ask = || {
            meter.joins(End::Client);
            let mut client =
                kernel_client(baseline, sockets, workload.size).map_err(setup("client sockets"))?;
            Ok(meter.run(&mut client, workload)?)
        };
        let (mut result, switches) = one_end(core, ask)?;
        self.asked.remember(result.other_end.as_ref());
        result.contention = awake.judged(watch.finish(), &[switches]).reasons;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_seen;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};
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
                let tell = &mut |why: &str| told.lock().unwrap().push(why.to_owned());
                // Where control connections are is told first, and here there are none.
                serve(&end, 0, At::Nowhere, &mut |at| ready.send(at).unwrap(), tell, stop)
            });
            client(at.recv().unwrap());
            stop.store(true, Ordering::Relaxed);
            server.join().unwrap().unwrap();
        });
        let mut told = told.into_inner().unwrap();
        assert!(told.remove(0).starts_with("no control connection"), "{told:?}");
        told
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
                        let mut cell = RemoteKernelCell::new(
                            end(baseline),
                            at,
                            At::Nowhere,
                            workload,
                            IdleState::Warm,
                            command,
                        );
                        let RunResult { counts, other_end, .. } = cell.run(0).unwrap();
                        assert_eq!(counts.mismatches, 0, "{baseline:?}");
                        let other = other_end.unwrap();
                        assert!(
                            other.cpu_unknown.is_some() && other.waits.ends_with("server unknown"),
                            "{other:?}"
                        );
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
            let hello = |(baseline, size, connections): (&str, u32, u32)| {
                let mut bytes = Vec::new();
                let baseline = baseline.to_owned();
                say(&mut bytes, &Hello::Messages { token: 7, baseline, size, connections }).unwrap();
                bytes
            };
            for words in [
                b"GET / HTTP/1.1\r\n\r\n\r\n".to_vec(),
                hello((baseline.name(), u32::MAX, 1)),
                hello(("kernel-tcp-spin", SIZE_MIN, 1)),
            ] {
                let mut stranger = TcpStream::connect(at).unwrap();
                stranger.write_all(&words).unwrap();
                // Closed, with words of ours unread: a reset or an end.
                assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)));
            }
            let mut stream = TcpStream::connect(at).unwrap();
            stream.write_all(&hello((baseline.name(), SIZE_MIN, 1))).unwrap();
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
