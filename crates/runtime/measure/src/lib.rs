//! How barewire measures: fresh clock readings, histograms of a whole run, the machine's fingerprint, detection of
//! contention for the cores, and the control rows that show the machine's floor.
//!
//! [`stamp`] is read at the points t1, t4 and t5 and drives nothing. A figure goes into a [`Histogram`]; its
//! [`Summary`] holds no percentile that the samples do not carry. A table prints beside it the [`Fingerprint`] of the
//! machine, what [`Contention`] saw during the run, and the [`ControlRows`]: what a clock reading, a system call, a
//! cache line and a wake-up cost here.
//!
//! ```
//! use barewire_measure::{Histogram, Quantile, stamp};
//!
//! let mut histogram = Histogram::new();
//! for _ in 0..1000 {
//!     let start = stamp();
//!     std::hint::black_box(0);
//!     histogram.record(stamp().since(start).as_nanos());
//! }
//! assert_eq!(histogram.samples(), 1000);
//! assert!(histogram.quantile(0.5).value().is_some());
//! // A thousand samples carry no 99.99th percentile.
//! assert!(histogram.quantile(0.9999).value().is_none());
//! ```
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod clock;
mod contention;
mod control;
mod cpu;
mod fingerprint;
pub mod head;
mod histogram;
mod histogram_log;
mod little;
mod proc_text;
mod sys;
mod windows;

pub use clock::{ClockCost, clock_cost, realtime_ns, stamp};
pub use contention::{Contention, ContentionReport, OTHERS, OVERSUBSCRIBED, STOLEN, WAITED};
pub use control::{
    ControlRows, CoreToCore, Hiccups, SyscallCost, Wakeup, allowed_cores, core_to_core_rtt, eventfd_wakeup,
    hiccup_meter, pin_to_core, syscall_cost,
};
pub use cpu::{CoreTime, Task, TaskTime, family_time, set_busy_poll};
pub use fingerprint::{Build, Difference, FINGERPRINT_SCHEMA, Fingerprint, Hugepages, Machine, RunState};
pub use histogram::{Histogram, MAX_NS, Quantile, RttNs, Summary, samples_needed};
pub use histogram_log::{HistogramError, LOG_HEADER};
pub use little::little_law_check;
pub use sys::{Received, SocketRing};
pub use windows::common_windows;
