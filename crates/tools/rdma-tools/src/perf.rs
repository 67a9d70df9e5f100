//! Operations against the server's memory, or its buffers, timed and checked.
//!
//! | operation | window | what is timed, for each |
//! | --- | --- | --- |
//! | `send` | 1 | half of the time until the server's application has sent it back |
//! | `send` | more | from posting until the peer's device has acknowledged it |
//! | `write`, `read`, `fetch-add`, `compare-swap` | any | from posting until its completion; no application at the peer takes part |

use super::client::{Link, Target, ended};
use super::{Hello, Mode, Offer, RcError, WINDOW_MAX, fill, pattern};
use barewire_base::{Duration, Instant};
use barewire_engine::StopFlag;
use barewire_measure::{Histogram, stamp};
use barewire_roce::{Access, Data, SendOp, SendWr, Sge, Wc, WcOpcode, WcStatus};
use barewire_verbs::{Device, Memory, RdmaError};

/// Most bytes of an operation.
pub const SIZE_MAX: u32 = 1 << 28;
/// What memory holds before something is read into it.
const STALE: u8 = 0xa5;
/// How long the server's application may take to count what it has got.
const COUNT_MAX: Duration = Duration::from_secs(2);

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Messages.
    Send,
    /// Writing to the peer's memory.
    Write,
    /// Reading from it.
    Read,
    /// Adding 1 to 8 bytes of it.
    FetchAdd,
    /// Swapping 8 bytes of it with the next number.
    CompareSwap,
}

const OPERATIONS: [(&str, Operation); 5] = [
    ("send", Operation::Send),
    ("write", Operation::Write),
    ("read", Operation::Read),
    ("fetch-add", Operation::FetchAdd),
    ("compare-swap", Operation::CompareSwap),
];

impl Operation {
    /// As the command line has it.
    pub fn word(self) -> &'static str {
        OPERATIONS.iter().find(|(_, operation)| *operation == self).map_or("", |(name, _)| name)
    }

    fn is_atomic(self) -> bool {
        matches!(self, Operation::FetchAdd | Operation::CompareSwap)
    }
}

barewire_text::named!(Operation, OPERATIONS);

/// What to do.
#[derive(Clone, Debug)]
pub struct PerfConfig {
    /// Between whom.
    pub target: Target,
    /// What.
    pub operation: Operation,
    /// Bytes of each, up to [`SIZE_MAX`]; of atomics always 8.
    pub size: u32,
    /// Operations in flight, 1 to [`WINDOW_MAX`].
    pub window: u32,
    /// For how long, and before that without being counted.
    pub time: Duration,
    /// Warm-up.
    pub warmup: Duration,
}

/// What is between the two points of a latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatencyIs {
    /// Posting, and seeing the message come back: half of it.
    HalfRoundTrip,
    /// Posting, and seeing the completion.
    PostToCompletion,
}

impl LatencyIs {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            LatencyIs::HalfRoundTrip => "half_round_trip",
            LatencyIs::PostToCompletion => "post_to_completion",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct PerfReport {
    /// Bytes of each operation.
    pub size: u32,
    /// The time in which the operations below completed.
    pub took: Duration,
    /// Operations; of echoed messages each counts once.
    pub operations: u64,
    /// Their latencies.
    pub latency: Histogram,
    /// What these are.
    pub latency_is: LatencyIs,
    /// Results that were not what they had to be, warm-up included.
    pub wrong: u64,
    /// What opening the connection took.
    pub connected_in: Duration,
    /// Bytes of payload in a packet, as agreed.
    pub path_mtu: u32,
    /// Packets that were sent again.
    pub packets_resent: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

impl PerfReport {
    /// Operations in a second.
    pub fn operations_per_s(&self) -> f64 {
        self.operations as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Bits of data in a second, in one direction, in 10^9.
    pub fn gbit_per_s(&self) -> f64 {
        self.operations_per_s() * f64::from(self.size) * 8.0 / 1e9
    }
}

/// Runs it.
///
/// # Errors
/// What could not be opened or connected; what broke the connection later. Wrong results are none: they are counted.
#[inline(never)]
pub fn run(config: &PerfConfig, stop: &StopFlag) -> Result<PerfReport, RcError> {
    let atomic = config.operation.is_atomic();
    let size = if atomic { 8 } else { config.size };
    for (name, value, min, max) in [("size", size, 0, SIZE_MAX), ("window", config.window, 1, WINDOW_MAX)] {
        if !(min..=max).contains(&value) {
            let (value, min, max) = (value.into(), min.into(), max.into());
            return Err(RcError::Range { name, value, min, max });
        }
    }
    let mode = match config.operation {
        Operation::Send if config.window == 1 => Mode::Echo,
        Operation::Send => Mode::Sink,
        _ => Mode::Memory,
    };
    let hello = Hello { mode, size, window: config.window };
    let requests = config.window as u16 + 2;
    let mut link = Link::connect(&config.target, stop, requests, &hello.bytes())?;
    let result = measure(config, size, mode, &mut link);
    let resent = link.device.stack().endpoint().counters().packets_resent.get();
    link.close();
    let mut report = result?;
    report.packets_resent = resent;
    Ok(report)
}

/// One operation in flight.
#[derive(Clone, Copy)]
struct Slot {
    since: Instant,
    /// Which one it is, from 0.
    number: u64,
}

struct Run<'a> {
    config: &'a PerfConfig,
    size: u32,
    offer: Offer,
    /// What is sent and written.
    source: Memory,
    /// What is read, and what comes back: a place for each slot where places matter.
    sink: Memory,
    slots: Vec<Slot>,
    free: Vec<u32>,
    issued: u64,
    completed: u64,
    begin: Instant,
    end: Instant,
    last: Instant,
    report: PerfReport,
}

fn measure(config: &PerfConfig, size: u32, mode: Mode, link: &mut Link) -> Result<PerfReport, RcError> {
    let offer = Offer::parse(&link.connection.private).ok_or(RcError::NoOffer)?;
    let path_mtu = link.device.verbs().conn_info(link.connection.conn).map_or(0, |info| info.mtu.bytes());
    let (pd, verbs) = (link.pd, link.device.verbs());
    let source = Memory::register(verbs, pd, (size as usize).max(8), Access::NONE)?;
    fill(&source);
    let places = if config.operation.is_atomic() { config.window as usize } else { 1 };
    let sink = Memory::register(verbs, pd, (size as usize * places).max(8), Access::LOCAL_WRITE)?;
    sink.write(0, &vec![STALE; sink.len()]);
    let begin = stamp() + config.warmup;
    let mut run = Run {
        config,
        size,
        offer,
        source,
        sink,
        slots: vec![Slot { since: begin, number: 0 }; config.window as usize],
        free: (0..config.window).rev().collect(),
        issued: 0,
        completed: 0,
        begin,
        end: begin + config.time,
        last: begin,
        report: PerfReport {
            size,
            took: Duration::ZERO,
            operations: 0,
            latency: Histogram::new(),
            latency_is: if mode == Mode::Echo {
                LatencyIs::HalfRoundTrip
            } else {
                LatencyIs::PostToCompletion
            },
            wrong: 0,
            connected_in: link.connected_in,
            path_mtu,
            packets_resent: 0,
            stopped: false,
        },
    };
    if config.operation.is_atomic() {
        run.zero(link)?;
    }
    match run.until_done(link) {
        Err(error) if error.is_stopped() => run.report.stopped = true,
        other => {
            other?;
            run.check(link)?;
        }
    }
    run.report.took = run.last.since(run.begin);
    Ok(run.report)
}

impl Run<'_> {
    fn until_done(&mut self, link: &mut Link) -> Result<(), RcError> {
        let patience = self.config.target.patience;
        loop {
            let before = self.completed;
            let mut failure = None;
            let (cq, qpn) = (link.cq, link.connection.qpn);
            let mut closed = false;
            let waited = link.device.wait(patience, |device| {
                let turn = self.turn(device, cq, qpn);
                closed = matches!(turn, Ok(false)) && ended(device, qpn);
                match turn {
                    Ok(done) => Ok((done || closed).then_some(())),
                    Err(error) => {
                        failure = Some(error);
                        Ok(Some(()))
                    }
                }
            });
            match failure {
                Some(Stop::Error(error)) => return Err(error),
                Some(Stop::Status(status)) => return Err(link.failed("measuring", status)),
                None => {}
            }
            match waited {
                Ok(()) if closed => return Err(RcError::Closed("measuring")),
                Ok(()) => return Ok(()),
                Err(RdmaError::TimedOut) if self.completed > before => {}
                Err(RdmaError::TimedOut) => {
                    let seconds = patience.as_nanos() / 1_000_000_000;
                    return Err(RcError::Silent { doing: "measuring", seconds });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What has completed, then new operations. Whether nothing is left to do.
    fn turn(
        &mut self,
        device: &mut Device,
        cq: barewire_roce::CqId,
        qpn: barewire_roce::Qpn,
    ) -> Result<bool, Stop> {
        while let Some(wc) = device.verbs().poll_cq_one(cq) {
            let at = stamp();
            if wc.status != WcStatus::Success {
                return Err(Stop::Status(wc.status));
            }
            self.completed_one(&wc, at);
        }
        let now = stamp();
        if now < self.end {
            while let Some(slot) = self.free.pop() {
                self.issue(device, qpn, slot)?;
            }
        }
        Ok(now >= self.end && self.free.len() == self.slots.len())
    }

    fn issue(&mut self, device: &mut Device, qpn: barewire_roce::Qpn, slot: u32) -> Result<(), Stop> {
        let (addr, rkey) = (self.offer.memory.addr, self.offer.memory.rkey);
        let size = self.size as usize;
        let number = self.issued;
        self.issued += 1;
        let (op, place): (SendOp, Sge) = match self.config.operation {
            Operation::Send => (SendOp::Send, self.source.sge(0, size)),
            Operation::Write => (SendOp::Write { addr, rkey }, self.source.sge(0, size)),
            Operation::Read => (SendOp::Read { addr, rkey }, self.sink.sge(0, size)),
            Operation::FetchAdd => {
                (SendOp::FetchAdd { addr, rkey, add: 1 }, self.sink.sge(slot as usize * 8, 8))
            }
            Operation::CompareSwap => {
                let (compare, swap) = (number, number + 1);
                (SendOp::CompareSwap { addr, rkey, compare, swap }, self.sink.sge(slot as usize * 8, 8))
            }
        };
        let verbs = device.verbs();
        let list = [place];
        let wr = SendWr::new(slot.into(), op, Data::Sges(&list));
        if self.is_echo() {
            if size >= 8 {
                // Another message each time: an old one would be noticed.
                self.source.write(0, &number.to_be_bytes());
            }
            self.sink.write(0, &[STALE; 8]);
            verbs.post_recv(qpn, slot.into(), &[self.sink.sge(0, size)])?;
        }
        self.slots[slot as usize] = Slot { since: stamp(), number };
        verbs.post_send(qpn, &wr)?;
        Ok(())
    }

    fn is_echo(&self) -> bool {
        self.report.latency_is == LatencyIs::HalfRoundTrip
    }

    fn completed_one(&mut self, wc: &Wc, at: Instant) {
        if self.is_echo() && wc.opcode == WcOpcode::Send {
            // What counts is its return.
            return;
        }
        let Some(slot) = self.slots.get(wc.wr_id as usize).copied() else { return };
        self.completed += 1;
        self.free.push(wc.wr_id as u32);
        let place = wc.wr_id as usize * 8;
        self.report.wrong += u64::from(match self.config.operation {
            Operation::Send if self.is_echo() => !self.is_back(wc.len),
            // One client counts from 0: each number once, and in order. (The value is the host's, not the wire's.)
            Operation::FetchAdd | Operation::CompareSwap => u64_at(&self.sink, place) != Some(slot.number),
            _ => false,
        });
        if at > self.begin && slot.since >= self.begin {
            let span = at.since(slot.since).as_nanos();
            self.report.latency.record(if self.is_echo() { span / 2 } else { span });
            self.report.operations += 1;
            self.last = at;
        }
    }

    fn is_back(&self, len: u32) -> bool {
        let size = self.size as usize;
        len == self.size && self.source.read(0, size) == self.sink.read(0, size)
    }

    /// Whether the peer's memory is as it must be after all that.
    fn check(&mut self, link: &mut Link) -> Result<(), RcError> {
        let size = self.size as usize;
        let right = match self.config.operation {
            Operation::Send if self.is_echo() => true,
            Operation::Send => {
                // Acknowledged by the peer's device; its application counts a little later.
                let end = stamp() + COUNT_MAX;
                loop {
                    let counted = self.read_back(link, 8)?;
                    let counted = counted.try_into().map(u64::from_be_bytes).unwrap_or(0);
                    if counted == self.issued || stamp() > end {
                        break counted == self.issued;
                    }
                }
            }
            Operation::Read => {
                self.issued == 0
                    || self.sink.read(0, size).iter().enumerate().all(|(at, b)| *b == pattern(at))
            }
            Operation::Write => {
                let wanted = self.source.read(0, size);
                self.read_back(link, self.size)? == wanted
            }
            Operation::FetchAdd | Operation::CompareSwap => {
                self.read_back(link, 8)?;
                u64_at(&self.sink, 0) == Some(self.issued)
            }
        };
        self.report.wrong += u64::from(!right);
        Ok(())
    }

    /// Atomics count from 0.
    fn zero(&mut self, link: &mut Link) -> Result<(), RcError> {
        let (addr, rkey) = (self.offer.memory.addr, self.offer.memory.rkey);
        self.source.write(0, &[0; 8]);
        let list = [self.source.sge(0, 8)];
        let wr = SendWr::new(0, SendOp::Write { addr, rkey }, Data::Sges(&list));
        link.device.verbs().post_send(link.connection.qpn, &wr)?;
        link.next("setting the peer's memory to zero")?;
        Ok(())
    }

    /// Reads the peer's memory.
    fn read_back(&mut self, link: &mut Link, len: u32) -> Result<Vec<u8>, RcError> {
        let (addr, rkey) = (self.offer.memory.addr, self.offer.memory.rkey);
        let len = len as usize;
        self.sink.write(0, &vec![STALE; len]);
        let list = [self.sink.sge(0, len)];
        let wr = SendWr::new(0, SendOp::Read { addr, rkey }, Data::Sges(&list));
        link.device.verbs().post_send(link.connection.qpn, &wr)?;
        link.next("reading the result back")?;
        Ok(self.sink.read(0, len))
    }
}

/// Why a run ends early.
enum Stop {
    Error(RcError),
    Status(WcStatus),
}

impl From<barewire_roce::VerbError> for Stop {
    fn from(error: barewire_roce::VerbError) -> Stop {
        Stop::Error(error.into())
    }
}

/// A number as atomics have it.
fn u64_at(memory: &Memory, at: usize) -> Option<u64> {
    memory.read(at, 8).try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_words() {
        for (name, operation) in OPERATIONS {
            assert_eq!((name.parse(), operation.word()), (Ok(operation), name));
        }
        let slip = "fetch-and-add".parse::<Operation>().unwrap_err();
        assert!(slip.contains("did you mean `fetch-add`?"), "{slip}");
    }
}
