//! Receive stamps: when a frame arrived, by whose clock, read by whom.

/// Who took the stamp. Ordered from worst to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
#[repr(u8)]
pub enum StampSource {
    /// Nobody did.
    #[default]
    None = 0,
    /// The engine's reading at the start of the duty cycle that found the frame.
    Engine = 1,
    /// The kernel, when its driver handed the frame up.
    Kernel = 2,
    /// The network card, on the wire.
    Hardware = 3,
}

impl StampSource {
    /// The label that reports print.
    pub const fn as_str(self) -> &'static str {
        match self {
            StampSource::None => "none",
            StampSource::Engine => "engine",
            StampSource::Kernel => "kernel",
            StampSource::Hardware => "hardware",
        }
    }
}

/// The clock that a stamp was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum ClockDomain {
    /// `CLOCK_MONOTONIC`, the engine's own.
    #[default]
    Monotonic = 0,
    /// `CLOCK_REALTIME`, the kernel's socket stamps.
    Realtime = 1,
    /// The network card's own clock (PHC).
    Nic = 2,
    /// The time written in a capture file.
    Capture = 3,
}

/// When a frame arrived (t3), with the label that says what the figure is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Nanoseconds in `clock`'s own epoch.
    pub ns: u64,
    /// Bound on the error of a conversion that was already made, in nanoseconds; zero for a raw reading.
    pub error_ns: u32,
    /// Who read it.
    pub source: StampSource,
    /// Which clock was read.
    pub clock: ClockDomain,
}

impl Stamp {
    /// A stamp taken by the engine on its own clock.
    pub const fn engine(now: barewire_base::Instant) -> Stamp {
        Stamp { ns: now.as_nanos(), error_ns: 0, source: StampSource::Engine, clock: ClockDomain::Monotonic }
    }
}
