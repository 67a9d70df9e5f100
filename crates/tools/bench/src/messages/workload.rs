//! What a run asks of a system, and the trait through which the driver asks it.

use crate::kernel::Baseline;
use barewire_base::{Duration, Prng};

/// Bytes at the front of every message that belong to the driver: slot and sequence number.
pub const HEADER_LEN: usize = 8;
/// Smallest message: the driver's header and nothing else.
pub const SIZE_MIN: u32 = HEADER_LEN as u32;
/// Largest message: what the message service takes.
pub const SIZE_MAX: u32 = 8 * 1024 * 1024;
/// Most requests outstanding: a slot number is 16 bits of the header.
pub const WINDOW_MAX: u32 = 1 << 16;
/// Fastest open-loop schedule, in requests per second. Faster ones would have several intended times in a nanosecond.
pub const RATE_MAX: f64 = 1e9;

/// When an open loop sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Constant bit rate: equal gaps.
    Cbr,
    /// Independent arrivals: exponential gaps of the same mean.
    Poisson,
}

/// A request-response workload: a client sends messages of `size` bytes, the server answers each with as many.
#[derive(Clone, Debug, PartialEq)]
pub struct MsgWorkload {
    /// Bytes of a request and of its response, [`SIZE_MIN`] to [`SIZE_MAX`].
    pub size: u32,
    /// Requests outstanding at once over all connections. In an open loop, the most that may be outstanding: a request
    /// that falls due while all slots are taken waits, and its response time includes the wait.
    pub window: u32,
    /// `None`: closed loop. Otherwise an open loop of so many requests per second over all connections.
    pub rate: Option<f64>,
    /// Gaps of the open loop.
    pub arrivals: Arrivals,
    /// Measured time of one run.
    pub duration: Duration,
    /// Time before it that is driven but not recorded.
    pub warmup: Duration,
    /// Where this is longer: the warm-up goes on until the median stands still ([`warmup`](crate::messages::warmup)), but not beyond this.
    pub warmup_max: Duration,
    /// Runs per cell.
    pub runs: u32,
    /// Connections that the slots are spread over: slot `s` uses connection `s % connections`.
    pub connections: u32,
    /// Engines of each daemon, which share the interface. On both sides each has an application; connection `c` uses engine
    /// `c % engines`. Embedded endpoints and baselines have one.
    pub engines: u8,
    /// Receive queues of each interface, and transmit queues, where the run makes the hosts. `xdp:` wants one for each engine.
    pub queues: u32,
    /// Fill each request from (seed, sequence) and compare every byte of its response.
    pub verify: bool,
    /// Seed of the payload and of Poisson gaps. Printed with the row, so that a run replays.
    pub seed: u64,
}

impl Default for MsgWorkload {
    /// The published latency experiment: 1024 bytes, one at a time, on one connection.
    fn default() -> Self {
        MsgWorkload {
            size: 1024,
            window: 1,
            rate: None,
            arrivals: Arrivals::Cbr,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(1),
            warmup_max: Duration::ZERO,
            runs: 5,
            connections: 1,
            engines: 1,
            queues: 1,
            verify: false,
            seed: 1,
        }
    }
}

/// What is wrong with a workload.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The size is out of bounds.
    #[error("message size {0}: must be {SIZE_MIN} to {SIZE_MAX} bytes")]
    Size(u32),
    /// The window is out of bounds.
    #[error("window {0}: must be 1 to {WINDOW_MAX}")]
    Window(u32),
    /// No connection, or more connections than requests that could use them.
    #[error("connections {connections}: must be 1 to the window ({window}), or some would never be used")]
    Connections {
        /// What was asked for.
        connections: u32,
        /// The window.
        window: u32,
    },
    /// No engine, or some that no connection would use.
    #[error("engines {engines}: must be 1 to the connections ({connections}), or some would never be used")]
    Engines {
        /// What was asked for.
        engines: u8,
        /// The connections.
        connections: u32,
    },
    /// The rate is no positive number or too large.
    #[error("rate {0}: must be more than 0 and at most {RATE_MAX} per second")]
    Rate(f64),
    /// Nothing would be measured.
    #[error("the measured time of a run must not be zero")]
    Duration,
    /// Nothing would be run.
    #[error("runs: must be at least 1")]
    Runs,
}

impl MsgWorkload {
    /// Checks the bounds that the fields document.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        if !(SIZE_MIN..=SIZE_MAX).contains(&self.size) {
            return Err(WorkloadError::Size(self.size));
        }
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return Err(WorkloadError::Window(self.window));
        }
        if !(1..=self.window).contains(&self.connections) {
            return Err(WorkloadError::Connections { connections: self.connections, window: self.window });
        }
        if !(1..=self.connections).contains(&self.engines.into()) {
            return Err(WorkloadError::Engines { engines: self.engines, connections: self.connections });
        }
        match self.rate {
            Some(rate) if !(rate > 0.0 && rate <= RATE_MAX) => return Err(WorkloadError::Rate(rate)),
            _ => {}
        }
        if self.duration == Duration::ZERO {
            return Err(WorkloadError::Duration);
        }
        if self.runs == 0 {
            return Err(WorkloadError::Runs);
        }
        Ok(())
    }

    /// `closed` or `open`, as rows print it.
    pub fn loop_kind(&self) -> &'static str {
        if self.rate.is_some() { "open" } else { "closed" }
    }
}

/// Whether [`RequestResponse::poll`] may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Return at once.
    No,
    /// A system that sleeps may do so for at most this long; one that spins returns at once all the same.
    AtMost(Duration),
}

/// A system that carries requests to a server and responses back, as the driver sees it: kernel sockets, an embedded
/// endpoint, a client of the daemon. The driver owns what is in the messages; the system only carries bytes.
///
/// Nothing here may allocate once the first message has been answered.
pub trait RequestResponse {
    /// Sends one request of the workload's size on connection `connection`. `Ok(false)`: no room now, the driver polls and tries
    /// again; nothing of the message was taken. `Ok(true)`: the system has the message and will deliver it without
    /// another call than [`poll`](RequestResponse::poll). Must not block.
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError>;

    /// Makes progress, calls `on_response(connection, message)` for each response that is here, and says how many there were.
    /// May deliver few at a time; the driver comes again. With [`Wait::AtMost`] it may sleep until a response is here,
    /// until a send that was refused could succeed, or until the time is up.
    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError>;

    /// For systems that may lose a message: how long the driver waits before it sends a request again. `None`: the system
    /// is reliable and the driver never repeats. Such a system must not sleep longer than this in one
    /// [`poll`](RequestResponse::poll).
    fn resend_after(&self) -> Option<Duration> {
        None
    }
}

impl<S: RequestResponse + ?Sized> RequestResponse for Box<S> {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        (**self).try_send(connection, message)
    }
    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        (**self).poll(wait, on_response)
    }
    fn resend_after(&self) -> Option<Duration> {
        (**self).resend_after()
    }
}

/// Why a system under test can carry no more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The server or the connection is gone.
    #[error("{system}: connection {connection} was closed by the server")]
    Closed {
        /// Which system.
        system: &'static str,
        /// Which of its connections.
        connection: u32,
    },
    /// A system call failed.
    #[error("{system}: {call}: {source}")]
    Io {
        /// Which system.
        system: &'static str,
        /// The call that failed.
        call: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Anything a system of another crate has to say.
    #[error("{0}")]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// What names a row: which system, how it waits, over which wires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SystemName {
    /// `barewire`, `kernel-tcp`, ...
    pub system: String,
    /// How it waits: `spin`, `yield`, `park`, `blocking`, ...
    pub mode: String,
    /// What lies between the two ends: `loopback`, `veth`, `xdp:eth0`, ...
    pub over: String,
    /// What each party does when nothing comes, where that is a choice of its own: `yield`, `park`.
    pub idle: Option<String>,
}

impl SystemName {
    /// Whether it may have several engines: a daemon may.
    pub(crate) fn has_engines(&self) -> bool {
        self.system == "barewire" && self.mode.starts_with("daemon")
    }

    /// Whether it encrypts the messages: the name says so.
    pub(crate) fn is_secure(&self) -> bool {
        self.mode.ends_with("-secure")
            || self.system == crate::messages::aead::AEAD
            || Baseline::named(&self.system).is_some_and(Baseline::is_secure)
    }
}

/// Who, and how: `kernel-tcp-spin` says its mode already.
pub(crate) fn system_and_mode(system: &str, mode: &str) -> String {
    let is_said = system.strip_suffix(mode).is_some_and(|rest| rest.ends_with('-'));
    if is_said { system.to_owned() } else { format!("{system} {mode}") }
}

/// The mode as tables show it, with the idle strategy where there is one.
pub(crate) fn mode_shown(mode: &str, idle: Option<&str>) -> String {
    idle.map_or_else(|| mode.to_owned(), |idle| format!("{mode} {idle}"))
}

impl std::fmt::Display for SystemName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mode = mode_shown(&self.mode, self.idle.as_deref());
        write!(f, "{} over {}", system_and_mode(&self.system, &mode), self.over)
    }
}

/// Puts slot and sequence number into a message. `message` holds at least [`HEADER_LEN`] bytes.
#[inline]
pub(crate) fn write_header(message: &mut [u8], slot: u32, sequence: u64) {
    let word = u64::from(slot) << SEQUENCE_BITS | sequence & SEQUENCE_MASK;
    message[..HEADER_LEN].copy_from_slice(&word.to_le_bytes());
}

/// Slot and sequence number of a message; `None` when it is too short to carry them.
#[inline]
pub(crate) fn read_header(message: &[u8]) -> Option<(u32, u64)> {
    let word = u64::from_le_bytes(*message.first_chunk()?);
    Some(((word >> SEQUENCE_BITS) as u32, word & SEQUENCE_MASK))
}

const SEQUENCE_BITS: u32 = 48;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// Fills the bytes after the header as a function of (seed, sequence).
pub(crate) fn fill_body(message: &mut [u8], seed: u64, sequence: u64) {
    body_generator(seed, sequence).fill(&mut message[HEADER_LEN..]);
}

/// Whether the bytes after the header are those of (seed, sequence).
pub(crate) fn body_matches(message: &[u8], seed: u64, sequence: u64) -> bool {
    let mut generator = body_generator(seed, sequence);
    message[HEADER_LEN..].chunks(8).all(|chunk| generator.next_u64().to_le_bytes()[..chunk.len()] == *chunk)
}

fn body_generator(seed: u64, sequence: u64) -> Prng {
    // An odd multiplier keeps neighbouring sequences of one seed, and one sequence of neighbouring seeds, apart.
    Prng::new(seed ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Intended send times of an open loop: absolute, from the start, whatever happens to the sends.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    gap_ns: f64,
    index: u64,
    poisson_ns: f64,
    gaps: Prng,
}

impl Schedule {
    pub(crate) fn new(rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        Schedule { arrivals, gap_ns: 1e9 / rate, index: 0, poisson_ns: 0.0, gaps: Prng::new(seed).fork() }
    }

    /// Time of the next intended send after the start of the run.
    pub(crate) fn next(&mut self) -> Duration {
        let at_ns = match self.arrivals {
            // A product, not a sum of gaps: rounding does not add up over a run.
            Arrivals::Cbr => self.index as f64 * self.gap_ns,
            Arrivals::Poisson => {
                self.poisson_ns -= (1.0 - self.gaps.unit()).ln() * self.gap_ns;
                self.poisson_ns
            }
        };
        self.index += 1;
        Duration::from_nanos(at_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_checked_and_named() {
        let good = MsgWorkload::default();
        assert_eq!(good.validate(), Ok(()));
        let with = |f: &dyn Fn(&mut MsgWorkload)| {
            let mut w = good.clone();
            f(&mut w);
            w.validate()
        };
        assert_eq!(with(&|w| w.size = 7), Err(WorkloadError::Size(7)));
        assert_eq!(with(&|w| w.size = SIZE_MAX + 1), Err(WorkloadError::Size(SIZE_MAX + 1)));
        assert_eq!(with(&|w| w.window = 0), Err(WorkloadError::Window(0)));
        assert_eq!(
            with(&|w| w.connections = 2),
            Err(WorkloadError::Connections { connections: 2, window: 1 })
        );
        assert_eq!(with(&|w| w.engines = 2), Err(WorkloadError::Engines { engines: 2, connections: 1 }));
        assert_eq!(with(&|w| w.engines = 0), Err(WorkloadError::Engines { engines: 0, connections: 1 }));
        assert_eq!(with(&|w| w.rate = Some(0.0)), Err(WorkloadError::Rate(0.0)));
        assert!(with(&|w| w.rate = Some(f64::NAN)).is_err());
        assert_eq!(with(&|w| w.duration = Duration::ZERO), Err(WorkloadError::Duration));
        assert_eq!(with(&|w| w.runs = 0), Err(WorkloadError::Runs));
        assert_eq!(WorkloadError::Size(7).to_string(), "message size 7: must be 8 to 8388608 bytes");
    }

    #[test]
    fn header_has_a_fixed_layout() {
        let mut message = [0xa5u8; 9];
        write_header(&mut message, 0x1234, 0x0000_1122_3344_5566);
        assert_eq!(message, [0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x34, 0x12, 0xa5]);
        assert_eq!(read_header(&message), Some((0x1234, 0x1122_3344_5566)));
        assert_eq!(read_header(&message[..7]), None);
    }

    #[test]
    fn constant_schedule_does_not_drift() {
        let mut s = Schedule::new(3.0, Arrivals::Cbr, 1);
        let times: Vec<u64> = (0..3_000_001).map(|_| s.next().as_nanos()).collect();
        assert_eq!(times[0], 0);
        assert_eq!(times[1], 333_333_333);
        assert!(times[3_000_000].abs_diff(1_000_000_000_000_000) <= 1);
    }

    #[test]
    fn poisson_schedule_has_the_mean_and_the_spread_of_its_rate() {
        let mut s = Schedule::new(1e6, Arrivals::Poisson, 42);
        let mut last = 0;
        let gaps: Vec<f64> = (0..100_000)
            .map(|_| {
                let at = s.next().as_nanos();
                let gap = (at - last) as f64;
                last = at;
                gap
            })
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((980.0..1020.0).contains(&mean), "{mean}");
        assert!((0.97..1.03).contains(&(deviation / mean)), "{deviation}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn one_flipped_bit_of_the_body_is_seen(
            len in HEADER_LEN + 1..200usize, seed: u64, sequence in 0..1u64 << 48, bit: proptest::sample::Index,
        ) {
            let mut message = vec![0xa5; len];
            write_header(&mut message, 7, sequence);
            fill_body(&mut message, seed, sequence);
            prop_assert!(body_matches(&message, seed, sequence));
            let bit = bit.index((len - HEADER_LEN) * 8);
            message[HEADER_LEN + bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!body_matches(&message, seed, sequence));
        }
    }
}
