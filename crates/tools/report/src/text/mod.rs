//! The report without a browser: Markdown, CSV, Parquet (a feature), and each chart as an SVG file.

mod csv;
mod lines;
mod markdown;
#[cfg(feature = "parquet")]
mod parquet;

pub use csv::csv;
pub use markdown::{comparison, markdown};
#[cfg(feature = "parquet")]
pub use parquet::parquet;

use crate::report::Report;

/// What every form of a report says about its own figures.
pub const READING: [&str; 7] = [
    "Points of time: t0 intended send, t1 send call, t2 frame on the wire, t3 frame received (by the stamp that the row names), t4 handed \
     over by the engine, t5 application's callback. A round trip is t1 to t5 of the same program.",
    "n<k stands for a percentile that fewer samples than the k it needs were taken for.",
    "A range below a figure is that of its repetitions; a figure itself is of all of them together.",
    "not comparable: the published row is of another machine, and often of another class of hardware; the badge says what stands between \
     the two. One machine's figures do not carry over to another's.",
    "contended: another process ran on the cores, or the hypervisor took them. void: the row must not be used.",
    "Beside it: how a measured row stands to the baselines of the same work that ran in turn with it. Where repetitions overlap, or \
     are too few for a verdict, there is none.",
    "Little's law: rate times mean time is what was in flight. Where it is off, times or rate are wrong.",
];

/// Every chart as a file: name, and SVG that follows its reader's choice of light or dark.
pub fn charts(report: &Report) -> Vec<(String, String)> {
    report.charts().filter(|c| !c.is_empty()).map(|c| (format!("{}.svg", c.id), c.standalone())).collect()
}
