//! The plan: what a file, once checked, says is to be run.
//!
//! A plan is made by [`crate::file`] or by another reader. Its commands are [`Template`]s, whose placeholders are filled in for each
//! cell, run and host.

mod inventory;
mod template;

pub use inventory::Inventory;
pub use template::{Template, TemplateError};

use crate::launcher::{HOSTS_MAX, HostSpec};
use crate::redact::Secrets;
use barewire_report::run::{AxisValue, HardwareClass};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file it came from, for people.
    pub file: String,
    /// What relative paths of it are relative to.
    pub folder: PathBuf,
    /// Short name: `a-z0-9_-`. Part of the run folder's name.
    pub name: String,
    /// Heading; empty: the name.
    pub title: String,
    /// What it is about; may be empty.
    pub about: String,
    /// Id of the published table that its rows repeat, where they repeat one.
    pub table: Option<String>,
    /// What lies between the hosts; `None`: the launcher knows.
    pub hardware: Option<HardwareClass>,
    /// What is random replays from.
    pub seed: u64,
    /// The lab that the local launcher brings up.
    pub topology: Option<PathBuf>,
    /// Its hosts by name. Empty: the launcher gives as many as the roles need.
    pub hosts: Vec<HostSpec>,
    /// How it is measured.
    pub method: MethodPlan,
    /// The points of the sweep, in order: at least one, which may have no axis at all.
    pub points: Vec<Point>,
    /// Axes that say which system works, not what the work is. Rows name their system themselves and are compared with each other,
    /// so these are no axes of theirs, unless they are all that tells rows apart.
    pub systems: BTreeSet<String>,
    /// Who runs what, in the order in which it is started.
    pub roles: Vec<RolePlan>,
    /// How rows of several hosts become one.
    pub merge: MergePlan,
    /// Variables of every process.
    pub environment: BTreeMap<String, String>,
    /// Files that hosts need.
    pub sync: Vec<SyncPlan>,
    /// Hosts that are left out.
    pub black: BTreeSet<String>,
    /// Hosts whose output is not shown. It is kept all the same.
    pub quiet: BTreeSet<String>,
    /// Settings of every host, those included that only the launcher knows. A host's own stand above them.
    pub everywhere: BTreeMap<String, String>,
    /// What must not be shown, beside what names give away.
    pub secrets: Secrets,
}

/// Values of the axes at one point of the sweep, in the file's order.
pub type Point = Vec<(String, AxisValue)>;

/// How an experiment is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodPlan {
    /// Runs of each cell.
    pub runs: u32,
    /// `{warmup}`, in seconds.
    pub warmup_s: f64,
    /// `{seconds}`: measured time of a run.
    pub seconds: f64,
    /// A run of a cell that has not ended after so long has failed, unless [`endless`](MethodPlan::endless). `None`: it may take
    /// for ever.
    pub timeout: Option<Duration>,
    /// Its commands do not end by themselves, nor do all of them print rows: a run is over at its time-out, if not before, and
    /// counts when one of them has printed a row.
    pub endless: bool,
    /// How long a role may take until it is ready.
    pub ready_timeout: Duration,
    /// Cells take turns, A B B A, run by run; else each has all its runs before the next.
    pub interleave: bool,
    /// Silence between two runs.
    pub pause: Duration,
    /// A host that has said nothing for so long is lost, and so is the controller to a host.
    pub silence: Duration,
}

/// Runs of each cell unless the file says otherwise: with fewer than four there is no verdict.
const RUNS: u32 = 5;

impl Default for MethodPlan {
    fn default() -> MethodPlan {
        MethodPlan {
            runs: RUNS,
            warmup_s: 1.0,
            seconds: 3.0,
            timeout: Some(Duration::from_secs(60)),
            endless: false,
            ready_timeout: Duration::from_secs(30),
            interleave: true,
            pause: Duration::ZERO,
            silence: crate::agent::SILENCE,
        }
    }
}

/// A role: one command on one or several hosts.
#[derive(Clone, Debug)]
pub struct RolePlan {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub hosts: RoleHosts,
    /// How many of these hosts; `None`: all that are named, or one.
    pub count: Option<Count>,
    /// Program and arguments. A first word `barewire` is the agent's own binary. An argument that is one placeholder is left out
    /// when its value is empty.
    pub command: Vec<Template>,
    /// The folder it runs in; `None`: the agent's scratch folder.
    pub cwd: Option<Template>,
    /// Variables of its processes, beside the experiment's.
    pub environment: BTreeMap<String, String>,
    /// What is run on each of its hosts when everything is over, however it ends, the agent's death included. Has no point of the sweep.
    pub cleanup: Vec<Template>,
    /// Text that a line of its output contains when it is ready. The next role starts then.
    pub ready: Option<String>,
    /// Time between its start (or its readiness) and the next role's start.
    pub settle: Duration,
    /// What becomes of its output. The run ends when all processes of collecting roles have ended; without such a role, when all
    /// have.
    pub collect: Option<Collect>,
    /// How it is ended when the run is over.
    pub stop: StopSignal,
}

/// Where a role runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleHosts {
    /// On these.
    Named(Vec<String>),
    /// On hosts that no other role names, in the plan's order: as many as [`RolePlan::count`] says.
    Free,
    /// On all hosts that no other role takes.
    Rest,
    /// On the machine that runs the experiment, whatever the launcher.
    Here,
}

/// A number of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// Always so many.
    Fixed(u32),
    /// As many as this axis of the sweep says.
    Axis(String),
}

impl Count {
    /// How many hosts are wanted at this point of the sweep: one where the point has no such axis.
    pub(crate) fn at(&self, point: &Point) -> usize {
        match self {
            Count::Fixed(n) => *n as usize,
            Count::Axis(axis) => {
                let value = point.iter().find(|(key, _)| key == axis).map(|(_, value)| value);
                value.and_then(count_of).unwrap_or(1)
            }
        }
    }
}

/// A number of hosts, as an axis has it.
pub(crate) fn count_of(value: &AxisValue) -> Option<usize> {
    match value {
        AxisValue::Number(n) if *n >= 1.0 && *n <= HOSTS_MAX as f64 && n.fract() == 0.0 => Some(*n as usize),
        _ => None,
    }
}

/// The placeholder of a host that the value of an axis is, if it is one: `{host.KEY}` or `{ROLE.KEY}` and nothing else. Other values
/// stand for themselves, whatever braces they have.
pub(crate) fn placeholder_of_host(value: &str, is_role: impl Fn(&str) -> bool) -> Option<String> {
    let template = Template::parse(value).ok().filter(Template::is_one_placeholder)?;
    let name = template.names().next()?;
    let (of, _) = name.split_once('.')?;
    (of == "host" || is_role(of)).then(|| name.to_owned())
}

/// How a process is asked to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT, as Ctrl-C does.
    Interrupt,
    /// SIGTERM.
    #[default]
    Terminate,
    /// SIGKILL: not asked at all.
    Kill,
}

/// How rows are found in a role's output.
#[derive(Clone, Debug)]
pub enum Collect {
    /// Standard output is a document of a bench verb, an object, an array of objects, or an object a line.
    Json,
    /// Lines of both outputs are matched; each match is a row of its named groups.
    Regex(regex_lite::Regex),
}

impl Collect {
    /// Rows by a regular expression with named groups.
    ///
    /// # Errors
    /// In words.
    pub fn pattern(text: &str) -> Result<Collect, String> {
        let regex = regex_lite::Regex::new(text).map_err(|e| e.to_string())?;
        match regex.capture_names().flatten().next() {
            Some(_) => Ok(Collect::Regex(regex)),
            None => Err("no group has a name; (?P<rate_per_s>[0-9.]+) is a column of that name".to_owned()),
        }
    }
}

/// How rows of several hosts become one. What no list names: rates and sample counts are summed, percentiles come from the merged
/// histograms, else they are the worst host's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePlan {
    /// Keys whose values are added.
    pub sum: BTreeSet<String>,
    /// Keys of which the largest counts.
    pub max: BTreeSet<String>,
    /// Keys of which the smallest counts.
    pub min: BTreeSet<String>,
    /// Keys whose values are averaged.
    pub mean: BTreeSet<String>,
    /// Rows stay apart, one for each host.
    pub apart: bool,
}

/// A file that hosts need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncPlan {
    /// Here: a file, relative to the plan's folder.
    pub source: PathBuf,
    /// There: relative to the agent's scratch folder, or absolute.
    pub to: PathBuf,
    /// Which hosts; empty: all.
    pub targets: Vec<String>,
}

/// Runs and seconds of a quick look.
const QUICK_SECONDS: f64 = 0.5;
const QUICK_WARMUP_S: f64 = 0.2;
/// Starting and ending processes takes about so long.
const AROUND_S: f64 = 1.0;

impl Plan {
    /// [`placeholder_of_host`], by this plan's roles.
    pub(crate) fn placeholder_of_host(&self, value: &str) -> Option<String> {
        placeholder_of_host(value, |of| self.roles.iter().any(|role| role.name == of))
    }

    /// Which cell is run when, and which of its runs that is, from 1: run by run in turns, forth in the first and back in the next, so that
    /// what changes steadily favours none; or cell by cell.
    pub fn order(&self) -> Vec<(usize, u32)> {
        let (cells, runs) = (self.points.len(), self.method.runs);
        if !self.method.interleave {
            return (0..cells).flat_map(|cell| (1..=runs).map(move |run| (cell, run))).collect();
        }
        let turn = move |run: u32, at: usize| if run.is_multiple_of(2) { cells - 1 - at } else { at };
        (1..=runs).flat_map(|run| (0..cells).map(move |at| (turn(run, at), run))).collect()
    }

    /// One short run of each cell: figures to look at, not to believe.
    pub fn make_quick(&mut self) {
        self.method.runs = 1;
        self.method.seconds = self.method.seconds.min(QUICK_SECONDS);
        self.method.warmup_s = self.method.warmup_s.min(QUICK_WARMUP_S);
        self.method.pause = Duration::ZERO;
    }

    /// Keeps the points at which an axis has this value.
    ///
    /// # Errors
    /// In words, with the nearest right word, when there is no such axis or value.
    pub fn keep_only(&mut self, axis: &str, value: &str) -> Result<(), String> {
        let axes: Vec<&str> =
            self.points.first().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        if !axes.contains(&axis) {
            return Err(format!("no axis `{axis}`{}", crate::file::near(axis, &axes)));
        }
        let has =
            |point: &Point, value: &str| point.iter().any(|(key, v)| key == axis && v.to_string() == value);
        if !self.points.iter().any(|point| has(point, value)) {
            let mut values: Vec<String> = Vec::new();
            for (_, value) in self.points.iter().flatten().filter(|(key, _)| key == axis) {
                if !values.contains(&value.to_string()) {
                    values.push(value.to_string());
                }
            }
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            return Err(format!("axis `{axis}` has no `{value}`{}", crate::file::near(value, &values)));
        }
        self.points.retain(|point| has(point, value));
        Ok(())
    }

    /// Leaves these hosts out, too.
    ///
    /// # Errors
    /// In words, when the file names hosts and this is none of them.
    pub fn black_out(&mut self, hosts: &[String]) -> Result<(), String> {
        let known = self.host_names();
        if let Some(host) = hosts.iter().find(|host| !known.contains(*host)) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(format!("no host `{host}`{}", crate::file::near(host, &known)));
        }
        self.black.extend(hosts.iter().cloned());
        Ok(())
    }

    /// About how long one run of a cell takes, in seconds.
    pub fn run_seconds(&self) -> f64 {
        let settle: f64 = self.roles.iter().map(|role| role.settle.as_secs_f64()).sum();
        self.method.warmup_s + self.method.seconds + self.method.pause.as_secs_f64() + settle + AROUND_S
    }

    /// About how long all of it takes, in seconds.
    pub fn total_seconds(&self) -> f64 {
        self.run_seconds() * self.points.len() as f64 * f64::from(self.method.runs)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn cells_take_turns_forth_and_back() {
        let order = |method: &str| {
            let text = format!(
                "name = \"x\"\n[method]\n{method}\n[sweep]\na = [1, 2]\n[[host]]\nname = \"h\"\n[[role]]\nname = \"r\"\n\
                 hosts = [\"h\"]\ncommand = [\"true\"]\n"
            );
            crate::file::parse(&text, "x.toml", Path::new("/")).unwrap().order()
        };
        assert_eq!(order("runs = 3"), [(0, 1), (1, 1), (1, 2), (0, 2), (0, 3), (1, 3)], "A B B A");
        assert_eq!(order("runs = 2\ninterleave = false"), [(0, 1), (0, 2), (1, 1), (1, 2)]);
        // Fewer give no verdict.
        assert_eq!(order("").len(), 2 * 5);
    }
}
