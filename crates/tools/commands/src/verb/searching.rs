//! `--search` of the measuring verbs: options, and what is printed.

use super::measured::{MeasuredOutputArgs, Void, conclude, seconds, tables_text};
use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_base::Duration;
use barewire_bench::Results;
use barewire_bench::render::table;
use barewire_bench::row::Row;
use barewire_bench::search::messages::TrialLine;
use barewire_bench::search::{BadGoal, Goal, Kind, LOAD_MAX, Range, goals};
use barewire_report::run::HardwareClass;

/// Options.
#[derive(clap::Args)]
pub struct SearchArgs {
    /// Search for the greatest load that is carried: ndr (RFC 2544, no loss), pdr (half a percent), mlr (RFC 9971, several goals and trials)
    #[arg(long, value_name = "KIND", help_heading = "Search")]
    search: Option<Kind>,
    /// A goal of the search: loss=0.005,exceed=0.5,trial=1,sum=21,initial=0.5,width=0.01,name=mine; mlr takes several
    #[arg(long, value_name = "KEY=VALUE,..", requires = "search", help_heading = "Search")]
    goal: Vec<String>,
    /// Search: length of a trial, where the goal does not set it
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, requires = "search", help_heading = "Search")]
    trial: Duration,
    /// Search: least load, per second [default: a thousandth of the greatest]
    #[arg(long, value_name = "PER_SECOND", requires = "max_load", help_heading = "Search")]
    min_load: Option<u64>,
    /// Search: greatest load, per second [default: the rate of a closed-loop run]
    #[arg(long, value_name = "PER_SECOND", requires = "search", help_heading = "Search")]
    max_load: Option<u64>,
}

/// What they ask for.
pub struct Asked {
    /// Which search.
    pub kind: Kind,
    /// Its goals.
    pub goals: Vec<Goal>,
    /// Between which loads.
    pub range: Option<Range>,
}

impl SearchArgs {
    /// What they ask for; none without `--search`.
    ///
    /// # Errors
    /// Goals and loads that cannot be.
    pub fn asked(&self) -> anyhow::Result<Option<Asked>> {
        let Some(kind) = self.search else { return Ok(None) };
        let usage = |error: BadGoal| Failure::new(Code::Usage, error.to_string());
        let goals = goals(kind, &self.goal, self.trial.as_secs_f64()).map_err(usage)?;
        let range = match self.max_load {
            Some(max) => {
                let min = self.min_load.unwrap_or((max / 1000).max(1));
                Some(Range::new(min, max.min(LOAD_MAX)).map_err(usage)?)
            }
            None => None,
        };
        Ok(Some(Asked { kind, goals, range }))
    }
}

/// Tells a trial.
pub fn tell(console: &Console, system: &str, line: &TrialLine) {
    let what =
        if line.offered { format!("{} of {} bad", line.bad, line.sent) } else { "not offered".to_owned() };
    console.tell(&format!("{system}: {}/s for {:.2} s: {what}", line.load_per_s, line.seconds));
}

/// Prints and writes rows, and says with which code to end.
///
/// # Errors
/// When something cannot be written.
pub fn finish(
    rows: &[Row],
    failures: &[anyhow::Error],
    leave: &MeasuredOutputArgs,
    mut results: Results,
    verb: &str,
    console: &Console,
) -> anyhow::Result<Code> {
    results.add(rows)?;
    let text = || tables_text(&[table(rows)], &results);
    leave.end(&results, verb, HardwareClass::OneMachine, &[], console, text)?;
    Ok(conclude(Void::of(rows), failures, console))
}
