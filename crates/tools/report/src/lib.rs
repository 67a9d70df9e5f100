//! What a run leaves, and what people look at: run folders, their index, comparisons, and the report page.
//!
//! ```text
//! bench verb ──> run::RunWriter ──> folder ──> run::Run ──> report::Report ──> html::page      one file, works offline
//!                                    │                          ▲         └──> text::{markdown, csv, charts}
//!                                    └──> index::Index          └── published (the five reports), compare::compare
//! ```
//! A figure never stands without where it was measured: rows of a folder share its machine and its caveats, and a published row
//! beside a measured one is marked *not comparable* with the reason ([`published::comparable`]): none of them is of our machine.
//!
//! ```no_run
//! use barewire_report::report::{Options, Report};
//! use barewire_report::run::Run;
//! use barewire_report::{html, text};
//! use std::path::Path;
//!
//! let run = Run::open(Path::new("runs/mine"))?; // a run folder, or a JSON document
//! let report = Report::of(&[&run], &Options::default());
//! std::fs::write("report.html", html::page(&report))?;
//! std::fs::write("report.md", text::markdown(&report, "charts"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chart;
pub mod compare;
pub mod figure;
pub mod html;
pub mod import;
pub mod index;
pub mod published;
pub mod report;
pub mod run;
pub mod text;
mod utc;

pub use report::control_words;
pub use utc::utc_ms_of_day;
pub use utc::{span_text, utc_day, utc_text};
