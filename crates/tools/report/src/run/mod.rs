//! A run folder: everything that one run of an experiment left, written once and never again.
//!
//! ```text
//! runs/20261122-120304-123-quick/
//!   manifest.json      version, machine, commit, configuration, command, start and end, files with their checksums
//!   rows.jsonl         one record a line: what the bench verb prints, with experiment, table and axes around it
//!   histograms.hlog    HDR V2 interval log; a record names its lines by tag: one for each repetition
//! ```
//! A folder without an end in its manifest is of a run that was killed: its rows are read as far as they go.

mod error;
mod manifest;
mod read;
mod record;
mod write;

pub use error::RunError;
pub use manifest::{FileEntry, HardwareClass, Manifest, RUN_SCHEMA};
pub use read::Run;
pub use record::{AxisValue, HistogramRef, Record, Role};
pub use write::{RunStart, RunWriter};

/// The manifest's name in the folder.
pub const MANIFEST: &str = "manifest.json";
/// The rows' name in the folder.
pub const ROWS: &str = "rows.jsonl";
/// The histograms' name in the folder.
pub const HISTOGRAMS: &str = "histograms.hlog";

/// Largest manifest that is read, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// Largest file of rows or histograms that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 512 << 20;
