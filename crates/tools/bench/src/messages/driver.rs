//! The loop that drives any [`RequestResponse`] system: closed (a window of requests outstanding) or open (an absolute
//! schedule of intended send times).
//!
//! Three times matter for a request: when it was *intended* (t0), when the send call that took it was made (t1) and when its
//! response was handed to us (t5). *Service* time is t1 to t5, *response* time is t0 to t5. A closed loop has no
//! intention other than to send, so the two are one; in an open loop the difference is what a stall did to the requests that
//! queued behind it, which a closed loop never shows. What the generator itself adds, t0 to t1 of sends that nothing held back, is
//! kept apart: a response time must not be the generator's.
//!
//! A run is warm-up, then the measured time, then a drain. A sample belongs to the run when it was intended within the
//! measured time, even if its response came in the drain: leaving those out would hide a stall at the end. The rate counts
//! the responses that arrived within the measured time. Nothing in [`Driver::drive`] allocates.

use crate::cpu::CpuUse;
use crate::interrupt::interrupted;
use crate::messages::warmup::Convergence;
use crate::messages::{
    MsgWorkload, RequestResponse, Schedule, SystemError, Wait, WorkloadError, body_matches, fill_body,
    read_header, write_header,
};
use crate::render::latency;
use crate::talk::client::OtherEnd;
use barewire_base::{Duration, Instant};
use barewire_measure::{Histogram, stamp};
use std::collections::VecDeque;

/// A send later than this after its intended time is behind schedule.
pub const LAG_LIMIT: Duration = Duration::from_millis(1);
/// Share of sends, in percent, that may be behind schedule by the generator's own fault before the run is void.
pub const LAG_PERCENT_MAX: f64 = 1.0;
/// Sends that nothing held back may leave so long after their intended time, by their median, before the run is void. Where the system
/// takes longer, a [`SEND_LAG_PART`] of its median service time.
pub const SEND_LAG_MAX: Duration = Duration::from_micros(10);
/// A generator that is later than one part in so many of the median service time shows in every response time.
pub const SEND_LAG_PART: u64 = 4;
/// No response and no accepted send for so long: the run fails.
pub const STALL_LIMIT: Duration = Duration::from_secs(10);
/// How long the last responses are waited for.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Longest sleep that the driver asks of a system in one call.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// An open loop stays awake for so long before a send: the generator's own waking up must be in no response time. From ten thousand
/// requests a second on it never sleeps.
const AWAKE_BEFORE: Duration = Duration::from_micros(100);
/// Due requests that are sent before the driver looks for responses again.
const SEND_BURST: u32 = 32;

/// Where the driver reads the time: the machine's clock, or a test's.
pub trait Clock {
    /// The time now.
    fn now(&mut self) -> Instant;
}

/// `CLOCK_MONOTONIC`, read fresh each time.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[inline]
    fn now(&mut self) -> Instant {
        stamp()
    }
}

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The workload is out of bounds.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The system failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Nothing moved for [`STALL_LIMIT`].
    #[error("no response for {STALL_LIMIT} with {outstanding} requests outstanding")]
    Stalled {
        /// Requests without a response.
        outstanding: u32,
    },
    /// The process was [interrupted](crate::interrupt()).
    #[error("interrupted")]
    Interrupted,
}

/// Why a run's figures must not be used: the instrument was at fault, not the system. The run is kept, and branded.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Void {
    /// More than [`LAG_PERCENT_MAX`] of the sends were late by the generator's fault: the offered load was not the one named.
    GeneratorLate {
        /// Share of the sends, in percent.
        percent: f64,
    },
    /// Half of the sends that nothing held back left so late that response times are the generator's: more than
    /// [`SEND_LAG_MAX`] and more than a [`SEND_LAG_PART`] of the median service time.
    SendsLag {
        /// Their median lag, in ns.
        p50_ns: u64,
        /// What it may be, in ns.
        limit_ns: u64,
    },
    /// Responses differed from their requests.
    Mismatches(u64),
    /// Closed loop: requests had no response when the drain ended; their times, the longest of all, are missing.
    Unanswered(u64),
    /// Nothing was answered within the measured time.
    NoSamples,
}

impl std::fmt::Display for Void {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Void::GeneratorLate { percent } => {
                write!(f, "the generator was late for {percent:.1} % of its sends")
            }
            Void::SendsLag { p50_ns, limit_ns } => write!(
                f,
                "the generator was late by {} for half of its sends, and response times allow for {}",
                latency(*p50_ns),
                latency(*limit_ns)
            ),
            Void::Mismatches(n) => write!(f, "{n} responses differed from their requests"),
            Void::Unanswered(n) => write!(f, "{n} requests were never answered"),
            Void::NoSamples => f.write_str("no response arrived in the measured time"),
        }
    }
}

/// The offered load was more than the system carries. A result, not a fault: percentiles are of the requests that were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Requests due within the measured time.
    pub due: u64,
    /// Those that were sent and had no response when the drain ended.
    pub unanswered: u64,
    /// Those that the system held back for [`DRAIN_LIMIT`] beyond the end: never sent.
    pub unsent: u64,
    /// Those that were answered after the measured time, where they are too many for requests that were on their way at its end.
    pub late: u64,
}

/// Share of the requests due that may be answered after the measured time, in percent: some are on their way when it ends, and a stall of a few
/// milliseconds at that moment is no overload.
const LATE_PERCENT_MAX: f64 = 2.0;

impl std::fmt::Display for Overload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = |n| percent(n, self.due);
        match (self.unanswered, self.unsent) {
            (0, 0) => {
                write!(f, "{:.2} % of the requests were answered after the measured time", share(self.late))
            }
            (unanswered, 0) => write!(f, "{:.2} % of the requests were never answered", share(unanswered)),
            (0, unsent) => write!(f, "{:.2} % of the requests were due and never sent", share(unsent)),
            (unanswered, unsent) => write!(
                f,
                "{:.2} % of the requests were never answered, {:.2} % were due and never sent",
                share(unanswered),
                share(unsent)
            ),
        }
    }
}

/// What is counted besides time. All but `stale` and `resends` count requests of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Requests sent.
    pub sends: u64,
    /// Responses that arrived within the measured time.
    pub completed: u64,
    /// Open loop: sends more than [`LAG_LIMIT`] after their intended time, for whatever reason.
    pub behind: u64,
    /// Those of `behind` that no refused send or full window explains: the generator itself was late.
    pub late_by_generator: u64,
    /// Requests sent again because a lossy system had not answered.
    pub resends: u64,
    /// Responses to requests already answered, after a resend.
    pub stale: u64,
    /// Responses of the wrong length, on the wrong connection, to no request, or (with `verify`) of other bytes.
    pub mismatches: u64,
    /// Requests without a response when the drain ended.
    pub unanswered: u64,
    /// Open loop: requests that were due and never sent, as the system held others back for [`DRAIN_LIMIT`] beyond the end.
    pub unsent: u64,
}

impl RunCounts {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &RunCounts) {
        self.sends += other.sends;
        self.completed += other.completed;
        self.behind += other.behind;
        self.late_by_generator += other.late_by_generator;
        self.resends += other.resends;
        self.stale += other.stale;
        self.mismatches += other.mismatches;
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
    }

    /// Sends behind schedule in percent.
    pub fn behind_percent(&self) -> f64 {
        percent(self.behind, self.sends)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// One run's result.
#[derive(Clone, Default)]
pub struct RunResult {
    /// From the send call to the response, in nanoseconds.
    pub service: Histogram,
    /// Open loop only: from the intended send to the response, in nanoseconds.
    pub response: Option<Histogram>,
    /// Open loop only: from the intended send to the send call, of sends that nothing held back, in nanoseconds: the generator's own
    /// lateness, which is in every response time.
    pub send_lag: Option<Histogram>,
    /// Length of the measured time.
    pub measured: Duration,
    /// When it began, if it did.
    pub begun: Option<Instant>,
    /// What was counted.
    pub counts: RunCounts,
    /// Of a warm-up that waits for the median to stand still: whether it did within its bound.
    pub settled: Option<bool>,
    /// Why the machine was not the run's own, when it was not. Filled in by whoever watched the run.
    pub contention: Vec<String>,
    /// Responses of the whole run, warm-up and drain included.
    pub answered: u64,
    /// What the run cost, when somebody metered it.
    pub cpu: Option<CpuUse>,
    /// Of a server that is another process: how both ends wait, and whether its CPU is known.
    pub other_end: Option<OtherEnd>,
}

impl RunResult {
    /// A closed loop's, of a second in which this many round trips took as long.
    #[cfg(test)]
    pub(crate) fn of(ns: u64, round_trips: u64) -> RunResult {
        let mut service = Histogram::new();
        service.record_n(ns, round_trips);
        let counts = RunCounts { sends: round_trips, completed: round_trips, ..RunCounts::default() };
        RunResult { service, measured: Duration::from_secs(1), counts, ..RunResult::default() }
    }

    /// Responses per second of the measured time.
    pub fn rate_per_s(&self) -> f64 {
        self.counts.completed as f64 / self.measured.as_secs_f64()
    }

    /// What the system did not carry of an offered load.
    pub fn overload(&self) -> Option<Overload> {
        let c = &self.counts;
        let due = c.sends + c.unsent;
        let late = due.saturating_sub(c.completed + c.unanswered + c.unsent);
        let late = if percent(late, due) > LATE_PERCENT_MAX { late } else { 0 };
        let overloaded = self.response.is_some() && c.unanswered + c.unsent + late > 0;
        overloaded.then_some(Overload { due, unanswered: c.unanswered, unsent: c.unsent, late })
    }

    /// Why the run is void, if it is: the first of the reasons that applies.
    pub fn void(&self) -> Option<Void> {
        let c = &self.counts;
        let late = percent(c.late_by_generator, c.sends);
        if c.mismatches > 0 {
            Some(Void::Mismatches(c.mismatches))
        } else if c.unanswered > 0 && self.response.is_none() {
            Some(Void::Unanswered(c.unanswered))
        } else if late > LAG_PERCENT_MAX {
            Some(Void::GeneratorLate { percent: late })
        } else if let Some(lag) = self.sends_lag() {
            Some(lag)
        } else if c.completed == 0 {
            Some(Void::NoSamples)
        } else {
            None
        }
    }

    pub(crate) fn sends_lag(&self) -> Option<Void> {
        let p50_ns = self.send_lag.as_ref()?.quantile(0.5).value()?;
        let service_ns = self.service.quantile(0.5).value().unwrap_or(0);
        let limit_ns = SEND_LAG_MAX.as_nanos().max(service_ns / SEND_LAG_PART);
        (p50_ns > limit_ns).then_some(Void::SendsLag { p50_ns, limit_ns })
    }
}

#[derive(Clone, Copy)]
struct Slot {
    busy: bool,
    sequence: u64,
    intended: Instant,
    sent: Instant,
    last_sent: Instant,
}

/// What is outstanding, and what came of what was.
struct Book {
    slots: Box<[Slot]>,
    // First in, first out: every slot, and so every connection, gets its turn.
    free: VecDeque<u32>,
    from: Instant,
    to: Instant,
    size: usize,
    connections: u32,
    verify_seed: Option<u64>,
    lossy: bool,
    counts: RunCounts,
    answered: u64,
    service: Histogram,
    response: Option<Histogram>,
    send_lag: Option<Histogram>,
    duration: Duration,
    settling: Option<Settling>,
    settled: Option<bool>,
}

/// A warm-up that ends when the median stands still.
struct Settling {
    convergence: Convergence,
    not_before: Instant,
    not_after: Instant,
}

impl Book {
    /// Begins the measured time when it is time for it.
    #[cold]
    fn settle(&mut self, now: Instant, stable: bool) {
        let Some(settling) = &self.settling else { return };
        if stable || now >= settling.not_after {
            (self.from, self.to) = (now, now + self.duration);
            (self.settling, self.settled) = (None, Some(stable));
        }
    }

    fn outstanding(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    fn measures(&self, at: Instant) -> bool {
        self.from <= at && at < self.to
    }

    #[inline]
    fn complete(&mut self, now: Instant, connection: u32, message: &[u8]) {
        let Some((index, sequence)) = read_header(message) else {
            self.counts.mismatches += 1;
            return;
        };
        let Some(slot) = self.slots.get_mut(index as usize) else {
            self.counts.mismatches += 1;
            return;
        };
        if !slot.busy || slot.sequence != sequence {
            if self.lossy {
                self.counts.stale += 1;
            } else {
                self.counts.mismatches += 1;
            }
            return;
        }
        let whole = message.len() == self.size && connection == index % self.connections;
        if !whole || self.verify_seed.is_some_and(|seed| !body_matches(message, seed, sequence)) {
            self.counts.mismatches += 1;
        }
        slot.busy = false;
        self.answered += 1;
        let slot = *slot;
        self.free.push_back(index);
        if let Some(settling) = &mut self.settling {
            let stable = now >= settling.not_before
                && settling.convergence.record(now, now.since(slot.sent).as_nanos());
            self.settle(now, stable);
            return;
        }
        if self.measures(now) {
            self.counts.completed += 1;
        }
        if self.measures(slot.intended) {
            self.service.record(now.since(slot.sent).as_nanos());
            if let Some(response) = &mut self.response {
                response.record(now.since(slot.intended).as_nanos());
            }
        }
    }
}

/// Spans in which the driver should have looked at its schedule and did not: it was not running, or overslept.
struct Absences {
    last_here: Instant,
    spans: [(Instant, Instant); ABSENCES_MAX],
    first: usize,
    len: usize,
}

/// Absences remembered while requests that fell due in them wait to be sent. More melt into the last one.
const ABSENCES_MAX: usize = 32;

impl Absences {
    fn new(start: Instant) -> Self {
        Absences { last_here: start, spans: [(Instant::ZERO, Instant::ZERO); ABSENCES_MAX], first: 0, len: 0 }
    }

    /// The driver looks at its schedule. While the system holds requests back, it may have slept for that reason.
    #[inline]
    fn here(&mut self, now: Instant, held_back: bool) {
        if now.since(self.last_here) > LAG_LIMIT && !held_back {
            // A request is late from `LAG_LIMIT` on: those due in the last of the absence are not.
            let span = (self.last_here, now - LAG_LIMIT);
            if self.len == ABSENCES_MAX {
                self.spans[(self.first + self.len - 1) % ABSENCES_MAX].1 = span.1;
            } else {
                self.spans[(self.first + self.len) % ABSENCES_MAX] = span;
                self.len += 1;
            }
        }
        self.last_here = now;
    }

    /// Whether `intended` lies in an absence. Asked in ascending order.
    fn cover(&mut self, intended: Instant) -> bool {
        while self.len > 0 {
            let (from, to) = self.spans[self.first];
            if intended < to {
                return from <= intended;
            }
            self.first = (self.first + 1) % ABSENCES_MAX;
            self.len -= 1;
        }
        false
    }
}

/// One run of a workload on a system.
pub struct Driver<'a, S: RequestResponse + ?Sized, C: Clock = MonotonicClock> {
    system: &'a mut S,
    clock: C,
    workload: MsgWorkload,
    book: Book,
    message: Box<[u8]>,
    next_sequence: u64,
    resend_after: Option<Duration>,
    resend_check: Instant,
    last_progress: Instant,
}

/// Runs `workload` once on `system`, timed by the machine's clock.
pub fn run<S: RequestResponse + ?Sized>(
    system: &mut S,
    workload: &MsgWorkload,
) -> Result<RunResult, DriverError> {
    let mut driver = Driver::new(system, workload, MonotonicClock)?;
    driver.drive()?;
    Ok(driver.finish())
}

impl<'a, S: RequestResponse + ?Sized, C: Clock> Driver<'a, S, C> {
    /// Checks the workload and allocates all that the run will need.
    pub fn new(system: &'a mut S, workload: &MsgWorkload, clock: C) -> Result<Self, DriverError> {
        workload.validate()?;
        let size = workload.size as usize;
        let idle = Slot {
            busy: false,
            sequence: 0,
            intended: Instant::ZERO,
            sent: Instant::ZERO,
            last_sent: Instant::ZERO,
        };
        let resend_after = system.resend_after();
        Ok(Driver {
            clock,
            book: Book {
                slots: vec![idle; workload.window as usize].into(),
                free: (0..workload.window).collect(),
                from: Instant::FAR_FUTURE,
                to: Instant::FAR_FUTURE,
                size,
                connections: workload.connections,
                verify_seed: workload.verify.then_some(workload.seed),
                lossy: resend_after.is_some(),
                counts: RunCounts::default(),
                answered: 0,
                service: Histogram::new(),
                response: workload.rate.map(|_| Histogram::new()),
                send_lag: workload.rate.map(|_| Histogram::new()),
                duration: workload.duration,
                settling: (workload.warmup_max > workload.warmup).then(|| Settling {
                    convergence: Convergence::default(),
                    not_before: Instant::FAR_FUTURE,
                    not_after: Instant::FAR_FUTURE,
                }),
                settled: None,
            },
            // Without `verify` every request carries these bytes: not zeros, which a bug could send by accident.
            message: vec![0xa5; size].into(),
            workload: workload.clone(),
            next_sequence: 0,
            resend_after,
            resend_check: Instant::ZERO,
            last_progress: Instant::ZERO,
            system,
        })
    }

    /// Warm-up, measured time, drain. Does not allocate.
    pub fn drive(&mut self) -> Result<(), DriverError> {
        let start = self.clock.now();
        match &mut self.book.settling {
            // Until the median stands still nobody knows when the measured time is.
            Some(settling) => {
                settling.not_before = start + self.workload.warmup;
                settling.not_after = start + self.workload.warmup_max;
            }
            None => {
                self.book.from = start + self.workload.warmup;
                self.book.to = self.book.from + self.workload.duration;
            }
        }
        self.last_progress = start;
        match self.workload.rate {
            None => self.closed()?,
            Some(rate) => self.open(start, rate)?,
        }
        self.drain()
    }

    /// The result. Requests still outstanding count as unanswered.
    pub fn finish(mut self) -> RunResult {
        let unanswered = self.book.slots.iter().filter(|s| s.busy && self.book.measures(s.intended)).count();
        self.book.counts.unanswered += unanswered as u64;
        RunResult {
            service: self.book.service,
            response: self.book.response,
            send_lag: self.book.send_lag,
            measured: self.workload.duration,
            begun: (self.book.from != Instant::FAR_FUTURE).then_some(self.book.from),
            counts: self.book.counts,
            settled: self.book.settled,
            contention: Vec::new(),
            answered: self.book.answered,
            cpu: None,
            other_end: None,
        }
    }

    fn closed(&mut self) -> Result<(), DriverError> {
        loop {
            let now = self.clock.now();
            if now >= self.book.to {
                return Ok(());
            }
            let mut refused = false;
            // At most one window: a system that answers within `try_send`'s own poll must not keep us from polling.
            for _ in 0..self.book.free.len() {
                if self.send(None)?.is_none() {
                    refused = true;
                    break;
                }
            }
            let answered = self.poll(Wait::AtMost(SLEEP_MAX))?;
            self.after_poll(now, answered, refused)?;
        }
    }

    fn open(&mut self, origin: Instant, rate: f64) -> Result<(), DriverError> {
        let mut schedule = Schedule::new(rate, self.workload.arrivals, self.workload.seed);
        let mut intended = origin + schedule.next();
        // The system held a request back and the requests behind it are not all sent yet: lateness is its doing, but
        // for the requests that fell due while this thread was away.
        let mut held_back = false;
        let mut absences = Absences::new(origin);
        while intended < self.book.to {
            let now = self.clock.now();
            absences.here(now, held_back);
            if now >= self.book.to + DRAIN_LIMIT {
                let left = self.book.to.since(intended.max(self.book.from)).as_secs_f64();
                self.book.counts.unsent = ((left * rate) as u64).max(1);
                return Ok(());
            }
            let mut refused = false;
            for _ in 0..SEND_BURST {
                if intended > now || intended >= self.book.to {
                    break;
                }
                let Some(sent) = self.send(Some(intended))? else {
                    refused = true;
                    held_back = true;
                    break;
                };
                if self.book.measures(intended) {
                    let lag = sent.since(intended);
                    if let Some(of_generator) = self.book.send_lag.as_mut().filter(|_| !held_back) {
                        of_generator.record(lag.as_nanos());
                    }
                    if lag > LAG_LIMIT {
                        self.book.counts.behind += 1;
                        let by_generator = !held_back || absences.cover(intended);
                        self.book.counts.late_by_generator += u64::from(by_generator);
                    }
                }
                intended = origin + schedule.next();
            }
            let wait = if refused {
                Wait::AtMost(SLEEP_MAX)
            } else if intended <= now {
                Wait::No
            } else {
                held_back = false;
                // A sleep ends late by what waking up takes: the last of the way to a send is spent awake.
                match (intended - AWAKE_BEFORE).since(now) {
                    Duration::ZERO => Wait::No,
                    sleep => Wait::AtMost(sleep.min(SLEEP_MAX)),
                }
            };
            let answered = self.poll(wait)?;
            self.after_poll(now, answered, refused)?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), DriverError> {
        let mut now = self.clock.now();
        let limit = now + DRAIN_LIMIT;
        while self.book.outstanding() > 0 && now < limit {
            let answered = self.poll(Wait::AtMost(SLEEP_MAX))?;
            self.after_poll(now, answered, false)?;
            now = self.clock.now();
        }
        Ok(())
    }

    /// Sends the next request; `None` when no slot is free or the system refused. `intended` is `None` in a closed loop.
    #[inline]
    fn send(&mut self, intended: Option<Instant>) -> Result<Option<Instant>, DriverError> {
        let Some(&index) = self.book.free.front() else { return Ok(None) };
        let sequence = self.next_sequence;
        self.fill(index, sequence);
        let sent = self.clock.now();
        if !self.system.try_send(index % self.workload.connections, &self.message)? {
            // Another slot may use a connection that has room.
            self.book.free.rotate_left(1);
            return Ok(None);
        }
        self.book.free.pop_front();
        self.next_sequence += 1;
        let intended = intended.unwrap_or(sent);
        self.book.slots[index as usize] = Slot { busy: true, sequence, intended, sent, last_sent: sent };
        self.book.counts.sends += u64::from(self.book.measures(intended));
        Ok(Some(sent))
    }

    fn fill(&mut self, index: u32, sequence: u64) {
        write_header(&mut self.message, index, sequence);
        if self.workload.verify {
            fill_body(&mut self.message, self.workload.seed, sequence);
        }
    }

    #[inline]
    fn poll(&mut self, wait: Wait) -> Result<usize, DriverError> {
        let (book, clock) = (&mut self.book, &mut self.clock);
        let mut on_response = |connection: u32, message: &[u8]| {
            book.complete(clock.now(), connection, message);
        };
        Ok(self.system.poll(wait, &mut on_response)?)
    }

    #[inline]
    fn after_poll(&mut self, now: Instant, answered: usize, refused: bool) -> Result<(), DriverError> {
        if interrupted() {
            return Err(DriverError::Interrupted);
        }
        if self.book.settling.is_some() {
            self.book.settle(now, false);
        }
        let outstanding = self.book.outstanding();
        if answered > 0 || (outstanding == 0 && !refused) {
            self.last_progress = now;
        } else if now.since(self.last_progress) > STALL_LIMIT {
            return Err(DriverError::Stalled { outstanding });
        }
        match self.resend_after {
            Some(after) if now >= self.resend_check => self.resend(now, after),
            _ => Ok(()),
        }
    }

    #[cold]
    fn resend(&mut self, now: Instant, after: Duration) -> Result<(), DriverError> {
        self.resend_check = now + after.div(4);
        for index in 0..self.workload.window {
            let slot = self.book.slots[index as usize];
            if !slot.busy || now.since(slot.last_sent) < after {
                continue;
            }
            self.fill(index, slot.sequence);
            if self.system.try_send(index % self.workload.connections, &self.message)? {
                self.book.slots[index as usize].last_sent = now;
                self.book.counts.resends += 1;
            }
        }
        Ok(())
    }
}
