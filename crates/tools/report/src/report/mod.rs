//! What a report says, before it becomes a page or a text: machines, caveats, tables with badges, charts.
//!
//! ```text
//! Run ──> item (record, identity, figures, case) ──> table   published rows first, measured beside them, badges with reasons
//!                                                └─> pictures   percentile curves, throughput and latency, scaling, waterfalls
//! ```

mod head;
mod item;
mod pictures;
mod table;
mod work;

pub use head::{RunHead, control_words};
pub use pictures::Opening;
pub use table::{Badge, BadgeKind, Cell, Group, Row, Source, Table};
pub use work::{SLEEPS_BELOW, handicap, is_judged, same_load, same_work};

use crate::chart::Chart;
use crate::compare::Comparison;
use crate::run::{Role, Run};

/// What a report is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its title.
    pub title: String,
    /// Show published tables that no run has rows of, too: nothing is left out silently.
    pub all_published: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { title: "barewire report".to_owned(), all_published: true }
    }
}

/// What a report says.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Title.
    pub title: String,
    /// The runs that it is made of.
    pub runs: Vec<RunHead>,
    /// What a reader has to know before believing anything in it.
    pub caveats: Vec<String>,
    /// The floor under every figure: name and value.
    pub controls: Vec<(String, String)>,
    /// A picture and a sentence for each of the programs, before everything else.
    pub openings: Vec<Opening>,
    /// The tables, published ones first.
    pub tables: Vec<Table>,
    /// Where the time goes.
    pub waterfalls: Vec<Chart>,
    /// Two runs side by side, with a picture of them.
    pub comparison: Option<(Comparison, Vec<Chart>)>,
}

impl Report {
    /// The report of `runs`.
    pub fn of(runs: &[&Run], options: &Options) -> Report {
        let items = item::items(runs);
        let mut ids = Ids::of("t");
        let tables = table::tables(&items, runs, options.all_published, &mut ids);
        let waterfalls = pictures::waterfalls(&items, &mut ids);
        let openings = pictures::openings(&items, &mut ids);
        Report {
            title: options.title.clone(),
            runs: runs.iter().map(|run| RunHead::of(run)).collect(),
            caveats: head::caveats(runs),
            controls: head::controls(runs),
            openings,
            tables,
            waterfalls,
            comparison: None,
        }
    }

    /// The report with a comparison in it.
    pub fn with_comparison(mut self, comparison: Comparison) -> Report {
        let charts = pictures::forests(&comparison);
        self.comparison = Some((comparison, charts));
        self
    }

    /// Every chart, in the order of the page.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.openings
            .iter()
            .map(|opening| &opening.chart)
            .chain(self.tables.iter().flat_map(|t| &t.charts))
            .chain(&self.waterfalls)
            .chain(self.comparison.iter().flat_map(|c| &c.1))
    }
}

/// Ids that are unique in a report.
#[derive(Default)]
pub(crate) struct Ids {
    taken: std::collections::BTreeSet<String>,
    /// Keeps the ids of the parts of a page apart.
    prefix: &'static str,
}

impl Ids {
    /// Ids that begin with `prefix`.
    pub(crate) fn of(prefix: &'static str) -> Ids {
        Ids { prefix, ..Ids::default() }
    }

    /// An id made of letters, digits and dashes of `text`.
    pub(crate) fn make(&mut self, text: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let base: String = text.chars().map(plain).take(60).collect();
        let base = format!("{}-{}", self.prefix, base.trim_matches('-'));
        let mut id = base.clone();
        for n in 2.. {
            if self.taken.insert(id.clone()) {
                break;
            }
            id = format!("{base}-{n}");
        }
        id
    }
}

/// Whether a record is a row of a table.
pub(crate) fn in_tables(role: Role) -> bool {
    role != Role::Control
}
