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
use super::{DataRow, DataRun, RateError, Span, go_on};
use crate::histograms::Histograms;
use crate::rc::Advert;
use crate::rounds::{median, turns};
use barewire_base::{Duration, Instant};
use barewire_engine::IdleStrategy;
use barewire_frame::PoolConfig;
use barewire_measure::{Contention, ContentionReport, Histogram, stamp};
use barewire_port::MemoryConfig;
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
    fn new(mut device: Device) -> Result<Peer, RateError> {
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

    fn take_offer(&mut self) -> Result<(), RateError> {
        self.remote = offered(&self.device)?;
        Ok(())
    }

    fn post_receives(&mut self, qpn: Qpn) -> Result<(), RateError> {
        for n in 0..RECVS {
            self.post_recv(qpn, n)?;
        }
        Ok(())
    }

    fn post_recv(&mut self, qpn: Qpn, n: u64) -> Result<(), RateError> {
        let sge = self.memory.sge(RECV_AT, PING_MAX);
        Ok(self.device.verbs().post_recv(qpn, n, &[sge])?)
    }

    #[inline]
    fn post(&mut self, op: SendOp, data: Data<'_>, signaled: bool) -> Result<(), RateError> {
        let qpn = self.qpn.ok_or(RdmaError::Disconnected)?;
        let wr = SendWr { signaled, ..SendWr::new(0, op, data) };
        Ok(self.device.verbs().post_send(qpn, &wr)?)
    }

    /// Writes a ping, or sends one.
    #[inline]
    fn ping(&mut self, number: u64, work: Work) -> Result<(), RateError> {
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

    fn cycle(&mut self, now: Instant) -> Result<usize, RateError> {
        Ok(self.device.stack_mut().poll(now)?)
    }

    /// The passive side: accepts, and answers pings.
    fn serve(&mut self, now: Instant) -> Result<usize, RateError> {
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

fn check(wc: &Wc) -> Result<(), RateError> {
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
    fn connect(mut peer: Peer, idle: Idle, other: Other<'_>) -> Result<Asking, RateError> {
        let end = stamp() + PATIENCE;
        let server = wires::server_address(0).into();
        let late = || RateError::from(RdmaError::NoAnswer);
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
    ) -> Result<(Histogram, u64, f64), RateError> {
        self.part(work, WARMUP, idle, other)?;
        self.part(work, duration, idle, other)
    }

    fn part(
        &mut self,
        work: Work,
        duration: Duration,
        idle: Idle,
        other: Other<'_>,
    ) -> Result<(Histogram, u64, f64), RateError> {
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
    ) -> Result<(Histogram, u64, f64), RateError> {
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
    ) -> Result<(Histogram, u64, f64), RateError> {
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
    fn post_receives_at_init(&mut self, qpn: Qpn) -> Result<(), RateError> {
        self.device.verbs().modify_qp(qpn, barewire_roce::Modify::Init)?;
        self.post_receives(qpn)
    }
}

impl Request {
    /// How long all of it takes, about.
    pub fn planned_time(&self) -> Duration {
        let each = self.seconds + WARMUP + Duration::from_millis(300);
        each.saturating_mul(WORKS.len() as u64 * u64::from(self.runs))
    }

    /// Measures every row, in turns, forth and back: rows, and why some failed. One that fails is left out of later rounds, and says so.
    ///
    /// # Errors
    /// [`RateError`] when there are no hosts for any.
    pub fn run(&self, progress: &mut dyn FnMut(String)) -> Result<(Vec<DataRow>, Vec<RateError>), RateError> {
        let hosts = match self.over {
            Over::Mem => None,
            _ => Some(Hosts::create(Shape { hosts: 1, threads: 1, nics: 1 })?),
        };
        let mut sums: Vec<(Vec<Ran>, Option<String>)> = WORKS.iter().map(|_| (Vec::new(), None)).collect();
        let mut failures = Vec::new();
        for round in 0..self.runs {
            for at in turns(round, WORKS.len()) {
                let (work, (runs, broken_off)) = (&WORKS[at], &mut sums[at]);
                if broken_off.is_some() || crate::interrupted() {
                    continue;
                }
                progress(format!(
                    "run {} of {}: {} of {} bytes over {}",
                    round + 1,
                    self.runs,
                    work.operation.as_str(),
                    work.size,
                    self.over.as_str()
                ));
                match self.run_once(*work, hosts.as_ref()) {
                    Ok(ran) => runs.push(ran),
                    // What an interruption ends has not failed: the rounds before it count.
                    Err(_) if crate::interrupted() => {}
                    Err(error) => {
                        *broken_off = Some(format!("run {} of {} failed: {error}", round + 1, self.runs));
                        failures.push(error);
                    }
                }
            }
        }
        let rows = WORKS.iter().zip(sums).filter(|(_, (runs, _))| !runs.is_empty());
        Ok((rows.map(|(work, (runs, broken_off))| self.row(*work, &runs, broken_off)).collect(), failures))
    }

    fn sides(&self, hosts: Option<&Hosts>) -> Result<(Side, Side), RateError> {
        match hosts {
            // Frames of the largest path MTU.
            None => Side::memory(MemoryConfig { slot_bytes: 4608, ..MemoryConfig::default() }),
            Some(hosts) => Ok(Side::veth(self.over, hosts)),
        }
    }

    fn peer(&self, side: Side, is_server: bool) -> Result<Peer, RateError> {
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

    fn run_once(&self, work: Work, hosts: Option<&Hosts>) -> Result<Ran, RateError> {
        let (ours, theirs) = self.sides(hosts)?;
        if self.one_thread {
            let body = || -> Result<Ran, RateError> {
                pin(self.cores.map(|c| c.0))?;
                let mut server = self.peer(theirs, true)?;
                let mut other = |now: Instant| server.serve(now).map(|_| ());
                self.ask(work, ours, Idle::Spin, &mut other)
            };
            return std::thread::scope(|scope| scope.spawn(body).join())
                .unwrap_or_else(|_| Err(RateError::Plan("the thread that measures panicked".to_owned())));
        }
        let idle = Idle::of(self.idle, self.cores);
        let (stop, failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (stop, failed) = (&stop, &failed);
        let serving = move || -> Result<(), RateError> {
            let run = || -> Result<(), RateError> {
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
        let asking = move || -> Result<Ran, RateError> {
            pin(self.cores.map(|c| c.0))?;
            let mut other = |_: Instant| {
                if failed.load(Ordering::Relaxed) {
                    return Err(RateError::Plan("the server's thread failed".to_owned()));
                }
                Ok(())
            };
            self.ask(work, ours, idle, &mut other)
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
            let panicked = || RateError::Plan("a thread panicked".to_owned());
            server.join().map_err(|_| panicked())??;
            asked.map_err(|_| panicked())?
        })
    }

    fn ask(&self, work: Work, side: Side, idle: Idle, other: Other<'_>) -> Result<Ran, RateError> {
        let mut asking = Asking::connect(self.peer(side, false)?, idle, other)?;
        let mtu = asking.peer.device.verbs().conn_info(asking.conn).map_or(0, |info| info.mtu.bytes());
        let watch = Contention::start();
        let (latency, messages, seconds) = asking.run(work, self.seconds, idle, other)?;
        Ok(Ran { latency, messages, seconds, mtu, contention: watch.finish() })
    }

    fn row(&self, work: Work, runs: &[Ran], broken_off: Option<String>) -> DataRow {
        let mut latency = Histogram::new();
        let mut contention = Vec::new();
        let mut histograms = Histograms::default();
        for run in runs {
            latency.merge(&run.latency);
            histograms.push("latency", &run.latency);
            for reason in &run.contention.reasons {
                if !contention.contains(reason) {
                    contention.push(reason.clone());
                }
            }
        }
        let rate = |run: &Ran| run.messages as f64 / run.seconds.max(1e-9);
        let gbit = |run: &Ran| (rate(run) * work.size as f64 * 8.0 / 1e7).round() / 100.0;
        let median = |values: Vec<f64>| median(values).unwrap_or_default();
        let spans: Vec<Span> = runs.iter().map(|run| Span::of(&run.latency)).collect();
        let (latency_ns, together) = Span::of_runs(spans.iter().copied(), &latency);
        let runs_gbit_per_s: Vec<f64> = runs.iter().map(gbit).collect();
        DataRow {
            system: "barewire".to_owned(),
            mode: if self.one_thread { "embedded-one-thread" } else { "embedded" }.to_owned(),
            over: self.over.as_str().to_owned(),
            operation: work.operation.as_str().to_owned(),
            size: work.size as u32,
            window: work.window,
            mtu: runs.first().map_or(0, |run| run.mtu),
            points: if work.one_way { "one way" } else { "completion" }.to_owned(),
            latency_ns,
            messages_per_s: median(runs.iter().map(rate).collect()).round(),
            gbit_per_s: median(runs_gbit_per_s.clone()),
            runs_gbit_per_s,
            runs: runs
                .iter()
                .zip(&spans)
                .map(|(run, &latency_ns)| DataRun {
                    gbit_per_s: gbit(run),
                    messages_per_s: rate(run).round(),
                    p50_ns: latency_ns.p50,
                    latency_ns,
                })
                .collect(),
            notes: together.into_iter().collect(),
            broken_off,
            contended: runs.iter().any(|run| run.contention.contended),
            contention,
            command: self.command.clone(),
            histograms,
        }
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
                    command: String::new(),
                };
                let (rows, failures) = request.run(&mut |_| {}).unwrap();
                assert!(failures.is_empty(), "{failures:?}");
                rows
            };
            let is_bulk = |row: &DataRow| row.size == 1 << 20 && row.operation == "write";
            let seen = |row: &DataRow| {
                row.latency_ns.p50.is_some()
                    && row.runs_gbit_per_s.iter().all(|&gbit| gbit > 0.0)
                    && (row.gbit_per_s > 0.01 || !is_bulk(row))
            };
            let rows =
                until_seen(Duration::from_millis(60), rows_of, |rows: &Vec<DataRow>| rows.iter().all(seen));
            assert_eq!(rows.len(), WORKS.len());
            for row in &rows {
                assert!(row.latency_ns.samples > 2 && row.messages_per_s > 0.0, "{row:?}");
                assert_eq!((row.mtu, row.runs_gbit_per_s.len()), (4096, 2), "{row:?}");
                assert!(row.latency_ns.min <= row.latency_ns.p50);
                assert_eq!(row.runs.iter().map(|r| r.gbit_per_s).collect::<Vec<_>>(), row.runs_gbit_per_s);
                assert!(row.runs.iter().all(|run| run.messages_per_s > 0.0), "{row:?}");
            }
            let bulk = rows.iter().find(|row| is_bulk(row)).unwrap();
            assert!(bulk.gbit_per_s > 0.01, "{bulk:?}");
        }
    }
}
