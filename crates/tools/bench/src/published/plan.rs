//! Every experiment of the five published reports as one plan, with the time that it takes.

use crate::error::BenchError;
use crate::messages::MsgWorkload;
use crate::messages::plan::{Settings, planned_systems, seed_systems};
use crate::published::messages::PUBLISHED_SIZE;
use crate::published::{mitosis, onixs};
use crate::{feed, rdma, switch};
use barewire_base::Duration;
use barewire_report::published::{self, PublishedTable, Want};
use barewire_report::run::{AxisValue, Record, Role};

/// Requests in flight: E1 and E2 of the published tables.
const WINDOWS: [u32; 2] = [1, 32];
/// Runs of each row: with fewer there is no verdict.
pub(crate) const SEED_RUNS: u32 = 5;
/// Not measured, before each run of messages.
const WARMUP: Duration = Duration::from_millis(200);

/// One of the programs that reports were published of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The message service.
    Messages,
    /// The P4 switch.
    Switch,
    /// The feed handler.
    Feed,
    /// RDMA connections.
    Connections,
}

impl Program {
    /// All, in the order of the reports.
    pub const ALL: [Program; 4] = [Program::Messages, Program::Switch, Program::Feed, Program::Connections];

    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Program::Messages => "messages",
            Program::Switch => "switch",
            Program::Feed => "feed",
            Program::Connections => "rdma",
        }
    }

    /// Whose report a published table is of, by its id.
    pub fn of_table(id: &str) -> Program {
        match id.split('.').next().unwrap_or(id) {
            "bmv2" => Program::Switch,
            "onixs" => Program::Feed,
            "rc" => Program::Connections,
            _ => Program::Messages,
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// One program only.
    pub only: Option<Program>,
    /// One short run of each row.
    pub quick: bool,
    /// Measured time of a run.
    pub seconds: Option<Duration>,
    /// Runs of each row.
    pub runs: Option<u32>,
    /// Hosts can be made here.
    pub with_hosts: bool,
    /// Cores of client and server.
    pub cores: Option<(usize, usize)>,
    /// The command, for rows.
    pub command: String,
}

/// What is run.
#[derive(Clone, Debug, Default)]
pub struct SeedsPlan {
    /// Messages: one for each window, of [`seed_systems`].
    pub messages: Vec<Settings>,
    /// The switch.
    pub switches: Vec<switch::plan::Request>,
    /// The feed handler.
    pub feeds: Vec<feed::plan::Request>,
    /// RDMA connections.
    pub connections: Vec<rdma::plan::Request>,
    with_hosts: bool,
}

impl Asked {
    fn wants(&self, program: Program) -> bool {
        self.only.is_none_or(|only| only == program)
    }

    /// Measured time of a run of the switch.
    fn time(&self) -> Duration {
        self.seconds.unwrap_or(Duration::from_secs(if self.quick { 1 } else { 3 }))
    }

    fn message_settings(&self, window: u32) -> Settings {
        let workload = MsgWorkload {
            size: PUBLISHED_SIZE,
            window,
            duration: self.seconds.unwrap_or(Duration::from_secs(if self.quick { 1 } else { 2 })),
            warmup: WARMUP,
            runs: self.runs.unwrap_or(if self.quick { 1 } else { SEED_RUNS }),
            ..MsgWorkload::default()
        };
        Settings {
            workload,
            idle: None,
            idle_state: None,
            cores: self.cores,
            options: String::new(),
            command: self.command.clone(),
        }
    }

    /// The plan.
    ///
    /// # Errors
    /// [`BenchError::Plan`] when the router's program cannot be had.
    pub fn plan(&self) -> Result<SeedsPlan, BenchError> {
        let core = self.cores.map(|c| c.0);
        let mut plan = SeedsPlan { with_hosts: self.with_hosts, ..SeedsPlan::default() };
        if self.wants(Program::Messages) {
            plan.messages = WINDOWS.map(|window| self.message_settings(window)).to_vec();
        }
        if self.wants(Program::Switch) {
            plan.switches = switch::plan::seed_requests(
                self.with_hosts,
                self.quick,
                self.runs,
                self.time(),
                core,
                &self.command,
            )?;
        }
        if self.wants(Program::Feed) {
            let mut request =
                onixs::seed_request(self.with_hosts, self.quick, self.runs, self.cores, &self.command);
            request.seconds = self.seconds.unwrap_or(request.seconds);
            plan.feeds.push(request);
        }
        if self.wants(Program::Connections) {
            plan.connections = mitosis::seed_requests(
                self.with_hosts,
                self.quick,
                self.runs,
                self.seconds,
                self.cores,
                &self.command,
            );
        }
        Ok(plan)
    }
}

impl SeedsPlan {
    /// How long the experiments of `program` take, about.
    pub fn planned_time(&self, program: Program) -> Duration {
        let sum = |parts: &mut dyn Iterator<Item = Duration>| parts.fold(Duration::ZERO, |a, b| a + b);
        match program {
            Program::Messages => {
                let systems = seed_systems(self.with_hosts);
                sum(&mut self.messages.iter().map(|settings| planned_systems(&systems, settings)))
            }
            Program::Switch => sum(&mut self.switches.iter().map(|r| r.planned_time())),
            Program::Feed => sum(&mut self.feeds.iter().map(|r| r.planned_time())),
            Program::Connections => sum(&mut self.connections.iter().map(|r| r.planned_time())),
        }
    }

    /// How long all of it takes, about.
    pub fn whole_time(&self) -> Duration {
        Program::ALL.into_iter().map(|p| self.planned_time(p)).fold(Duration::ZERO, |a, b| a + b)
    }
}

/// A case of a published table that nothing measured repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingCase {
    /// The table.
    pub table: &'static PublishedTable,
    /// Where its rows would stand.
    pub axes: Vec<(&'static str, AxisValue)>,
}

/// Every case of every published table that no row of ours in `records` repeats: a baseline's, or one that was recorded elsewhere, is
/// none; a void one says itself what became of it. Tables that print another one's figures again have no rows of
/// their own.
pub fn missing_cases(records: &[Record]) -> Vec<MissingCase> {
    let mut missing = Vec::new();
    for table in published::tables().filter(|t| t.id == t.records_of) {
        for (index, case) in table.cases.iter().enumerate() {
            let here = |r: &Record| {
                r.role == Role::Measured
                    && !r.row.contains_key("recorded")
                    && r.table == table.id
                    && table.case_of(r) == Some(index)
            };
            if records.iter().any(here) {
                continue;
            }
            let axis = |(key, want): &(&'static str, Want)| {
                let value = match *want {
                    Want::Is(number) => number.into(),
                    // Of several in flight: as many as were published.
                    Want::Above(_) => table.rows.iter().find(|row| row.case == index)?.window?.into(),
                    Want::Word(word) => word.into(),
                    Want::Begins(_) | Want::Flag(_) => return None,
                };
                Some((*key, value))
            };
            missing.push(MissingCase { table, axes: case.wants.iter().filter_map(axis).collect() });
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(quick: bool, with_hosts: bool) -> Asked {
        Asked {
            only: None,
            quick,
            seconds: None,
            runs: None,
            with_hosts,
            cores: Some((0, 1)),
            command: "barewire bench published".to_owned(),
        }
    }

    #[test]
    fn the_whole_takes_half_an_hour_at_most_and_the_quick_one_five_minutes() {
        for with_hosts in [true, false] {
            let whole = asked(false, with_hosts).plan().unwrap().whole_time();
            assert!((120..1_800).contains(&(whole.as_secs_f64() as u64)), "{whole:?}");
            let quick = asked(true, with_hosts).plan().unwrap().whole_time();
            assert!((15..240).contains(&(quick.as_secs_f64() as u64)), "{quick:?}");
        }
    }

    #[test]
    fn every_row_has_runs_enough_for_a_verdict() {
        for with_hosts in [true, false] {
            let plan = asked(false, with_hosts).plan().unwrap();
            let runs = plan.messages.iter().map(|settings| settings.workload.runs);
            let runs =
                runs.chain(plan.switches.iter().map(|r| r.runs)).chain(plan.feeds.iter().map(|r| r.runs));
            let needed = barewire_report::compare::repetitions_needed(0.95) as u32;
            for runs in runs.chain(plan.connections.iter().map(|r| r.runs)) {
                assert!(runs >= SEED_RUNS && runs >= needed, "{runs}");
            }
        }
    }

    #[test]
    fn what_was_not_measured_has_its_place_in_its_table() {
        let own = || published::tables().filter(|t| t.id == t.records_of);
        let missing = missing_cases(&[]);
        assert_eq!(missing.len(), own().map(|t| t.cases.len()).sum::<usize>());
        for one in &missing {
            let axes = one.axes.iter().map(|(axis, value)| ((*axis).to_owned(), value.clone())).collect();
            let record = Record { axes, ..Record::missing("x", one.table.id, "why") };
            // What is wanted of a row by yes or no is no axis: the table has one case then.
            let found = one.table.case_of(&record).is_some();
            assert!(found || one.table.cases.len() == 1, "{}: {:?}", one.table.id, one.axes);
        }
        let mut record = Record::new("rc", "rc.machines", serde_json::Map::new());
        record.axes.insert("hosts".to_owned(), 8.0.into());
        let without = missing_cases(std::slice::from_ref(&record));
        assert_eq!(without.len(), missing.len() - 1);
        // Nothing of ours: the kernel's alone.
        let kernels = Record { role: Role::Baseline, ..record };
        assert_eq!(missing_cases(&[kernels]).len(), missing.len());
        assert!(!without.iter().any(|m| m.table.id == "rc.machines" && m.axes[0].1 == 8.0.into()));
    }

    #[test]
    fn one_program_is_planned_alone() {
        for only in Program::ALL {
            let plan = Asked { only: Some(only), ..asked(true, true) }.plan().unwrap();
            let planned: Vec<Program> =
                Program::ALL.into_iter().filter(|p| plan.planned_time(*p) > Duration::ZERO).collect();
            assert_eq!(planned, [only]);
        }
        for table in barewire_report::published::tables() {
            let is = |word: &str| table.id.starts_with(word);
            assert_eq!(Program::of_table(table.id) == Program::Messages, is("machnet"), "{}", table.id);
        }
    }
}
