//! Ports measured: raw frames from one port to another, without any protocol.
//!
//! One thread sends bursts as fast as its port takes them, another receives and counts. What comes out is what the ports and the wire between
//! them carry: the floor under every program on them. The baseline is a pair of the kernel's datagram sockets.

use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::messages::pair::{SocketFolder, pair_uris};
use crate::messages::plan::Over;
use crate::row::{Measure, Measured, Param, Subject, Unit};
use crate::run::{Stop, Workload, two_ends};
use barewire_base::{Duration, Instant};
use barewire_engine::open_port;
use barewire_frame::{BURST_MAX, Burst, Pool, PoolConfig};
use barewire_measure::{Contention, stamp};
use barewire_netns::TwoHosts;
use barewire_port::{Port, PortUri};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

/// Bytes of a frame without FCS: what Ethernet has.
const SIZES: std::ops::RangeInclusive<u32> = 60..=1514;
/// EtherType for local experiments (IEEE 802): frames of others on the wire have another.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
/// After the last frame was sent the receiver waits so long for what is under way.
const LINGER: Duration = Duration::from_millis(50);

const MEASURES: &[Measure] = &[
    Measure::rate("rate_pps", "packets/s", "packets"),
    Measure::cost("ns_per_packet", "ns/packet", "time a packet"),
    Measure::rate("offered_pps", "offered/s", "offered").neutral(),
    Measure::count("lost", "lost"),
];

/// Between what frames go.
enum Ends {
    /// Two ports by their URIs, on two hosts or here.
    Ports([String; 2], Option<Arc<TwoHosts>>),
    /// A pair of the kernel's datagram sockets.
    Sockets,
}

/// What every run of a command has in common.
#[derive(Clone)]
pub struct Settings {
    /// Bytes of a frame without FCS.
    pub size: u32,
    /// Frames that are handed to a port at once.
    pub burst: usize,
    /// Measured time of a run.
    pub seconds: Duration,
    /// Cores of sender and receiver.
    pub cores: Option<(usize, usize)>,
    /// The command, for rows.
    pub command: String,
}

/// Frames of one size between two ports.
pub struct PortWorkload {
    system: &'static str,
    over: String,
    ends: Ends,
    asked: Settings,
    /// Removed with it.
    _folder: Option<SocketFolder>,
}

impl PortWorkload {
    /// Over a fresh pair of ports; `packet` and `xdp` on `hosts`.
    ///
    /// # Errors
    /// [`BenchError::Io`] when there is no folder for the sockets of a `unix` port.
    pub fn pair(
        over: &Over,
        hosts: Option<&Arc<TwoHosts>>,
        asked: Settings,
    ) -> Result<PortWorkload, BenchError> {
        let name = over.as_str().to_owned();
        if let Some(hosts) = hosts.filter(|_| over.needs_hosts()) {
            let uris = [&hosts.eth_a, &hosts.eth_b].map(|interface| format!("{name}:{}", interface.name));
            return Ok(PortWorkload::new(
                "barewire",
                name,
                Ends::Ports(uris, Some(Arc::clone(hosts))),
                asked,
            ));
        }
        let (uris, folder) = pair_uris(over, "").map_err(BenchError::io("a folder for sockets"))?;
        let pair = PortWorkload::new("barewire", name, Ends::Ports(uris, None), asked);
        Ok(PortWorkload { _folder: folder, ..pair })
    }

    fn new(system: &'static str, over: String, ends: Ends, asked: Settings) -> PortWorkload {
        PortWorkload { system, over, ends, asked, _folder: None }
    }

    /// From the port of one URI to that of another.
    pub fn between(from: &str, to: &str, asked: Settings) -> PortWorkload {
        let ends = Ends::Ports([from.to_owned(), to.to_owned()], None);
        PortWorkload::new("barewire", format!("{from} to {to}"), ends, asked)
    }

    /// Over the kernel's datagram sockets, one frame a call.
    pub fn kernel(asked: Settings) -> PortWorkload {
        PortWorkload::new("kernel-unix", "socketpair".to_owned(), Ends::Sockets, asked)
    }

    /// Runs both ends; `send` and `receive` make, in their threads, what sends and receives once.
    fn both<S: FnMut(Instant) -> Result<u64, BenchError>, R: FnMut(Instant) -> Result<u64, BenchError>>(
        &self,
        hosts: Option<&TwoHosts>,
        cpu: &Charge,
        send: impl FnOnce() -> Result<S, BenchError> + Send,
        receive: impl FnOnce() -> Result<R, BenchError> + Send,
    ) -> Result<(Passed, Passed), BenchError> {
        let receiving = |stop: Stop<'_>| {
            let mut receive = receive()?;
            stop.ready();
            let (mut packets, mut first, mut last, mut heard) = (0, None, stamp(), stamp());
            loop {
                let now = stamp();
                match receive(now)? {
                    0 if !stop.asked() => {
                        heard = now;
                        std::thread::yield_now();
                    }
                    0 if now.since(heard) > LINGER => break,
                    0 => {}
                    got => {
                        packets += got;
                        (last, heard) = (now, now);
                        first.get_or_insert(now);
                    }
                }
            }
            Ok(Passed { packets, seconds: first.map_or(0.0, |first| last.since(first).as_secs_f64()) })
        };
        let sending = || {
            let mut send = send()?;
            cpu.begins();
            let (start, mut packets) = (stamp(), 0);
            loop {
                let now = stamp();
                if now.since(start) >= self.asked.seconds {
                    cpu.ends();
                    return Ok(Passed { packets, seconds: now.since(start).as_secs_f64() });
                }
                go_on()?;
                match send(now)? {
                    0 => std::thread::yield_now(),
                    sent => packets += sent,
                }
            }
        };
        let hosts = hosts.map(|hosts| [&hosts.ns_a, &hosts.ns_b]);
        let both = two_ends(hosts, self.asked.cores, sending, receiving)?;
        Ok((both.server, both.client))
    }

    fn run(&self, cpu: &Charge) -> Result<(Passed, Passed), BenchError> {
        let Settings { size, burst: limit, .. } = self.asked;
        match &self.ends {
            Ends::Ports([from, to], hosts) => self.both(
                hosts.as_deref(),
                cpu,
                || {
                    let (mut port, pool) = open(from)?;
                    let (frame, mut burst) = (frame(size), Burst::with_limit(limit));
                    Ok(move |now: Instant| {
                        while let Some(frame) = (burst.room() > 0).then(|| pool.alloc_from(&frame)).flatten()
                        {
                            let _ = burst.push(frame);
                        }
                        Ok(port.tx_burst(now, &mut burst)? as u64)
                    })
                },
                || {
                    let ((mut port, pool), mut burst) = (open(to)?, Burst::with_limit(limit));
                    Ok(move |now: Instant| {
                        let _ = &pool;
                        port.rx_burst(now, &mut burst)?;
                        let ours =
                            |frame: &&_| barewire_frame::Frame::data(frame).get(12..14) == Some(&ETHER_TYPE);
                        let count = burst.iter().filter(ours).count();
                        burst.clear();
                        Ok(count as u64)
                    })
                },
            ),
            Ends::Sockets => {
                let (ours, theirs) = UnixDatagram::pair().map_err(BenchError::io("a pair of sockets"))?;
                for socket in [&ours, &theirs] {
                    socket.set_nonblocking(true).map_err(BenchError::io("a pair of sockets"))?;
                }
                let (frame, mut buffer) = (frame(size), [0u8; 2048]);
                let count = |done: std::io::Result<usize>| match done {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                    done => done.map(|_| 1).map_err(BenchError::io("datagrams")),
                };
                let send = || Ok(move |_: Instant| count(ours.send(&frame)));
                self.both(None, cpu, send, || Ok(move |_: Instant| count(theirs.recv(&mut buffer))))
            }
        }
    }
}

/// What passed one end.
struct Passed {
    packets: u64,
    seconds: f64,
}

fn open(uri: &str) -> Result<(Box<dyn Port>, Pool), BenchError> {
    let uri: PortUri = uri.parse()?;
    let pool = Pool::new(PoolConfig::default()).map_err(|error| BenchError::Plan(error.to_string()))?;
    Ok((open_port(&uri, &pool)?, pool))
}

/// To everybody, from a locally administered address.
fn frame(size: u32) -> Vec<u8> {
    let mut frame = vec![0u8; size as usize];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[0x02, 0x62, 0x77, 0x50, 0, 1]);
    frame[12..14].copy_from_slice(&ETHER_TYPE);
    frame
}

impl Workload for PortWorkload {
    fn subjects(&self) -> Vec<Subject> {
        let (size, burst) = (self.asked.size, self.asked.burst);
        vec![Subject {
            bench: "port",
            system: self.system.to_owned(),
            over: Some(self.over.clone()),
            params: vec![Param::new("size", Unit::Bytes, size), Param::new("burst", Unit::Count, burst)],
            command: self.asked.command.clone(),
            ..Subject::default()
        }]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        self.asked.seconds + LINGER + LINGER
    }

    fn check(&self) -> Result<(), BenchError> {
        let Settings { size, burst, seconds, .. } = self.asked;
        let refuse = |why: String| Err(BenchError::Plan(why));
        match () {
            () if !SIZES.contains(&size) => refuse(format!("`--size {size}` is out of range: 60 to 1514")),
            () if !(1..=BURST_MAX).contains(&burst) => {
                refuse(format!("`--burst {burst}` is out of range: 1 to {BURST_MAX}"))
            }
            () if seconds == Duration::ZERO => refuse("a run needs some time".to_owned()),
            () => Ok(()),
        }
    }

    fn slice(&mut self, _round: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let watch = Contention::start();
        let (received, sent) = self.run(cpu)?;
        let mut measured = Measured::default()
            .operations(received.packets)
            .number("offered_pps", sent.packets as f64 / sent.seconds)
            .number("lost", sent.packets.saturating_sub(received.packets) as f64)
            .watched(&watch.finish());
        if received.seconds > 0.0 {
            let rate = received.packets as f64 / received.seconds;
            measured = measured.number("rate_pps", rate).number("ns_per_packet", 1e9 / rate);
        } else {
            measured.void = Some("no frame arrived".to_owned());
        }
        Ok(vec![measured])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_well;
    use crate::row::Row;
    use crate::run::interleave;

    fn asked() -> Settings {
        let (seconds, command) = (Duration::from_millis(30), String::new());
        Settings { size: 64, burst: 32, seconds, cores: None, command }
    }

    #[test]
    fn frames_pass_between_ports_and_between_sockets() {
        let pair = |over: &str| PortWorkload::pair(&over.parse().unwrap(), None, asked()).unwrap();
        let measure = || {
            let mut all: Vec<Box<dyn Workload>> = [pair("mem"), pair("unix"), PortWorkload::kernel(asked())]
                .map(|workload| Box::new(workload) as Box<dyn Workload>)
                .into();
            let (rows, failures) = interleave(&mut all, 2, &mut |_| {}, &mut |_| {});
            assert!(failures.is_empty(), "{failures:?}");
            rows
        };
        let rows = until_well(measure, |rows: &Vec<Row>| rows.iter().all(Row::is_usable));
        let of: Vec<&str> = rows.iter().map(|row| row.subject.over.as_deref().unwrap()).collect();
        assert_eq!(of, ["mem", "unix", "socketpair"]);
        for row in &rows {
            assert!(row.void.is_none() && row.number("rate_pps") > Some(0.0), "{row:?}");
            // A ring that is full takes no more, and nothing that it took is lost.
            assert_eq!(row.number("lost"), Some(0.0), "{row:?}");
            assert_eq!(row.param("size").as_deref(), Some("64"));
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_first() {
        let why = |change: fn(&mut Settings)| {
            let mut asked = asked();
            change(&mut asked);
            PortWorkload::kernel(asked).check().unwrap_err().to_string()
        };
        assert!(why(|w| w.size = 59).contains("60 to 1514"));
        assert!(why(|w| w.burst = 33).contains("1 to 32"));
        assert!(why(|w| w.seconds = Duration::ZERO).contains("some time"));
        let error = PortWorkload::between("mem:a", "xpd:b", asked())
            .slice(0, &Charge::start())
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean `xdp`?"), "{error}");
    }
}
