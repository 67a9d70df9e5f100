//! Traffic between two hosts: a TCP stream, paced UDP, a UDP request and its echo. Sockets of this process, each made in its
//! host's namespace; `iperf` beside them when asked for.

use super::wires::{Way, Wires, traffic};
use crate::error::{BenchError, go_on};
use crate::stream::pump::{self, SETTLE, Sent, sleep_until};
use crate::talk::{LOOK, is_wait};
use barewire_base::{Duration, Instant};
use barewire_measure::{Histogram, stamp};
use barewire_netns::Namespace;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// UDP payload that makes a frame of 60 bytes, the shortest there is.
pub const PAYLOAD: usize = 18;
/// What is sent.
const PACKET: [u8; PAYLOAD] = [0x5a; PAYLOAD];
/// Lost packets that a rate may have and still count as carried; and requests without an answer that a latency may have.
const LOSS_MAX: f64 = 0.01;
/// An answer that has not come after so long is lost.
const ANSWER: std::time::Duration = std::time::Duration::from_millis(300);

/// The two ends of a way.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    wires: &'a Wires,
    way: Way,
}

impl<'a> Ends<'a> {
    /// From the first host to the second.
    pub fn new(wires: &'a Wires, way: Way) -> Ends<'a> {
        Ends { wires, way }
    }

    fn client(&self) -> &'a Namespace {
        &self.wires.hosts[0]
    }

    fn server(&self) -> &'a Namespace {
        &self.wires.hosts[1]
    }

    fn from(&self) -> Ipv4Addr {
        self.way.addresses()[0]
    }

    fn to(&self) -> Ipv4Addr {
        self.way.addresses()[1]
    }

    /// A socket of the second host, and one of the first that is connected to it.
    fn udp(&self) -> Result<(UdpSocket, UdpSocket), BenchError> {
        let failed = || BenchError::io("making UDP sockets");
        let server = self.server().enter(|| UdpSocket::bind((self.to(), 0)))?.map_err(failed())?;
        let at = server.local_addr().map_err(failed())?;
        let client = self.client().enter(|| {
            let socket = UdpSocket::bind((self.from(), 0))?;
            socket.connect(at)?;
            Ok(socket)
        })?;
        let client: UdpSocket = client.map_err(failed())?;
        Ok((client, server))
    }
}

/// Runs `body` on a thread whose timers are exact.
fn exact<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
    pump::exact(body).map_err(|_| BenchError::Plan("a thread of the traffic panicked".to_owned()))
}

/// What one TCP stream carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Payload, in Mbit/s.
    pub mbps: f64,
    /// Packets per second that the second host's interface counted: those with data, as it sends none itself. One that is still to be
    /// cut (offloads on) counts once.
    pub data_packets_per_s: f64,
}

/// One TCP stream over `duration`, after a tenth of it.
///
/// # Errors
/// [`BenchError`] when the hosts cannot be reached, or the stream stands still.
pub fn tcp(ends: Ends<'_>, duration: Duration) -> Result<Stream, BenchError> {
    let failed = || BenchError::io("TCP between the hosts");
    let listener = ends.server().enter(|| TcpListener::bind((ends.to(), 0)))?.map_err(failed())?;
    let at: SocketAddr = listener.local_addr().map_err(failed())?;
    let client = ends
        .client()
        .enter(|| TcpStream::connect_timeout(&at, std::time::Duration::from_secs(3)))?
        .map_err(failed())?;
    let (server, _) = listener.accept().map_err(failed())?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let measured = std::thread::scope(|scope| {
        let sender = scope.spawn(|| pump::write_until(client, &stop));
        let receiver = scope.spawn(|| pump::read_until(server, &stop, &received));
        let look = |until: Instant| {
            while stamp() < until && !crate::interrupted() {
                sleep_until(until.min(stamp() + LOOK.into()));
            }
            let packets = traffic(ends.server(), ends.way.interface()).map(|traffic| traffic.rx);
            (stamp(), received.load(Ordering::Relaxed), packets)
        };
        let warm = look(stamp() + Duration::from_nanos(duration.as_nanos() / 10));
        let end = look(warm.0 + duration);
        stop.store(true, Ordering::Relaxed);
        let ended = [sender.join(), receiver.join()];
        (warm, end, ended)
    });
    let ((begin, before, packets_before), (end, after, packets_after), ended) = measured;
    for one in ended {
        one.map_err(|_| BenchError::Plan("a thread of the TCP stream panicked".to_owned()))?
            .map_err(failed())?;
    }
    go_on()?;
    if after == before {
        return Err(BenchError::Plan("the TCP stream stood still".to_owned()));
    }
    let seconds = end.since(begin).as_secs_f64().max(1e-9);
    Ok(Stream {
        mbps: (after - before) as f64 * 8.0 / 1e6 / seconds,
        data_packets_per_s: packets_after?.saturating_sub(packets_before?) as f64 / seconds,
    })
}

/// Round trips, and requests that were never answered.
#[derive(Debug)]
pub struct Echoes {
    /// Round trips.
    pub rtt: Histogram,
    /// Lost requests or answers.
    pub lost: u64,
}

impl Echoes {
    /// Why the round trips must not be used, if so: those that never came back are the longest of all, and missing.
    pub fn void(&self) -> Option<String> {
        let asked = self.rtt.samples() + self.lost;
        (self.lost as f64 > LOSS_MAX * asked as f64).then(|| {
            format!(
                "{} of {asked} requests had no answer, more than {:.0} % of them",
                self.lost,
                LOSS_MAX * 100.0
            )
        })
    }
}

/// UDP requests, one at a time, echoed by the second host, for `duration` or until `most` were answered.
///
/// # Errors
/// [`BenchError`] for failed calls.
pub fn echoes(ends: Ends<'_>, duration: Duration, most: u64) -> Result<Echoes, BenchError> {
    let failed = || BenchError::io("UDP between the hosts");
    let (client, server) = ends.udp()?;
    client.set_read_timeout(Some(ANSWER)).map_err(failed())?;
    server.set_read_timeout(Some(LOOK)).map_err(failed())?;
    let stop = AtomicBool::new(false);
    let (asked, answered) = std::thread::scope(|scope| {
        let echo = scope.spawn(|| -> io::Result<()> {
            let mut bytes = [0; 64];
            while !stop.load(Ordering::Relaxed) {
                match server.recv_from(&mut bytes) {
                    Ok((n, from)) => drop(server.send_to(&bytes[..n], from)?),
                    Err(e) if is_wait(&e) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        });
        let ask = scope.spawn(|| -> io::Result<Echoes> {
            let mut out = Echoes { rtt: Histogram::new(), lost: 0 };
            let mut bytes = [0; PAYLOAD];
            let until = stamp() + duration;
            let mut number = 0_u64;
            while out.rtt.samples() < most && stamp() < until && !crate::interrupted() {
                number += 1;
                bytes[..8].copy_from_slice(&number.to_be_bytes());
                let begin = stamp();
                client.send(&bytes)?;
                loop {
                    let mut answer = [0; 64];
                    match client.recv(&mut answer) {
                        Ok(PAYLOAD) if answer[..8] == bytes[..8] => {
                            out.rtt.record(stamp().since(begin).as_nanos());
                            break;
                        }
                        // An answer that was given up.
                        Ok(_) => {}
                        Err(e) if is_wait(&e) => {
                            out.lost += 1;
                            break;
                        }
                        Err(e) => return Err(e),
                    }
                }
            }
            Ok(out)
        });
        let asked = ask.join();
        stop.store(true, Ordering::Relaxed);
        (asked, echo.join())
    });
    let panicked = |_| BenchError::Plan("a thread of the echo panicked".to_owned());
    answered.map_err(panicked)?.map_err(failed())?;
    asked.map_err(panicked)?.map_err(failed())
}

/// Waits until a request is answered.
///
/// # Errors
/// [`BenchError`] when none is within three seconds.
pub fn wait_for_way(ends: Ends<'_>) -> Result<(), BenchError> {
    for _ in 0..10 {
        go_on()?;
        if echoes(ends, Duration::from_millis(250), 1)?.rtt.samples() > 0 {
            return Ok(());
        }
    }
    Err(BenchError::Plan("no packet passes from host to host".to_owned()))
}

/// What was offered, and what arrived at the second host's interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Packets a second that were sent.
    pub offered_pps: f64,
    /// Packets a second that arrived.
    pub arrived_pps: f64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Of a paced sender: packets that left more than a millisecond late.
    pub behind: u64,
}

impl Offered {
    /// Whether at most one in a hundred was lost.
    pub fn is_carried(&self) -> bool {
        self.arrived_pps >= self.offered_pps * (1.0 - LOSS_MAX)
    }
}

/// Offers UDP packets of 60-byte frames at `pps`, or as fast as one thread can.
///
/// # Errors
/// [`BenchError`] for failed calls.
pub fn offer(ends: Ends<'_>, pps: Option<u64>, duration: Duration) -> Result<Offered, BenchError> {
    // The receiving socket is there so that nobody answers "unreachable"; what arrives is counted at the interface.
    let (client, _server) = ends.udp()?;
    let before = traffic(ends.server(), ends.way.interface())?.rx;
    let sent = exact(|| pump::datagrams(&client, &PACKET, pps, duration))?;
    let Sent { count, took, behind } = sent.map_err(BenchError::io("sending UDP"))?;
    std::thread::sleep(SETTLE);
    let arrived = traffic(ends.server(), ends.way.interface())?.rx - before;
    let seconds = took.as_secs_f64().max(1e-9);
    Ok(Offered {
        offered_pps: count as f64 / seconds,
        arrived_pps: arrived as f64 / seconds,
        sent: count,
        arrived,
        behind,
    })
}

/// What a search found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// Highest offered rate of which at most one packet in a hundred was lost.
    pub carried_pps: f64,
    /// Most that arrived at any rate.
    pub peak_pps: f64,
    /// What a sender without pauses offered.
    pub flood_offered_pps: f64,
    /// And what arrived of it.
    pub flood_pps: f64,
}

/// Steps of the search after the flood.
pub(super) const SEARCH_STEPS: u32 = 7;

/// Looks for the highest rate that is carried, by halving, between nothing and a flood. `offer` offers a rate (`None`: a flood).
///
/// # Errors
/// Those of `offer`.
pub fn search<E>(mut offer: impl FnMut(Option<u64>) -> Result<Offered, E>) -> Result<Found, E> {
    let flood = offer(None)?;
    let mut found = Found {
        flood_offered_pps: flood.offered_pps,
        flood_pps: flood.arrived_pps,
        peak_pps: flood.arrived_pps,
        ..Found::default()
    };
    if flood.is_carried() {
        found.carried_pps = flood.offered_pps;
        return Ok(found);
    }
    let (mut low, mut high) = (0.0, flood.offered_pps);
    // What arrived of the flood is the likeliest place to look first.
    let mut next = flood.arrived_pps.max(1000.0).min(high);
    for _ in 0..SEARCH_STEPS {
        let seen = offer(Some(next as u64))?;
        found.peak_pps = found.peak_pps.max(seen.arrived_pps);
        if seen.is_carried() {
            found.carried_pps = found.carried_pps.max(seen.offered_pps);
            low = next;
        } else {
            high = next;
        }
        next = (low + high) / 2.0;
    }
    Ok(found)
}

/// What a paced sender sent, and what the other end's socket got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Packets that left more than a millisecond late.
    pub behind: u64,
}

/// Sends at `pps` for `duration` and counts what the second host's socket gets: exact, for rates at which nothing may be lost.
///
/// # Errors
/// [`BenchError`] for failed calls.
pub fn paced(ends: Ends<'_>, pps: u64, duration: Duration) -> Result<Exchanged, BenchError> {
    let failed = || BenchError::io("UDP between the hosts");
    let (client, server) = ends.udp()?;
    server.set_read_timeout(Some(LOOK)).map_err(failed())?;
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&server, 4 << 20);
    let stop = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| -> io::Result<u64> {
            let (mut bytes, mut got) = ([0; 64], 0);
            loop {
                match server.recv(&mut bytes) {
                    Ok(_) => got += 1,
                    // Nothing for a while after the sender ended: nothing comes any more.
                    Err(e) if is_wait(&e) && stop.load(Ordering::Acquire) => return Ok(got),
                    Err(e) if is_wait(&e) => {}
                    Err(e) => return Err(e),
                }
            }
        });
        let sent = exact(|| pump::datagrams(&client, &PACKET, Some(pps), duration));
        std::thread::sleep(SETTLE);
        stop.store(true, Ordering::Release);
        (sent, receiver.join())
    });
    let sent = sent?.map_err(failed())?;
    let panicked = |_| BenchError::Plan("the receiver panicked".to_owned());
    let received = received.map_err(panicked)?.map_err(failed())?;
    Ok(Exchanged { sent: sent.count, received, behind: sent.behind })
}

/// Kills what it holds, which is ours, and waits for it.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `iperf` (version 2) says of one TCP stream, in Mbit/s.
///
/// # Errors
/// [`BenchError`] when it is not installed or says nothing.
pub fn iperf_mbps(ends: Ends<'_>, duration: Duration) -> Result<f64, BenchError> {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    };
    let failed = |why: &str| BenchError::Program { program: "iperf".to_owned(), why: why.to_owned() };
    let mut server = Command::new("iperf");
    server.args(["-s", "-B", &ends.to().to_string()]);
    quiet(&mut server);
    let _server = Stopped(ends.server().spawn_in(&mut server).map_err(BenchError::io("starting iperf"))?);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let seconds = duration.as_secs_f64().ceil().max(1.0) as u64;
    let mut client = Command::new("iperf");
    client.args(["-f", "m", "-c", &ends.to().to_string(), "-t", &seconds.to_string()]);
    quiet(&mut client);
    client.stdout(Stdio::piped());
    let child = ends.client().spawn_in(&mut client).map_err(BenchError::io("starting iperf"))?;
    let output = child.wait_with_output().map_err(BenchError::io("running iperf"))?;
    iperf_figure(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| failed("it told no rate"))
}

/// The number before the last `Mbits/sec`.
fn iperf_figure(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().rposition(|&word| word == "Mbits/sec")?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Offered = Offered { offered_pps: 0.0, arrived_pps: 0.0, sent: 0, arrived: 0, behind: 0 };

    /// A switch that carries up to `limit` a second and less when offered more, on a sender that cannot do more than `most`.
    fn switch(limit: f64, most: f64) -> impl FnMut(Option<u64>) -> Result<Offered, ()> {
        move |pps| {
            let offered_pps = pps.map_or(most, |pps| (pps as f64).min(most));
            let over = (offered_pps - limit).max(0.0);
            let arrived_pps = (offered_pps - 2.0 * over).max(limit / 3.0);
            Ok(Offered { offered_pps, arrived_pps, ..NOTHING })
        }
    }

    #[test]
    fn the_search_finds_what_is_carried() {
        for limit in [20e3, 80e3, 250e3] {
            let found = search(switch(limit, 400e3)).unwrap();
            assert!((found.carried_pps / limit - 1.0).abs() < 0.2, "{limit}: {found:?}");
            assert!(found.carried_pps <= limit * 1.01, "{found:?}");
            assert!(found.peak_pps >= found.carried_pps * 0.99 && found.peak_pps <= limit, "{found:?}");
            assert_eq!(found.flood_offered_pps, 400e3);
        }
        let found = search(switch(500e3, 400e3)).unwrap();
        assert_eq!((found.carried_pps, found.peak_pps), (400e3, 400e3));
    }

    #[test]
    fn one_packet_in_a_hundred_may_be_lost() {
        assert!(Offered { offered_pps: 100.0, arrived_pps: 99.0, ..NOTHING }.is_carried());
        assert!(!Offered { offered_pps: 100.0, arrived_pps: 98.9, ..NOTHING }.is_carried());
    }

    #[test]
    fn round_trips_that_mostly_came_back_may_be_used() {
        let of = |answered, lost| {
            let mut rtt = Histogram::new();
            rtt.record_n(20_000, answered);
            Echoes { rtt, lost }.void()
        };
        assert_eq!((of(1_000, 0), of(990, 10), of(0, 0)), (None, None, None));
        let why = of(989, 11).unwrap();
        assert_eq!(why, "11 of 1000 requests had no answer, more than 1 % of them");
        assert!(of(0, 1).is_some());
    }

    #[test]
    fn the_last_figure_of_iperf_counts() {
        let text = "[  1] local 10.0.0.10 port 3 connected\n[ ID] Interval       Transfer     Bandwidth\n\
                    [  1] 0.0-1.0 sec   100 MBytes   839 Mbits/sec\n[  1] 0.0000-2.0123 sec  1012 MBytes  4219.5 Mbits/sec\n";
        assert_eq!(iperf_figure(text), Some(4219.5));
        assert_eq!(iperf_figure("Mbits/sec"), None);
        assert_eq!(iperf_figure("connect failed: Connection refused"), None);
    }
}
