//! The baseline: the kernel's TCP, connect, accept and close, on the same wires; [`serve`] and [`ask`] are its ends.
//!
//! Both ends ask without pause, give their core away between two looks, or sleep in `poll`. A client needs nobody to accept, and
//! goes on once it is connected; but it opens none while [`HELD_MAX`] wait for the server, whose queue would overflow wherever the
//! clients get the cores: SYNs are lost then, and clients stand still for a second. The server closes what it
//! accepts with a reset (`SO_LINGER` 0): it tells the client, and leaves no socket in TIME_WAIT on either side. System calls of a
//! connection: the client's socket, connect and close, and the server's accept and close. With few in flight the client finds those
//! that are ready with one poll for all, and one for many that are held; with many each is registered once with epoll
//! ([`sockets`](super::sockets)).

use super::idle::Idle;
use super::live::{FailOnDrop, Gate, LiveResult, Start, WARMUP, pin};
use super::sockets::{Done, Sockets};
use super::windows::Window;
use super::wires::{self, Hosts, Shape};
use crate::cpu::{CpuMeter, End};
use crate::error::{BenchError, go_on};
use barewire_base::Duration;
use barewire_measure::{Contention, Histogram, stamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    SocketAddrAny, SocketFlags, SocketType, accept_with, bind, connect, getsockname, listen, socket_with,
    sockopt,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Connections in flight at most.
pub(crate) const WINDOW_MAX: u32 = 256;
/// A client opens no connection while so many of its own wait for the server. Few: what waits is cold when its turn comes. With what
/// is in flight by then, [`BACKLOG`] has room for 32 clients with 64 in flight, and for 12 with [`WINDOW_MAX`].
pub(super) const HELD_MAX: usize = 64;
/// So many are held before they are looked at: one look for many.
pub(super) const HELD_LOOK: usize = 32;
/// After this the server has closed, and its reset is lost.
pub(super) const HELD_FOR: Duration = Duration::from_secs(1);
/// Connections that wait to be accepted: no more than `net.core.somaxconn`, which is 4096 unless somebody sets it.
const BACKLOG: i32 = 4096;
/// Rounds between two looks at the flag that somebody interrupted.
const LOOK_EVERY: u32 = 256;
pub(super) const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Longest sleep.
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

pub(super) fn io(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> BenchError {
    move |errno| BenchError::Io { what: what.to_owned(), source: errno.into() }
}

fn new_socket(peer: SocketAddr) -> Result<OwnedFd, BenchError> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = SocketAddrAny::from(peer).address_family();
    socket_with(family, SocketType::STREAM, flags, None).map_err(io("socket"))
}

/// A socket that listens, and where.
pub(super) fn listen_at(at: SocketAddr) -> Result<(OwnedFd, SocketAddr), BenchError> {
    let listener = new_socket(at)?;
    // A server that ended a moment ago must not keep the port from the next.
    sockopt::set_socket_reuseaddr(&listener, true).map_err(io("SO_REUSEADDR"))?;
    bind(&listener, &at).map_err(|e| BenchError::Io { what: format!("bind to {at}"), source: e.into() })?;
    listen(&listener, BACKLOG).map_err(io("listen"))?;
    let own = getsockname(&listener)
        .and_then(|name| name.try_into().map_err(|_| rustix::io::Errno::AFNOSUPPORT))
        .map_err(io("getsockname"))?;
    Ok((listener, own))
}

/// A connect that takes longer has lost its SYN or the answer: Linux repeats a SYN after 1 s (RFC 6298, section 2.1).
const STALL: Duration = Duration::from_millis(500);
/// Share of the time in which sockets could connect, above which too much of it went into such connects.
const STALLED_MAX: f64 = 0.1;

/// Why a row is no baseline, if it is none: of the seconds of its runs, over all connections in flight, `stalled_s` went into connects
/// whose SYN was lost.
pub(super) fn stood_still(stalled_s: f64, seconds: f64) -> Option<String> {
    let share = stalled_s / seconds.max(f64::MIN_POSITIVE);
    (share > STALLED_MAX).then(|| {
        format!(
            "stood still for {:.0} % of its time: lost SYNs are repeated after a second; no baseline",
            share * 100.0
        )
    })
}

/// Runs it. Without hosts: over loopback.
///
/// # Errors
/// [`BenchError`].
pub(crate) fn run(
    shape: Shape,
    window: u32,
    duration: Duration,
    cores: Option<(usize, usize)>,
    idle: Idle,
    hosts: Option<&Hosts>,
) -> Result<LiveResult, BenchError> {
    let stop = AtomicBool::new(false);
    // The port of each NIC's listener, once it listens: the kernel's choice, as others may be on the loopback.
    let ports: Vec<AtomicU32> = (0..shape.nics).map(|_| AtomicU32::new(0)).collect();
    let failed = AtomicBool::new(false);
    let (stop, ports, failed) = (&stop, &ports, &failed);
    // None begins before all are ready, as with ours, and all count at the same time.
    let (gate, start) = (&Gate::default(), &Start::default());
    let cpu = &CpuMeter::new(&[]);
    std::thread::scope(|scope| {
        let mut servers = Vec::new();
        for (nic, port) in ports.iter().enumerate() {
            let core = cores.filter(|_| nic == 0).map(|c| c.1);
            let at = address(nic as u32, hosts.is_some());
            let serving = move || {
                let result = pin(core).and_then(|()| {
                    cpu.joins(End::Server);
                    let (listener, own) = listen_at(SocketAddr::new(at, 0))?;
                    port.store(own.port().into(), Ordering::Release);
                    serve(&listener, idle, &|| !stop.load(Ordering::Relaxed), &|_| {})
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
                let mut tells = FailOnDrop(gate, false);
                let nic = shape.nic_of(client);
                while ports[nic as usize].load(Ordering::Acquire) == 0 {
                    if failed.load(Ordering::Relaxed) {
                        return Err(BenchError::Plan("another thread failed".to_owned()));
                    }
                    go_on()?;
                    std::thread::yield_now();
                }
                let port = ports[nic as usize].load(Ordering::Acquire) as u16;
                pin(core)?;
                cpu.joins(End::Client);
                gate.arrive();
                gate.pass(shape.clients())?;
                let asking = Asking {
                    server: SocketAddr::new(address(nic, hosts.is_some()), port),
                    window,
                    counts: start.window(WARMUP, duration),
                    idle,
                    watches: (client == 0).then_some((cpu, (shape.clients() + shape.nics) as usize)),
                };
                let result = ask(&asking, &AtomicU64::new(0))?;
                // The first client reads the CPU of all at its end: a thread that is gone has none to tell.
                gate.arrive();
                gate.pass(2 * shape.clients())?;
                tells.1 = true;
                Ok(result)
            };
            asking.push(scope.spawn(move || match hosts {
                Some(hosts) => hosts.client(client).enter(connect)?,
                None => connect(),
            }));
        }
        let panicked = || BenchError::Plan("a thread panicked".to_owned());
        let asked: Vec<_> = asking.into_iter().map(|t| t.join().map_err(|_| panicked())).collect();
        stop.store(true, Ordering::Relaxed);
        for server in servers {
            server.join().map_err(|_| panicked())??;
        }
        let mut sum = LiveResult::default();
        for asked in asked {
            sum.add(asked??);
        }
        sum.divide_cpu(cpu, 0);
        Ok(sum)
    })
}

/// Where the server of a NIC listens.
fn address(nic: u32, has_hosts: bool) -> IpAddr {
    if has_hosts { wires::server_address(nic).into() } else { Ipv4Addr::LOCALHOST.into() }
}

/// Accepts and closes while `going`; how many it were, of which `did` hears as they come.
pub(super) fn serve(
    listener: &OwnedFd,
    idle: Idle,
    going: &dyn Fn() -> bool,
    did: &dyn Fn(u64),
) -> Result<u64, BenchError> {
    // What it accepts inherits this from the listener.
    sockopt::set_socket_linger(listener, Some(std::time::Duration::ZERO)).map_err(io("SO_LINGER"))?;
    let mut accepted = 0;
    while going() {
        let before = accepted;
        for _ in 0..LOOK_EVERY {
            let Ok(fd) = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) else { break };
            drop(fd);
            accepted += 1;
        }
        if accepted > before {
            did(accepted - before);
            continue;
        }
        if idle == Idle::Sleep {
            poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&SOON)).map_err(io("poll"))?;
        } else {
            idle.pause();
        }
    }
    Ok(accepted)
}

/// What a client does.
pub(super) struct Asking<'a> {
    /// Where its server listens.
    pub(super) server: SocketAddr,
    /// Connections in flight.
    pub(super) window: u32,
    /// When it counts; it ends with that.
    pub(super) counts: Window,
    /// What it does while none of its sockets is connected.
    pub(super) idle: Idle,
    /// Looks who else runs on the cores, and what all ends use of them: one of all clients does, and knows how many threads there are.
    pub(super) watches: Option<(&'a CpuMeter, usize)>,
}

/// Connects and closes. `progress` says how many connections were made.
pub(super) fn ask(asking: &Asking<'_>, progress: &AtomicU64) -> Result<LiveResult, BenchError> {
    let &Asking { server, window, counts: (from, to), idle, watches } = asking;
    let mut sockets = Sockets::new(window)?;
    let mut latency = Histogram::new();
    let (mut connections, mut failed, mut stalled) = (0u64, 0u64, Duration::ZERO);
    let start = from.max(stamp());
    let mut counting = false;
    let mut watch = None;
    let mut done = Vec::with_capacity(window as usize);
    for round in 0u32.. {
        if round % LOOK_EVERY == 0 {
            go_on()?;
        }
        let now = stamp();
        if now >= to {
            break;
        }
        if !counting && now >= start {
            counting = true;
            watch = watches.map(|(cpu, threads)| (Contention::start().threads(threads), cpu.begin(false)));
        }
        sockets.look(now)?;
        while sockets.in_flight() < window as usize && sockets.has_room() {
            let since = stamp();
            let fd = match new_socket(server) {
                // Where server and clients share a process' descriptors, the server may have none to accept with.
                Err(BenchError::Io { source, .. })
                    if source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) =>
                {
                    sockets.let_go();
                    std::thread::yield_now();
                    break;
                }
                made => made?,
            };
            match connect(&fd, &server) {
                Ok(()) | Err(rustix::io::Errno::INPROGRESS) => sockets.begin(fd, since)?,
                // No port is free for an instant: what is in flight makes room.
                Err(rustix::io::Errno::ADDRNOTAVAIL) if sockets.in_flight() > 0 => break,
                Err(errno) => return Err(io("connect")(errno)),
            }
        }
        done.clear();
        let at = sockets.finish(if idle == Idle::Sleep { &SOON } else { &NOW }, &mut done)?;
        let in_time = counting && at < to;
        for &Done { since, refused } in &done {
            if refused {
                failed += u64::from(in_time);
            } else if in_time {
                let took = at.since(since);
                latency.record(took.as_nanos());
                stalled = stalled + stall(took, at.since(start));
                connections += 1;
                progress.store(connections, Ordering::Relaxed);
            }
        }
        if done.is_empty() && idle != Idle::Sleep {
            idle.pause();
        }
    }
    let watched = watch.zip(watches).map(|((watch, before), (cpu, _))| (watch.finish(), cpu.end(before, 0)));
    let (contention, cpu) = watched.map_or((None, None), |(report, cpu)| (Some(report), cpu));
    for since in sockets.close() {
        stalled = stalled + stall(to.since(since), to.since(start));
    }
    let measured = to.since(start);
    let seconds = measured.as_secs_f64();
    Ok(LiveResult {
        connections,
        failed,
        seconds,
        per_s: connections as f64 / seconds.max(1e-9),
        windows: Some(vec![(start, to)]),
        longest: measured,
        latency,
        stalled_s: stalled.as_secs_f64(),
        contention,
        cpu,
        ..LiveResult::default()
    })
}

/// Of a connect that took so long, `counted` after counting began: what it stood still within that time.
fn stall(took: Duration, counted: Duration) -> Duration {
    if took > STALL { took.min(counted) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::{until_seen, until_well};

    #[test]
    fn the_kernel_connects_over_loopback() {
        let shape = Shape { hosts: 1, threads: 1, nics: 1 };
        for idle in [Idle::Spin, Idle::Yield, Idle::Sleep] {
            for window in [8, 64] {
                let connections = |duration| {
                    let result = run(shape, window, duration, None, idle, None).unwrap();
                    assert_eq!(result.failed, 0, "{idle:?}");
                    result.connections
                };
                let connections = until_seen(Duration::from_millis(200), connections, |&n| n > 50);
                assert!(connections > 50, "{idle:?}: {connections}");
            }
        }
    }

    /// Shorter than what is held is held.
    fn asking(server: SocketAddr, window: u32) -> Asking<'static> {
        let now = stamp();
        let counts = (now, now + Duration::from_millis(300));
        Asking { server, window, counts, idle: Idle::Yield, watches: None }
    }

    #[test]
    fn a_client_goes_no_further_ahead_than_its_server_can_follow() {
        for window in [8, 64] {
            let (listener, at) = listen_at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
            let (least, most) = (HELD_MAX as u64, HELD_MAX as u64 + u64::from(window) - 1);
            // On a machine with much else to do a client may not come so far, or take half a second for a connect.
            let result = until_well(
                || {
                    let result = ask(&asking(at, window), &AtomicU64::new(0)).unwrap();
                    assert!(result.connections <= most && result.failed == 0, "{}", result.connections);
                    result
                },
                |result| result.connections >= least && result.stalled_s == 0.0,
            );
            assert!(result.connections >= least, "{}", result.connections);
            assert_eq!(result.stalled_s, 0.0);
            drop(listener);
            let refused = || {
                let refused = ask(&asking(at, window), &AtomicU64::new(0)).unwrap();
                assert_eq!(refused.connections, 0);
                refused.failed
            };
            assert!(until_well(refused, |&failed| failed > 0) > 0);
        }
    }

    /// What the server never closes is closed after a while, and what runs out of descriptors gives half of it up.
    #[test]
    fn what_is_held_is_let_go() {
        for window in [8, 64] {
            let (_listener, at) = listen_at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
            let mut sockets = Sockets::new(window).unwrap();
            let (mut open, mut done) = (0, Vec::new());
            while sockets.has_room() {
                let fd = new_socket(at).unwrap();
                let _ = connect(&fd, &at);
                sockets.begin(fd, stamp()).unwrap();
                open += 1;
                while done.len() < open {
                    sockets.finish(&SOON, &mut done).unwrap();
                }
            }
            assert_eq!((open, sockets.in_flight()), (HELD_MAX, 0));
            sockets.let_go();
            assert!(sockets.has_room());
            sockets.look(stamp() + HELD_FOR + HELD_FOR).unwrap();
            assert_eq!(sockets.close().len(), 0);
        }
    }

    #[test]
    fn what_stood_still_is_no_baseline() {
        let [second, most] = [Duration::from_millis(1000), Duration::from_millis(700)];
        assert_eq!(stall(STALL, second), Duration::ZERO);
        assert_eq!(stall(second, most), most, "what was before counting began is not counted");
        assert!(stood_still(0.9, 10.0).is_none() && stood_still(0.0, 0.0).is_none());
        assert!(stood_still(5.0, 10.0).unwrap().starts_with("stood still for 50 % of its time"));
    }
}
