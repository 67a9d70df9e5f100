//! Baselines: the same workload over the kernel's TCP and UDP sockets.
//!
//! Messages of one fixed size, `TCP_NODELAY`. Over TCP a message has a length of four bytes in front; over UDP the datagram is the
//! message. The server is one thread that answers with the bytes it got; the client is one thread that runs the [`driver`]. Each has its
//! core, if cores are given, and its sockets belong to its own side of the wires.
//!
//! A [`Baseline`] says how many messages a call takes, and how both ends wait. `blocking` sleeps in the kernel: in `recv` for one
//! connection, in `ppoll` or `epoll_wait` for several, in `io_uring_enter`; `spin` calls a `recv` that does not wait, over and over.

mod baseline;
mod batch;
mod client;
mod datagrams;
mod link;
mod many;
mod remote;
mod segments;
mod server;
mod tls;

pub use baseline::{BUSY_POLL_US, Baseline, Calls, Protocol, SPIN_FIRST, Waiting};
pub use client::kernel_client;
pub use remote::{KernelEnd, RemoteKernelCell, serve};

use crate::awake::settle;
use crate::cpu::{CpuMeter, End};
use crate::error::BenchError;
use crate::messages::driver::{self, RunResult};
use crate::messages::run::Cell;
use crate::messages::{CellInfo, IdleState};
use crate::messages::{MsgWorkload, SystemName};
use crate::run::{Both, Stop, two_ends};
use barewire_base::Duration;
use barewire_measure::Contention;
use barewire_netns::TwoHosts;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most connections of a baseline: the descriptors of one `ppoll` live on the stack.
pub const CONNECTIONS_MAX: u32 = 64;
/// Largest message over UDP: an IPv4 datagram's payload. From the MTU on the kernel fragments it.
pub const UDP_SIZE_MAX: u32 = 65_507;
/// A request over UDP that was not answered for so long is sent again.
pub const UDP_RESEND_AFTER: Duration = Duration::from_millis(50);
/// Socket buffers asked for over UDP, where an overrun is a loss.
const UDP_BUFFER_LEN: usize = 4 << 20;

/// Runs a closure where sockets of one side have to be made. A socket keeps the network namespace that it was made in.
pub type Enter = Arc<dyn Fn(&mut (dyn FnMut() + Send)) -> io::Result<()> + Send + Sync>;

/// The two sides between which a baseline runs.
#[derive(Clone)]
pub struct Ends {
    /// What lies between them, for the row: `loopback`, `veth`.
    pub over: String,
    /// The server's address, as the client sees it.
    pub server_ip: IpAddr,
    /// The client's side.
    pub client: Enter,
    /// The server's side.
    pub server: Enter,
}

impl Ends {
    /// Both ends on 127.0.0.1: needs no privilege, has no link.
    pub fn loopback() -> Ends {
        let here: Enter = Arc::new(|f| {
            f();
            Ok(())
        });
        Ends {
            over: "loopback".to_owned(),
            server_ip: Ipv4Addr::LOCALHOST.into(),
            client: Arc::clone(&here),
            server: here,
        }
    }

    /// Client on the first host, server on the second, over the twin wire, which has no program attached; over `eth0` when
    /// the pair has no twin. Holds the hosts until the last clone is gone.
    pub fn hosts(hosts: &Arc<TwoHosts>) -> Ends {
        let side = |first: bool| -> Enter {
            let hosts = Arc::clone(hosts);
            Arc::new(move |f: &mut (dyn FnMut() + Send)| {
                let ns = if first { &hosts.ns_a } else { &hosts.ns_b };
                ns.enter(f).map_err(io::Error::other)
            })
        };
        let server = hosts.twin.as_ref().map_or(&hosts.eth_b, |(_, b)| b);
        Ends { over: "veth".to_owned(), server_ip: server.v4.into(), client: side(true), server: side(false) }
    }
}

/// A kernel baseline: a [`Cell`] of an interleaved plan.
#[derive(Clone)]
pub struct KernelCell {
    baseline: Baseline,
    ends: Ends,
    cores: Option<(usize, usize)>,
    info: CellInfo,
}

impl KernelCell {
    /// A baseline of `workload` between `ends`. `cores`: client's and server's, to pin them. `command` is what the row
    /// says produced it.
    pub fn new(
        baseline: Baseline,
        ends: Ends,
        cores: Option<(usize, usize)>,
        workload: MsgWorkload,
        idle_state: IdleState,
        command: String,
    ) -> KernelCell {
        let name = SystemName {
            system: baseline.name().to_owned(),
            mode: baseline.waiting.name().to_owned(),
            over: ends.over.clone(),
            idle: None,
        };
        KernelCell { baseline, ends, cores, info: CellInfo { name, workload, idle_state, command } }
    }
}

/// Whether a baseline can carry `workload`.
fn check(protocol: Protocol, workload: &MsgWorkload) -> Result<(), BenchError> {
    workload.validate().map_err(driver::DriverError::from)?;
    let refuse = |what| Err(BenchError::Setup { what, source: io::Error::from(io::ErrorKind::InvalidInput) });
    if workload.connections > CONNECTIONS_MAX {
        return refuse("a kernel baseline takes at most 64 connections");
    }
    if protocol == Protocol::Udp && workload.size > UDP_SIZE_MAX {
        return refuse("a message over kernel UDP has at most 65507 bytes");
    }
    Ok(())
}

impl Cell for KernelCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        let (workload, baseline) = (&self.info.workload, self.baseline);
        check(baseline.protocol, workload)?;
        let sockets = Sockets::open(baseline.protocol, &self.ends, workload.connections)?;
        let cores: Vec<usize> = self.cores.map_or(vec![], |(a, b)| vec![a, b]);
        let awake = settle(self.info.idle_state, &cores)?;

        let meter = CpuMeter::new(&cores);
        let watch = Contention::start().threads(2);
        let setup = |what| move |source| BenchError::Setup { what, source };
        let (size, meter, Sockets { client, server }) = (workload.size as usize, &meter, sockets);
        let serve = |stop: Stop<'_>| {
            meter.joins(End::Server);
            stop.ready();
            let served = match server {
                ServerSocket::Tcp(sockets) => server::serve_tcp(sockets, baseline, size, stop.flag()),
                ServerSocket::Udp(socket) => server::serve_udp(&socket, baseline, size, stop.flag(), |_| {}),
            };
            served.map_err(setup("server"))
        };
        let ask = || {
            meter.joins(End::Client);
            // Its sockets close when the run ends, and a server that waits for them wakes up.
            let mut client =
                kernel_client(baseline, client, workload.size).map_err(setup("client sockets"))?;
            Ok(meter.run(&mut client, workload)?)
        };
        let Both { client: mut result, switches, .. } = two_ends(None, self.cores, ask, serve)?;
        result.contention = awake.judged(watch.finish(), &switches).reasons;
        Ok(result)
    }
}

enum ServerSocket {
    Tcp(Vec<OwnedFd>),
    Udp(UdpSocket),
}

struct Sockets {
    client: Vec<OwnedFd>,
    server: ServerSocket,
}

impl Sockets {
    /// Makes and connects all sockets of a run, each on its own side.
    fn open(protocol: Protocol, ends: &Ends, connections: u32) -> Result<Sockets, BenchError> {
        let any_port = SocketAddr::new(ends.server_ip, 0);
        match protocol {
            Protocol::Tcp => {
                let listener = enter(&ends.server, "listening", || TcpListener::bind(any_port))?;
                let open = || -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
                    let at = listener.local_addr()?;
                    let (mut client, mut server) = (Vec::new(), Vec::new());
                    for _ in 0..connections {
                        // The handshake ends in the listener's backlog: both calls return at once.
                        let here = enter_io(&ends.client, || TcpStream::connect(at))?;
                        let (there, _) = listener.accept()?;
                        for stream in [&here, &there] {
                            stream.set_nodelay(true)?;
                        }
                        client.push(here.into());
                        server.push(there.into());
                    }
                    Ok((client, server))
                };
                let (client, server) =
                    open().map_err(|source| BenchError::Setup { what: "connecting TCP", source })?;
                Ok(Sockets { client, server: ServerSocket::Tcp(server) })
            }
            Protocol::Udp => {
                let server = enter(&ends.server, "binding the server", || UdpSocket::bind(any_port))?;
                let open = || -> io::Result<Vec<OwnedFd>> {
                    let at = server.local_addr()?;
                    let any: SocketAddr = match ends.server_ip {
                        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                        IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
                    };
                    grow_buffers(&server);
                    (0..connections)
                        .map(|_| {
                            let socket = enter_io(&ends.client, || UdpSocket::bind(any))?;
                            socket.connect(at)?;
                            grow_buffers(&socket);
                            Ok(socket.into())
                        })
                        .collect()
                };
                let client = open().map_err(|source| BenchError::Setup { what: "connecting UDP", source })?;
                // With one client the server is connected as well: no answer looks its way up.
                if let [only] = client.as_slice() {
                    let connect = || server.connect(SocketAddr::try_from(rustix::net::getsockname(only)?)?);
                    connect().map_err(|source| BenchError::Setup {
                        what: "connecting the server's UDP",
                        source,
                    })?;
                }
                Ok(Sockets { client, server: ServerSocket::Udp(server) })
            }
        }
    }
}

fn enter<T: Send>(
    side: &Enter,
    what: &'static str,
    make: impl Fn() -> io::Result<T> + Send + Sync,
) -> Result<T, BenchError> {
    enter_io(side, make).map_err(|source| BenchError::Setup { what, source })
}

fn enter_io<T: Send>(side: &Enter, make: impl Fn() -> io::Result<T> + Send + Sync) -> io::Result<T> {
    let mut made = None;
    side(&mut || made = Some(make()))?;
    made.unwrap_or_else(|| Err(io::Error::other("the closure was not run")))
}

/// As large as the system allows. Too small a buffer shows as resends in the row.
fn grow_buffers(socket: &UdpSocket) {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, UDP_BUFFER_LEN).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, UDP_BUFFER_LEN);
    }
    if sockopt::set_socket_send_buffer_size_force(socket, UDP_BUFFER_LEN).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(socket, UDP_BUFFER_LEN);
    }
}
