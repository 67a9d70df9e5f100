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
pub const READING: [&str; 8] = [
    "Points of time: t0 intended send, t1 send call, t2 frame on the wire, t3 frame received (by the stamp that the row names), t4 handed \
     over by the engine, t5 application's callback. A round trip is t1 to t5 of the same program.",
    "n<k stands for a percentile that fewer samples than the k it needs were taken for.",
    "A figure of several runs is the median of theirs; the range below it is their least and their most. Curves are of all runs together.",
    "not comparable: the published row is of another machine, and often of another class of hardware; what stands between the \
     two is said over the table. One machine's figures do not carry over to another's.",
    "contended: others ran on our cores, the hypervisor took them, or our own threads were more than they; the mark says which. void: the \
     instrument was at fault, the row must not be used.",
    "overloaded: more was offered than was carried (lost, unanswered or never sent): a result, drawn with a hollow mark. N cores busy: what \
     both ends kept busy on average.",
    "Beside it: how a measured row stands to the baselines of the same work that ran in turn with it. Where repetitions overlap, or \
     are too few for a verdict, there is none.",
    "Little's law: rate times mean time is what was in flight. Where it is off, times or rate are wrong.",
];

/// Every chart as a file: name, and SVG that follows its reader's choice of light or dark.
pub fn charts(report: &Report) -> Vec<(String, String)> {
    report.charts().filter(|c| !c.is_empty()).map(|c| (format!("{}.svg", c.id), c.standalone())).collect()
}
