//! The baseline: the kernel's TCP, connect, accept and close, on the same wires; [`serve`] and [`ask`] are its ends.
//!
//! Both ends ask without pause, give their core away between two looks, or sleep in `poll`. The client closes with a reset
//! (`SO_LINGER` 0), so that no socket stays in TIME_WAIT on either side; the server accepts, sees the reset, and closes. System
//! calls of a connection: the client's socket, setsockopt, connect and close, with one poll for all that are in flight; the
//! server's accept, recv and close.

use super::idle::Idle;
use super::live::{LiveResult, pin};
use super::wires::{self, Hosts, Shape};
use super::{RateError, go_on};
use barewire_base::Duration;
use barewire_measure::{Contention, Histogram, stamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvFlags, SocketAddrAny, SocketFlags, SocketType, accept_with, bind, connect, getsockname, listen, recv,
    socket_with, sockopt,
};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Connections in flight at most: the descriptors of one poll.
pub(crate) const WINDOW_MAX: u32 = 256;
/// Accepted connections that wait for their reset before all of them are looked at.
const OPEN_MAX: usize = 128;
/// What `nice(2)` is asked for: more than it grants, and it grants the highest priority there is.
const FIRST: i32 = -40;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// Time that is not counted.
const WARMUP: Duration = Duration::from_millis(200);
/// Rounds between two looks at the flag that somebody interrupted.
const LOOK_EVERY: u32 = 256;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Longest sleep.
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

fn io(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> RateError {
    move |errno| RateError::Io { what: what.to_owned(), source: errno.into() }
}

fn new_socket(peer: SocketAddr) -> Result<OwnedFd, RateError> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = SocketAddrAny::from(peer).address_family();
    socket_with(family, SocketType::STREAM, flags, None).map_err(io("socket"))
}

/// A socket that listens, and where.
pub(super) fn listen_at(at: SocketAddr) -> Result<(OwnedFd, SocketAddr), RateError> {
    let listener = new_socket(at)?;
    // A server that ended a moment ago must not keep the port from the next.
    sockopt::set_socket_reuseaddr(&listener, true).map_err(io("SO_REUSEADDR"))?;
    bind(&listener, &at).map_err(|e| RateError::Io { what: format!("bind to {at}"), source: e.into() })?;
    listen(&listener, BACKLOG).map_err(io("listen"))?;
    let own = getsockname(&listener)
        .and_then(|name| name.try_into().map_err(|_| rustix::io::Errno::AFNOSUPPORT))
        .map_err(io("getsockname"))?;
    Ok((listener, own))
}

/// Connecting sockets that are busy connecting, as a share of all, below which most of them stand still.
const STILL: f64 = 0.04;

/// Why a row with such a [`little`](super::RcRow::little) is no baseline, if it is none.
pub(super) fn stood_still(little: Option<f64>) -> Option<String> {
    little
        .is_none_or(|busy| busy < STILL)
        .then(|| "stood still: lost SYNs are repeated after a second; no baseline".to_owned())
}

/// Runs it. Without hosts: over loopback.
///
/// # Errors
/// [`RateError`].
pub(crate) fn run(
    shape: Shape,
    window: u32,
    duration: Duration,
    cores: Option<(usize, usize)>,
    idle: Idle,
    hosts: Option<&Hosts>,
) -> Result<LiveResult, RateError> {
    let stop = AtomicBool::new(false);
    // The port of each NIC's listener, once it listens: the kernel's choice, as others may be on the loopback.
    let ports: Vec<AtomicU32> = (0..shape.nics).map(|_| AtomicU32::new(0)).collect();
    let failed = AtomicBool::new(false);
    let (stop, ports, failed) = (&stop, &ports, &failed);
    std::thread::scope(|scope| {
        let mut servers = Vec::new();
        for (nic, port) in ports.iter().enumerate() {
            let core = cores.filter(|_| nic == 0).map(|c| c.1);
            let at = address(nic as u32, hosts.is_some());
            let serving = move || {
                let result = pin(core).and_then(|()| {
                    let (listener, own) = listen_at(SocketAddr::new(at, 0))?;
                    port.store(own.port().into(), Ordering::Release);
                    serve(&listener, idle, &|| !stop.load(Ordering::Relaxed))
                });
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            };
            servers.push(scope.spawn(move || match hosts {
                Some(hosts) => hosts.server.enter(serving)?,
                None => serving(),
            }));
        }
        let mut asking = Vec::new();
        for client in 0..shape.clients() {
            let core = cores.filter(|_| client == 0).map(|c| c.0);
            let connect = move || {
                let nic = shape.nic_of(client);
                while ports[nic as usize].load(Ordering::Acquire) == 0 {
                    if failed.load(Ordering::Relaxed) {
                        return Err(RateError::Plan("another thread failed".to_owned()));
                    }
                    go_on()?;
                    std::thread::yield_now();
                }
                let port = ports[nic as usize].load(Ordering::Acquire) as u16;
                let asking = Asking {
                    server: SocketAddr::new(address(nic, hosts.is_some()), port),
                    window,
                    warmup: WARMUP,
                    duration,
                    idle,
                    watches: client == 0,
                };
                pin(core)?;
                ask(&asking, &AtomicU64::new(0))
            };
            asking.push(scope.spawn(move || match hosts {
                Some(hosts) => hosts.client(client).enter(connect)?,
                None => connect(),
            }));
        }
        let panicked = || RateError::Plan("a thread panicked".to_owned());
        let asked: Vec<_> = asking.into_iter().map(|t| t.join().map_err(|_| panicked())).collect();
        stop.store(true, Ordering::Relaxed);
        for server in servers {
            server.join().map_err(|_| panicked())??;
        }
        let mut sum = LiveResult::default();
        for asked in asked {
            sum.add(asked??);
        }
        Ok(sum)
    })
}

/// Where the server of a NIC listens.
fn address(nic: u32, has_hosts: bool) -> IpAddr {
    if has_hosts { wires::server_address(nic).into() } else { Ipv4Addr::LOCALHOST.into() }
}

/// Accepts and closes while `going`; how many it were.
pub(super) fn serve(listener: &OwnedFd, idle: Idle, going: &dyn Fn() -> bool) -> Result<u64, RateError> {
    // Clients need nobody to accept: where a server has to wait for a core, its queue is full within a tenth of a second, SYNs are
    // lost, and clients stand still for a second. It goes first, if it may.
    let _ = rustix::process::nice(FIRST);
    let mut accepted = 0;
    let mut open: VecDeque<OwnedFd> = VecDeque::new();
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let mut byte = [0u8; 1];
    while going() {
        let mut work = false;
        while let Ok(fd) = accept_with(listener, flags) {
            open.push_back(fd);
            accepted += 1;
            work = true;
        }
        // They are reset in about the order in which they came; where one lingers, those behind it must not pile up.
        let closed = |fd: &OwnedFd, byte: &mut [u8; 1]| {
            !recv(fd, byte, RecvFlags::DONTWAIT).is_err_and(|e| e == rustix::io::Errno::AGAIN)
        };
        while open.front().is_some_and(|fd| closed(fd, &mut byte)) {
            open.pop_front();
            work = true;
        }
        if open.len() > OPEN_MAX {
            let before = open.len();
            open.retain(|fd| !closed(fd, &mut byte));
            work |= open.len() < before;
        }
        if !work && idle != Idle::Sleep {
            idle.pause();
        } else if !work {
            let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
            fds.extend(open.front().map(|fd| PollFd::new(fd, PollFlags::IN)));
            poll(&mut fds, Some(&SOON)).map_err(io("poll"))?;
        }
    }
    Ok(accepted)
}

/// What a client does.
pub(super) struct Asking {
    /// Where its server listens.
    pub(super) server: SocketAddr,
    /// Connections in flight.
    pub(super) window: u32,
    /// Time that is not counted.
    pub(super) warmup: Duration,
    /// Time that is.
    pub(super) duration: Duration,
    /// What it does while none of its sockets is connected.
    pub(super) idle: Idle,
    /// Looks who else runs on the cores: one of all clients does.
    pub(super) watches: bool,
}

/// Connects and closes. `progress` says how many connections were made.
pub(super) fn ask(asking: &Asking, progress: &AtomicU64) -> Result<LiveResult, RateError> {
    let &Asking { server, window, warmup, duration, idle, watches } = asking;
    let mut in_flight: Vec<(OwnedFd, barewire_base::Instant)> = Vec::with_capacity(window as usize);
    let mut latency = Histogram::new();
    let (mut connections, mut failed) = (0u64, 0u64);
    let mut start = stamp();
    let mut counting = false;
    let mut watch = None;
    let mut ready: Vec<PollFlags> = Vec::new();
    for round in 0u32.. {
        if round % LOOK_EVERY == 0 {
            go_on()?;
        }
        let now = stamp();
        if !counting && now.since(start) >= warmup {
            (counting, start) = (true, now);
            watch = watches.then(Contention::start);
        } else if counting && now.since(start) >= duration {
            break;
        }
        while in_flight.len() < window as usize {
            let since = stamp();
            let fd = match new_socket(server) {
                // Where server and clients share a process' descriptors, the server closes some soon.
                Err(RateError::Io { source, .. })
                    if source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) =>
                {
                    std::thread::yield_now();
                    break;
                }
                made => made?,
            };
            sockopt::set_socket_linger(&fd, Some(std::time::Duration::ZERO)).map_err(io("SO_LINGER"))?;
            match connect(&fd, &server) {
                Ok(()) | Err(rustix::io::Errno::INPROGRESS) => in_flight.push((fd, since)),
                // No port is free for an instant: what is in flight makes room.
                Err(rustix::io::Errno::ADDRNOTAVAIL) if !in_flight.is_empty() => break,
                Err(errno) => return Err(io("connect")(errno)),
            }
        }
        ready.clear();
        {
            let mut fds: Vec<PollFd<'_>> =
                in_flight.iter().map(|(fd, _)| PollFd::new(fd, PollFlags::OUT)).collect();
            poll(&mut fds, Some(if idle == Idle::Sleep { &SOON } else { &NOW })).map_err(io("poll"))?;
            ready.extend(fds.iter().map(PollFd::revents));
        }
        let at = stamp();
        let mut any = false;
        for index in (0..in_flight.len()).rev() {
            if ready[index].is_empty() {
                continue;
            }
            any = true;
            let (fd, since) = in_flight.swap_remove(index);
            if ready[index].intersects(PollFlags::ERR | PollFlags::HUP) {
                failed += u64::from(counting);
            } else if counting {
                latency.record(at.since(since).as_nanos());
                connections += 1;
                progress.store(connections, Ordering::Relaxed);
            }
            drop(fd);
        }
        if !any && idle != Idle::Sleep {
            idle.pause();
        }
    }
    let seconds = stamp().since(start).as_secs_f64();
    Ok(LiveResult {
        connections,
        failed,
        seconds,
        per_s: connections as f64 / seconds.max(1e-9),
        latency,
        contention: watch.map(Contention::finish),
        ..LiveResult::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_connects_over_loopback() {
        let shape = Shape { hosts: 1, threads: 1, nics: 1 };
        for idle in [Idle::Spin, Idle::Yield, Idle::Sleep] {
            let result = run(shape, 8, Duration::from_millis(200), None, idle, None).unwrap();
            assert!(result.connections > 50, "{idle:?}: {}", result.connections);
            assert_eq!(result.failed, 0);
        }
    }
}
