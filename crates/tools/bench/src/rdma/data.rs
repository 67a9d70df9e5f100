//! What goes over a connection: the time of one request, and how much fits through.
//!
//! `one way` is half of a round trip: the client writes (or sends), the server sees it in its memory (or by its completion) and
//! writes (sends) back. `completion` is from posting a request until its completion, which for a write is the peer's
//! acknowledgement. Bandwidth counts payload whose requests have completed.

use super::client::{Other, resolve};
use super::idle::Idle;
use super::live::{Over, Side, device_config, pin};
use super::server::offered;
use super::wires::{self, Hosts, Shape};
use crate::awake::hold;
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::messages::IdleState;
use crate::row::{Measure, Measured, Param, Row, SPANS, Subject, Unit};
use crate::run::{Outcome, Workload, interleave};
use barewire_base::{Duration, Instant};
use barewire_engine::IdleStrategy;
use barewire_frame::PoolConfig;
use barewire_measure::{Contention, ContentionReport, Histogram, stamp};
use barewire_port::MemoryConfig;
use barewire_rdma_tools::Advert;
use barewire_roce::{
    Access, ConnId, Connect, CqId, Data, Event, Pd, QpInit, Qpn, SendOp, SendWr, Sge, Terms, Wc, WcOpcode,
    WcStatus,
};
use barewire_verbs::{Device, Memory, RdmaError};
use std::sync::atomic::{AtomicBool, Ordering};

const SERVICE_ID: u64 = 51;
/// Longest time that nothing comes back before the run is given up.
const PATIENCE: Duration = Duration::from_secs(5);
const WARMUP: Duration = Duration::from_millis(100);
/// Devices and a connection.
const SETUP: Duration = Duration::from_millis(300);
/// Rounds between two looks at the flag that somebody interrupted.
const LOOK_EVERY: u64 = 1024;

/// Where a ping lands, and a received message, in each side's memory.
const PING_AT: usize = 0;
/// Bytes of a ping at most, and of a message.
const PING_MAX: usize = 4096;
/// Where messages to send and to receive are.
const SEND_AT: usize = PING_MAX;
const RECV_AT: usize = 2 * PING_MAX;
/// Where large data are.
const BULK_AT: usize = 64 << 10;
/// Bytes of the largest request.
const BULK_MAX: usize = 1 << 20;
/// Receives that are posted.
const RECVS: u64 = 64;
/// Large requests in flight.
const BULK_WINDOW: u32 = 4;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Write,
    Read,
    Send,
    FetchAdd,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Send => "send",
            Operation::FetchAdd => "fetch-add",
        }
    }
}

/// One row's work.
#[derive(Clone, Copy, Debug)]
struct Work {
    operation: Operation,
    size: usize,
    window: u32,
    one_way: bool,
}

const fn work(operation: Operation, size: usize, window: u32, one_way: bool) -> Work {
    Work { operation, size, window, one_way }
}

const WORKS: [Work; 7] = [
    work(Operation::Write, 64, 1, true),
    work(Operation::Send, 64, 1, true),
    work(Operation::Write, 64, 1, false),
    work(Operation::Read, 64, 1, false),
    work(Operation::FetchAdd, 8, 1, false),
    work(Operation::Write, BULK_MAX, BULK_WINDOW, false),
    work(Operation::Read, BULK_MAX, BULK_WINDOW, false),
];

const MEASURES: &[Measure] = &[
    Measure::count("mtu", "MTU").neutral(),
    Measure::spans("latency_ns", "latency", SPANS),
    Measure::rate("messages_per_s", "messages/s", "messages"),
    Measure::rate("gbit_per_s", "Gbit/s", "payload").in_unit(Unit::GbitPerSecond, 0.01),
];

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What lies between the ends.
    pub over: Over,
    /// Both ends in one thread.
    pub one_thread: bool,
    /// Measured time of a run.
    pub seconds: Duration,
    /// Runs of each row.
    pub runs: u32,
    /// Cores of client and server.
    pub cores: Option<(usize, usize)>,
    /// What a thread does when nothing comes; `None`: spins on a core of its own, yields without.
    pub idle: Option<IdleStrategy>,
    /// Whether the cores are kept awake, where the machine can.
    pub idle_state: IdleState,
    /// The command, for rows.
    pub command: String,
}

/// What one run of one row gave.
struct Ran {
    latency: Histogram,
    messages: u64,
    seconds: f64,
    mtu: u32,
    contention: ContentionReport,
}

/// One side of a connection.
struct Peer {
    device: Device,
    pd: Pd,
    cq: CqId,
    memory: Memory,
    qpn: Option<Qpn>,
    /// The other side's memory.
    remote: Advert,
    done: Vec<Wc>,
    /// The last ping that was answered.
    answered: u64,
}

impl Peer {
    fn new(mut device: Device) -> Result<Peer, BenchError> {
        let verbs = device.verbs();
        let pd = verbs.alloc_pd();
        let cq = verbs.create_cq(1024)?;
        let memory = Memory::register(verbs, pd, BULK_AT + BULK_MAX, Access::ALL)?;
        Ok(Peer {
            device,
            pd,
            cq,
            memory,
            qpn: None,
            remote: Advert { addr: 0, rkey: 0, len: 0 },
            done: Vec::new(),
            answered: 0,
        })
    }

    fn offer(&self) -> [u8; Advert::LEN] {
        let memory = &self.memory;
        Advert { addr: memory.addr(), rkey: memory.rkey(), len: memory.len() as u32 }.bytes()
    }

    fn take_offer(&mut self) -> Result<(), BenchError> {
        self.remote = offered(&self.device)?;
        Ok(())
    }

    fn post_receives(&mut self, qpn: Qpn) -> Result<(), BenchError> {
        for n in 0..RECVS {
            self.post_recv(qpn, n)?;
        }
        Ok(())
    }

    fn post_recv(&mut self, qpn: Qpn, n: u64) -> Result<(), BenchError> {
        let sge = self.memory.sge(RECV_AT, PING_MAX);
        Ok(self.device.verbs().post_recv(qpn, n, &[sge])?)
    }

    #[inline]
    fn post(&mut self, op: SendOp, data: Data<'_>, signaled: bool) -> Result<(), BenchError> {
        let qpn = self.qpn.ok_or(RdmaError::Disconnected)?;
        let wr = SendWr { signaled, ..SendWr::new(0, op, data) };
        Ok(self.device.verbs().post_send(qpn, &wr)?)
    }

    /// Writes a ping, or sends one.
    #[inline]
    fn ping(&mut self, number: u64, work: Work) -> Result<(), BenchError> {
        let mut bytes = [0u8; 64];
        let at = work.size - 8;
        bytes[at..work.size].copy_from_slice(&number.to_le_bytes());
        let op = match work.operation {
            Operation::Send => SendOp::Send,
            _ => SendOp::Write { addr: self.remote.addr + PING_AT as u64, rkey: self.remote.rkey },
        };
        self.post(op, Data::Inline(&bytes[..work.size]), false)
    }

    /// The number of the last ping in memory.
    #[inline]
    fn seen(&self, size: usize) -> u64 {
        self.memory.region().load_u64(PING_AT + size - 8).map_or(0, u64::from_le)
    }

    fn cycle(&mut self, now: Instant) -> Result<usize, BenchError> {
        Ok(self.device.stack_mut().poll(now)?)
    }

    /// The passive side: accepts, and answers pings.
    fn serve(&mut self, now: Instant) -> Result<usize, BenchError> {
        let mut work = self.device.stack_mut().receive(now)?;
        while let Some(event) = self.device.stack_mut().poll_event() {
            if let Event::ConnectRequest { conn, .. } = event {
                self.take_offer()?;
                let init = QpInit::rc(self.pd, self.cq);
                let qpn = self.device.verbs().create_qp(&init)?;
                let offer = self.offer();
                self.device.verbs().accept(now, conn, qpn, &Terms { private: &offer })?;
                self.post_receives(qpn)?;
                self.qpn = Some(qpn);
                self.answered = 0;
            }
        }
        if self.qpn.is_some() {
            let number = self.seen(64);
            if number > self.answered {
                self.answered = number;
                self.ping(number, WORKS[0])?;
            }
            while let Some(wc) = self.device.verbs().poll_cq_one(self.cq) {
                check(&wc)?;
                if wc.opcode == WcOpcode::Recv
                    && let Some(qpn) = self.qpn
                {
                    self.post_recv(qpn, wc.wr_id)?;
                    self.ping(0, WORKS[1])?;
                }
            }
        }
        work += self.device.stack_mut().transmit(now)?;
        Ok(work)
    }
}

fn check(wc: &Wc) -> Result<(), BenchError> {
    match wc.status {
        WcStatus::Success => Ok(()),
        status => Err(RdmaError::Failed { wr_id: wc.wr_id, status }.into()),
    }
}

/// The asking side, connected.
struct Asking {
    peer: Peer,
    conn: ConnId,
}

impl Asking {
    fn connect(mut peer: Peer, idle: Idle, other: Other<'_>) -> Result<Asking, BenchError> {
        let end = stamp() + PATIENCE;
        let server = wires::server_address(0).into();
        let late = || BenchError::from(RdmaError::NoAnswer);
        let path = resolve(&mut peer.device, server, idle, other)?;
        let qpn = peer.device.verbs().create_qp(&QpInit::rc(peer.pd, peer.cq))?;
        peer.post_receives_at_init(qpn)?;
        let offer = peer.offer();
        let to = Connect { private: &offer, ..Connect::new(path, SERVICE_ID) };
        let now = stamp();
        let conn = peer.device.verbs().connect(now, qpn, &to)?;
        loop {
            let now = stamp();
            peer.cycle(now)?;
            other(now)?;
            match peer.device.stack_mut().poll_event() {
                Some(Event::Connected { .. }) => break,
                Some(Event::ConnectFailed { .. }) => return Err(late()),
                _ if now > end => return Err(late()),
                _ => idle.rest(peer.device.stack_mut(), now),
            }
        }
        peer.take_offer()?;
        peer.qpn = Some(qpn);
        // The RTU.
        peer.cycle(stamp())?;
        Ok(Asking { peer, conn })
    }

    fn op(&self, work: Work, slot: u32) -> (SendOp, Sge) {
        let Advert { addr, rkey, .. } = self.peer.remote;
        let (there, here) =
            if work.size > PING_MAX { (BULK_AT, BULK_AT) } else { (SEND_AT, SEND_AT + slot as usize * 64) };
        let addr = addr + there as u64;
        let op = match work.operation {
            Operation::Write => SendOp::Write { addr, rkey },
            Operation::Read => SendOp::Read { addr, rkey },
            Operation::FetchAdd => SendOp::FetchAdd { addr, rkey, add: 1 },
            Operation::Send => SendOp::Send,
        };
        (op, self.peer.memory.sge(here, work.size))
    }

    fn run(
        &mut self,
        work: Work,
        duration: Duration,
        idle: Idle,
        other: Other<'_>,
        cpu: &Charge,
    ) -> Result<(Histogram, u64, f64), BenchError> {
        self.part(work, WARMUP, idle, other)?;
        cpu.begins();
        let measured = self.part(work, duration, idle, other);
        cpu.ends();
        measured
    }

    fn part(
        &mut self,
        work: Work,
        duration: Duration,
        idle: Idle,
        other: Other<'_>,
    ) -> Result<(Histogram, u64, f64), BenchError> {
        if work.one_way {
            self.pings(work, duration, idle, other)
        } else {
            self.requests(work, duration, idle, other)
        }
    }

    fn pings(
        &mut self,
        work: Work,
        duration: Duration,
        idle: Idle,
        other: Other<'_>,
    ) -> Result<(Histogram, u64, f64), BenchError> {
        let mut latency = Histogram::new();
        let start = stamp();
        let mut rounds = 0u64;
        let mut number = self.peer.answered;
        loop {
            let since = stamp();
            if since.since(start) >= duration {
                break;
            }
            number += 1;
            self.peer.ping(number, work)?;
            self.peer.device.stack_mut().transmit(since)?;
            let mut tries = 0u64;
            let at = loop {
                let now = stamp();
                other(now)?;
                self.peer.device.stack_mut().receive(now)?;
                let back = if work.operation == Operation::Send {
                    match self.peer.device.verbs().poll_cq_one(self.peer.cq) {
                        Some(wc) => {
                            check(&wc)?;
                            true
                        }
                        None => false,
                    }
                } else {
                    self.peer.seen(work.size) == number
                };
                if back {
                    break stamp();
                }
                self.peer.device.stack_mut().transmit(now)?;
                idle.rest(self.peer.device.stack_mut(), now);
                tries += 1;
                if tries.is_multiple_of(LOOK_EVERY) {
                    go_on()?;
                    if now.since(since) > PATIENCE {
                        return Err(RdmaError::TimedOut.into());
                    }
                }
            };
            latency.record(at.since(since).as_nanos() / 2);
            rounds += 1;
            if work.operation == Operation::Send
                && let Some(qpn) = self.peer.qpn
            {
                self.peer.post_recv(qpn, number)?;
            }
        }
        self.peer.answered = number;
        // Two one-way messages in each round.
        Ok((latency, rounds * 2, stamp().since(start).as_secs_f64()))
    }

    fn requests(
        &mut self,
        work: Work,
        duration: Duration,
        idle: Idle,
        other: Other<'_>,
    ) -> Result<(Histogram, u64, f64), BenchError> {
        let mut latency = Histogram::new();
        let mut posted = std::collections::VecDeque::with_capacity(work.window as usize);
        let (start, mut completed, mut heard) = (stamp(), 0u64, stamp());
        let mut spent = None;
        let mut tries = 0u64;
        loop {
            let now = stamp();
            if spent.is_none() && now.since(start) >= duration {
                spent = Some(now.since(start).as_secs_f64());
            }
            while spent.is_none() && posted.len() < work.window as usize {
                let (op, sge) = self.op(work, posted.len() as u32);
                self.peer.post(op, Data::Sges(&[sge]), true)?;
                posted.push_back(now);
            }
            self.peer.device.stack_mut().transmit(now)?;
            other(now)?;
            self.peer.device.stack_mut().receive(now)?;
            let mut done = std::mem::take(&mut self.peer.done);
            done.clear();
            self.peer.device.verbs().poll_cq(self.peer.cq, &mut done, 64)?;
            if !done.is_empty() {
                let at = stamp();
                heard = at;
                for wc in &done {
                    check(wc)?;
                    if let Some(since) = posted.pop_front()
                        && spent.is_none()
                    {
                        latency.record(at.since(since).as_nanos());
                        completed += 1;
                    }
                }
            } else {
                idle.rest(self.peer.device.stack_mut(), now);
            }
            self.peer.done = done;
            if let (Some(spent), true) = (spent, posted.is_empty()) {
                return Ok((latency, completed, spent));
            }
            tries += 1;
            if tries.is_multiple_of(LOOK_EVERY) {
                go_on()?;
                if now.since(heard) > PATIENCE {
                    return Err(RdmaError::TimedOut.into());
                }
            }
        }
    }
}

impl Peer {
    /// Receives may be posted once the queue pair is in the state `Init`.
    fn post_receives_at_init(&mut self, qpn: Qpn) -> Result<(), BenchError> {
        self.device.verbs().modify_qp(qpn, barewire_roce::Modify::Init)?;
        self.post_receives(qpn)
    }
}

impl Request {
    /// How long all of it takes, about.
    pub fn planned_time(&self) -> Duration {
        let each = self.seconds + WARMUP + SETUP;
        each.saturating_mul(WORKS.len() as u64 * u64::from(self.runs))
    }

    /// Measures every row, in turns, forth and back: rows, and why some failed. One that fails is left out of later rounds, and says so.
    /// `keep` gets the rows so far after each round.
    ///
    /// # Errors
    /// [`BenchError`] when there are no hosts for any.
    pub fn run(
        &self,
        progress: &mut dyn FnMut(String),
        keep: &mut dyn FnMut(&[Row]),
    ) -> Result<Outcome, BenchError> {
        let hosts = match self.over {
            Over::Mem => None,
            _ => Some(Hosts::create(Shape { hosts: 1, threads: 1, nics: 1 })?),
        };
        let hosts = hosts.as_ref();
        let (_awake, idle_state) = hold(self.idle_state);
        let one = |work: &Work| {
            Box::new(Asked { request: self, work: *work, hosts, idle_state }) as Box<dyn Workload + '_>
        };
        let mut all: Vec<Box<dyn Workload + '_>> = WORKS.iter().map(one).collect();
        Ok(interleave(&mut all, self.runs, progress, keep))
    }

    fn sides(&self, hosts: Option<&Hosts>) -> Result<(Side, Side), BenchError> {
        match hosts {
            // Frames of the largest path MTU.
            None => Side::memory(MemoryConfig { slot_bytes: 4608, ..MemoryConfig::default() }),
            Some(hosts) => Ok(Side::veth(self.over, hosts)),
        }
    }

    fn peer(&self, side: Side, is_server: bool) -> Result<Peer, BenchError> {
        let shape = Shape { hosts: 1, threads: 1, nics: 1 };
        let address = if is_server { wires::server_address(0) } else { wires::client_address(shape, 0) };
        let mut pool = PoolConfig::default();
        if self.over == Over::Mem {
            pool.chunk_len = 8192;
        }
        let config = device_config(address, pool);
        let (port, pool) = side.open(config.pool)?;
        let mut peer = Peer::new(Device::with_port(port, pool, &config)?)?;
        if is_server {
            peer.device.verbs().listen(SERVICE_ID, 16)?;
        }
        Ok(peer)
    }

    fn run_once(&self, work: Work, hosts: Option<&Hosts>, cpu: &Charge) -> Result<Ran, BenchError> {
        let (ours, theirs) = self.sides(hosts)?;
        if self.one_thread {
            let body = || -> Result<Ran, BenchError> {
                pin(self.cores.map(|c| c.0))?;
                let mut server = self.peer(theirs, true)?;
                let mut other = |now: Instant| server.serve(now).map(|_| ());
                self.ask(work, ours, Idle::Spin, &mut other, cpu)
            };
            return std::thread::scope(|scope| scope.spawn(body).join())
                .unwrap_or_else(|_| Err(BenchError::Plan("the thread that measures panicked".to_owned())));
        }
        let idle = Idle::of(self.idle, self.cores);
        let (stop, failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (stop, failed) = (&stop, &failed);
        let serving = move || -> Result<(), BenchError> {
            let run = || -> Result<(), BenchError> {
                pin(self.cores.map(|c| c.1))?;
                let mut server = self.peer(theirs, true)?;
                while !stop.load(Ordering::Relaxed) {
                    let now = stamp();
                    if server.serve(now)? == 0 {
                        idle.rest(server.device.stack_mut(), now);
                    }
                }
                Ok(())
            };
            run().inspect_err(|_| failed.store(true, Ordering::Relaxed))
        };
        let asking = move || -> Result<Ran, BenchError> {
            pin(self.cores.map(|c| c.0))?;
            let mut other = |_: Instant| {
                if failed.load(Ordering::Relaxed) {
                    return Err(BenchError::Plan("the server's thread failed".to_owned()));
                }
                Ok(())
            };
            self.ask(work, ours, idle, &mut other, cpu)
        };
        std::thread::scope(|scope| {
            let server = scope.spawn(move || match hosts {
                Some(hosts) => hosts.server.enter(serving)?,
                None => serving(),
            });
            let client = scope.spawn(move || match hosts {
                Some(hosts) => hosts.client(0).enter(asking)?,
                None => asking(),
            });
            let asked = client.join();
            stop.store(true, Ordering::Relaxed);
            let panicked = || BenchError::Plan("a thread panicked".to_owned());
            server.join().map_err(|_| panicked())??;
            asked.map_err(|_| panicked())?
        })
    }

    fn ask(
        &self,
        work: Work,
        side: Side,
        idle: Idle,
        other: Other<'_>,
        cpu: &Charge,
    ) -> Result<Ran, BenchError> {
        let mut asking = Asking::connect(self.peer(side, false)?, idle, other)?;
        let mtu = asking.peer.device.verbs().conn_info(asking.conn).map_or(0, |info| info.mtu.bytes());
        let watch = Contention::start();
        let (latency, messages, seconds) = asking.run(work, self.seconds, idle, other, cpu)?;
        Ok(Ran { latency, messages, seconds, mtu, contention: watch.finish() })
    }
}

/// One row's work, of a request, on its hosts.
struct Asked<'a> {
    request: &'a Request,
    work: Work,
    hosts: Option<&'a Hosts>,
    idle_state: IdleState,
}

impl Workload for Asked<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let Asked { request, work, .. } = self;
        let mode = if request.one_thread { "embedded-one-thread" } else { "embedded" };
        vec![Subject {
            bench: "rc-data",
            system: "barewire".to_owned(),
            mode: Some(mode.to_owned()),
            over: Some(request.over.as_str().to_owned()),
            params: vec![
                Param::word("operation", work.operation.as_str()),
                Param::new("size", Unit::Bytes, work.size),
                Param::word("window", work.window),
                Param::word("points", if work.one_way { "one way" } else { "completion" }),
            ],
            idle_state: Some(self.idle_state),
            command: request.command.clone(),
            ..Subject::default()
        }]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        self.request.seconds + WARMUP + SETUP
    }

    fn slice(&mut self, _round: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let ran = self.request.run_once(self.work, self.hosts, cpu)?;
        let rate = ran.messages as f64 / ran.seconds.max(1e-9);
        let measured = Measured::default()
            .operations(ran.messages)
            .number("messages_per_s", rate)
            .number("gbit_per_s", rate * self.work.size as f64 * 8.0 / 1e9)
            .number("mtu", f64::from(ran.mtu))
            .spans("latency_ns", ran.latency)
            .watched(&ran.contention);
        Ok(vec![measured])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_seen;

    #[test]
    fn every_operation_is_measured_in_one_thread_and_in_two() {
        for one_thread in [true, false] {
            let rows_of = |seconds| {
                let request = Request {
                    over: Over::Mem,
                    one_thread,
                    seconds,
                    runs: 2,
                    cores: None,
                    idle: None,
                    idle_state: IdleState::Warm,
                    command: String::new(),
                };
                let (rows, failures) = request.run(&mut |_| {}, &mut |_| {}).unwrap();
                assert!(failures.is_empty(), "{failures:?}");
                rows
            };
            let is_bulk = |row: &Row| {
                let of = |key| row.param(key).unwrap();
                of("size") == "1048576" && of("operation") == "write"
            };
            let seen = |row: &Row| {
                row.number("latency_ns").is_some()
                    && row.of_runs("gbit_per_s").iter().all(|&gbit| gbit > 0.0)
                    && (row.number("gbit_per_s") > Some(0.01) || !is_bulk(row))
            };
            let rows =
                until_seen(Duration::from_millis(60), rows_of, |rows: &Vec<Row>| rows.iter().all(seen));
            assert_eq!(rows.len(), WORKS.len());
            for row in &rows {
                assert!(row.number("messages_per_s") > Some(0.0), "{row:?}");
                assert_eq!(
                    (row.number("mtu"), row.of_runs("gbit_per_s").len()),
                    (Some(4096.0), 2),
                    "{row:?}"
                );
                let json = serde_json::to_value(row).unwrap();
                let latency = &json["latency_ns"];
                assert!(
                    json["samples"].as_u64() > Some(2) && latency["samples"] == json["samples"],
                    "{json}"
                );
                assert!(latency["min"].as_u64() <= latency["p50"].as_u64(), "{json}");
                assert!(row.of_runs("messages_per_s").iter().all(|rate| *rate > 0.0), "{row:?}");
            }
            let bulk = rows.iter().find(|row| is_bulk(row)).unwrap();
            assert!(bulk.number("gbit_per_s") > Some(0.01), "{bulk:?}");
        }
    }
}
