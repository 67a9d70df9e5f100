//! The experiment file: TOML, checked into a [`Plan`] before anything starts.
//!
//! ```toml
//! name = "rc-threads"
//! table = "rc.threads"                     # the published table that its rows repeat, if they repeat one
//!
//! [lab]
//! topology = "two-hosts.toml"              # local launcher: hosts come from there
//!
//! [[host]]                                 # other launchers
//! name = "h1"
//! ssh = "alice@machine"
//! settings = { interface = "eth0" }
//!
//! [method]
//! runs = 5
//! silence_s = 60                           # a host that says nothing for so long is lost
//!
//! [sweep]
//! threads = [1, 2, 4]                      # several keys: each with each
//! zip = [{ size = 64, window = 32 }, { size = 1024, window = 8 }]   # these go together
//! systems = [{ baseline = "none" }, { baseline = "kernel-tcp" }]    # so do these: what does the same work
//!                                          # a value that is one `{host.KEY}` or `{ROLE.KEY}` is filled in where it is used
//!
//! [[role]]
//! name = "server"
//! hosts = ["h2"]
//! command = ["barewire", "rc", "serve", "--port", "xdp:{host.interface}", "--ip", "{host.cidr}"]
//! ready = "listening"
//! cleanup = ["rmmod", "example"]           # when everything is over, however it ends
//!
//! [[role]]
//! name = "client"
//! hosts = ["h1"]
//! command = ["barewire", "rc", "perf", "--peer", "{server.address}", "--threads", "{threads}", "--json"]
//! collect = "json"                         # or { regex = '(?P<rate_per_s>[0-9.]+) connections' }
//! ```
//! Roles start in the file's order; the run ends when those that collect have ended. Every error says line, column, reason, and the
//! nearest right word.

mod roles;
mod tables;
#[cfg(test)]
mod tests;

use crate::launcher::{HERE, HostSpec};
use crate::plan::{Inventory, MergePlan, MethodPlan, Plan, Point, SyncPlan};
use crate::redact::{Secrets, shown};
use barewire_lab::Topology;
use barewire_report::published;
use barewire_report::run::{AxisValue, HardwareClass};
pub use barewire_text::Place;
use barewire_text::{KeyError, Quote, did_you_mean, key_error, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tables::{File, HostTable, HostsFile};
use toml::{Spanned, Value};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Most cells of one experiment.
pub const CELLS_MAX: usize = 100_000;
/// Keys of `[sweep]` whose values are tables: axes that go together.
const ZIP: &str = "zip";
/// As [`ZIP`], and these axes say who works: see [`Plan::systems`].
const SYSTEMS: &str = "systems";
/// The name of every host, in a file of hosts.
const EVERYWHERE: &str = "*";
/// Longest name of an experiment, a host, a role or an axis.
const NAME_LEN_MAX: usize = 32;
/// Longest time that a file may name, in seconds: a week.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;
/// The shortest silence after which a host may be taken for lost.
pub const SILENCE_LEAST: Duration = Duration::from_secs(3);

/// What launchers tell of a host, beside what the file says: placeholders `{host.…}`.
pub const HOST_FACTS: [&str; 7] = ["name", "address", "index", "interface", "cidr", "mac", "ip6"];
/// Placeholders that are always there.
pub const BUILT_IN: [&str; 8] = ["seconds", "warmup", "run", "runs", "seed", "self", "scratch", "name"];
/// What `{ROLE.…}` may be, beside what is known of its first host.
pub const ROLE_FACTS: [&str; 2] = ["addresses", "count"];

/// Why an experiment was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in it cannot be.
    #[error("{path}:{place}: {what}")]
    At {
        /// Which file.
        path: String,
        /// Where in it.
        place: Place,
        /// Key and value, what is wrong with them, the nearest right word.
        what: String,
    },
    /// Its topology was refused, by line and column of that file.
    #[error("{path}:{place}: lab.topology: {source}")]
    Topology {
        /// The experiment.
        path: String,
        /// Where in it.
        place: Place,
        /// What is wrong.
        source: barewire_lab::TopologyError,
    },
}

/// Reads an experiment file.
///
/// # Errors
/// [`FileError`], with file and place.
pub fn read(path: &Path) -> Result<Plan, FileError> {
    let (text, folder) = text_of(path)?;
    parse(&text, &path.display().to_string(), &folder)
}

/// The text of an experiment file, read once, and the folder that paths in it are relative to.
///
/// # Errors
/// [`FileError::Read`], also when it is larger than any such file.
pub fn text_of(path: &Path) -> Result<(String, PathBuf), FileError> {
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
        match text.len() > FILE_BYTES_MAX {
            true => Err(std::io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes"))),
            false => Ok(text),
        }
    };
    let text = read().map_err(|source| FileError::Read { path: path.display().to_string(), source })?;
    let folder = path.canonicalize().ok().and_then(|p| p.parent().map(Path::to_path_buf));
    Ok((text, folder.unwrap_or_default()))
}

/// Reads a file of `[[host]]` tables alone: where hosts really are, above what an experiment says. The name `*` is every host.
///
/// # Errors
/// [`FileError`], with file and place.
pub fn read_hosts(path: &Path) -> Result<Inventory, FileError> {
    let (text, folder) = text_of(path)?;
    parse_hosts(&text, &path.display().to_string(), &folder)
}

/// Parses such a file's text, as [`parse`] does.
///
/// # Errors
/// [`FileError`], with file and place.
pub fn parse_hosts(text: &str, path: &str, folder: &Path) -> Result<Inventory, FileError> {
    let reader = Reader { text, path, folder };
    let file: HostsFile = reader.toml()?;
    let (all, named): (Vec<HostTable>, Vec<HostTable>) =
        file.host.into_iter().partition(|host| host.name.get_ref() == EVERYWHERE);
    let mut inventory = Inventory { hosts: reader.hosts(&named)?, ..Inventory::default() };
    for table in &all {
        if table.ssh.is_some() || !table.reach.is_empty() || !table.address.is_empty() {
            return Err(reader.at(&table.name, "host.name = \"*\": every host has settings only"));
        }
        inventory.everywhere.extend(reader.settings(table)?);
    }
    Ok(inventory)
}

/// Parses an experiment's text. `path` is for messages, `folder` is what paths in it are relative to.
///
/// # Errors
/// [`FileError`], with file and place.
pub fn parse(text: &str, path: &str, folder: &Path) -> Result<Plan, FileError> {
    let reader = Reader { text, path, folder };
    let file: File = reader.toml()?;
    reader.plan(&file)
}

/// The file, and where it is.
struct Reader<'a> {
    text: &'a str,
    path: &'a str,
    folder: &'a Path,
}

/// Names that placeholders and roles may use.
struct Known {
    /// Hosts by name; empty: the launcher gives some.
    hosts: BTreeSet<String>,
    /// Settings and facts of hosts.
    settings: BTreeSet<String>,
    axes: BTreeMap<String, Vec<AxisValue>>,
    roles: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn toml<T: serde::de::DeserializeOwned>(&self) -> Result<T, FileError> {
        toml::from_str(self.text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            self.at_byte(at, with_nearest_word(e.message()))
        })
    }

    fn at_byte(&self, at: usize, what: impl Into<String>) -> FileError {
        FileError::At { path: self.path.to_owned(), place: Place::of(self.text, at), what: what.into() }
    }

    fn at<T>(&self, of: &Spanned<T>, what: impl Into<String>) -> FileError {
        self.at_byte(of.span().start, what)
    }

    fn plan(&self, file: &File) -> Result<Plan, FileError> {
        self.check_name("name", &file.name)?;
        if file.role.is_empty() {
            return Err(self.at(&file.name, "[[role]] is missing: an experiment has at least one role"));
        }
        let (topology, lab_hosts) = self.topology(file)?;
        let hosts = self.hosts(&file.host)?;
        let (points, systems) = self.points(file)?;
        let known = Known {
            hosts: hosts.iter().map(|h| h.name.clone()).chain(lab_hosts).collect(),
            settings: hosts
                .iter()
                .flat_map(|h| h.settings.keys().cloned())
                .chain(HOST_FACTS.iter().map(|&fact| fact.to_owned()))
                .collect(),
            axes: points.iter().flatten().fold(BTreeMap::new(), |mut axes, (key, value)| {
                axes.entry(key.clone()).or_insert_with(Vec::new).push(value.clone());
                axes
            }),
            roles: file.role.iter().map(|role| role.name.get_ref().clone()).collect(),
        };
        self.axis_placeholders(file, &points, &known)?;
        let roles = self.roles(file, &known)?;
        Ok(Plan {
            file: self.path.to_owned(),
            folder: self.folder.to_owned(),
            name: file.name.get_ref().clone(),
            title: file.title.clone(),
            about: file.about.clone(),
            table: self.published_table(file)?,
            hardware: self.hardware(file)?,
            seed: file.seed.unwrap_or(1),
            topology,
            hosts,
            method: self.method(file)?,
            points,
            systems,
            roles,
            merge: self.merge(file)?,
            environment: self.environment(&file.environment)?,
            sync: self.sync(file, &known)?,
            black: self.host_names("black", &file.black, &known)?,
            quiet: self.host_names("quiet", &file.quiet, &known)?,
            everywhere: BTreeMap::new(),
            secrets: Secrets::default(),
        })
    }

    fn check_name(&self, key: &str, given: &Spanned<String>) -> Result<(), FileError> {
        let name = given.get_ref();
        let good = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= NAME_LEN_MAX
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
        if good {
            return Ok(());
        }
        Err(self.at(
            given,
            format!(
                "{key} = {name:?}: a name is a letter from a to z, then at most {} of a to z, 0 to 9, `-` and `_`",
                NAME_LEN_MAX - 1
            ),
        ))
    }

    fn topology(&self, file: &File) -> Result<(Option<PathBuf>, Vec<String>), FileError> {
        let Some(lab) = &file.lab else { return Ok((None, Vec::new())) };
        let path = self.folder.join(lab.topology.get_ref());
        let topology = Topology::read(&path).map_err(|source| FileError::Topology {
            path: self.path.to_owned(),
            place: Place::of(self.text, lab.topology.span().start),
            source,
        })?;
        Ok((Some(path), topology.hosts.into_iter().map(|host| host.name).collect()))
    }

    fn hosts(&self, tables: &[HostTable]) -> Result<Vec<HostSpec>, FileError> {
        let mut hosts: Vec<HostSpec> = Vec::new();
        for table in tables {
            let name = table.name.get_ref();
            self.check_name("host.name", &table.name)?;
            if name == HERE {
                return Err(self.at(
                    &table.name,
                    "host.name = \"here\": the name of the machine that runs the experiment",
                ));
            }
            if hosts.iter().any(|host| host.name == *name) {
                return Err(self.at(&table.name, format!("host.name = {name:?}: a second host of this name")));
            }
            if let Some(ssh) = table.ssh.as_ref().filter(|_| !table.reach.is_empty()) {
                return Err(self.at(ssh, "host.ssh: the same as `reach`, which is there, too"));
            }
            hosts.push(HostSpec {
                name: name.clone(),
                reach: table.ssh.as_ref().map_or_else(|| table.reach.clone(), |ssh| ssh.get_ref().clone()),
                address: table.address.clone(),
                settings: self.settings(table)?,
            });
        }
        Ok(hosts)
    }

    fn settings(&self, table: &HostTable) -> Result<BTreeMap<String, String>, FileError> {
        let mut settings = BTreeMap::new();
        for (key, value) in &table.settings {
            if ["name", "index", "address"].contains(&key.as_str()) {
                return Err(self.at(value, format!("host.settings.{key}: known without it")));
            }
            settings.insert(key.clone(), self.scalar(&format!("host.settings.{key}"), value)?);
        }
        Ok(settings)
    }

    /// Text, number or yes and no, as text.
    fn scalar(&self, key: &str, value: &Spanned<Value>) -> Result<String, FileError> {
        axis_value(value.get_ref())
            .map(|value| value.to_string())
            .ok_or_else(|| self.at(value, format!("{key}: expected a text, a number, true or false")))
    }

    fn published_table(&self, file: &File) -> Result<Option<String>, FileError> {
        let Some(given) = &file.table else { return Ok(None) };
        let id = given.get_ref();
        if published::table(id).is_some() {
            return Ok(Some(id.clone()));
        }
        let known: Vec<&str> = published::tables().map(|table| table.id).collect();
        Err(self.at(given, format!("table = {id:?}: no published table{}", near(id, &known))))
    }

    fn hardware(&self, file: &File) -> Result<Option<HardwareClass>, FileError> {
        let classes = [
            HardwareClass::CloudVms,
            HardwareClass::BareMetal,
            HardwareClass::OneMachine,
            HardwareClass::Simulated,
        ];
        let words: Vec<(&str, HardwareClass)> = classes.iter().map(|class| (class.word(), *class)).collect();
        file.hardware.as_ref().map(|given| self.one_of("hardware", given, &words)).transpose()
    }

    fn one_of<T: Copy>(
        &self,
        key: &str,
        given: &Spanned<String>,
        words: &[(&str, T)],
    ) -> Result<T, FileError> {
        let word = given.get_ref();
        words.iter().find(|(known, _)| known == word).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.at(given, format!("{key} = {word:?}: not known{}", near(word, &known)))
        })
    }

    fn seconds(&self, key: &str, given: Option<&Spanned<f64>>, default: f64) -> Result<f64, FileError> {
        let Some(given) = given else { return Ok(default) };
        let value = *given.get_ref();
        match (0.0..=SECONDS_MAX).contains(&value) {
            true => Ok(value),
            false => Err(self.at(given, format!("{key} = {value}: seconds, from 0 to a week"))),
        }
    }

    fn method(&self, file: &File) -> Result<MethodPlan, FileError> {
        let table = &file.method;
        let usual = MethodPlan::default();
        let runs = match &table.runs {
            None => usual.runs,
            Some(given) if (1..=10_000).contains(given.get_ref()) => *given.get_ref(),
            Some(given) => {
                return Err(self.at(given, format!("method.runs = {}: from 1 to 10000", given.get_ref())));
            }
        };
        let seconds = self.seconds("method.seconds", table.seconds.as_ref(), usual.seconds)?;
        let warmup_s = self.seconds("method.warmup_s", table.warmup_s.as_ref(), usual.warmup_s)?;
        let timeout =
            self.seconds("method.timeout_s", table.timeout_s.as_ref(), 60.0 + seconds + warmup_s)?;
        if let Some(given) = table.timeout_s.as_ref().filter(|t| *t.get_ref() > 0.0 && timeout <= seconds) {
            let what =
                format!("method.timeout_s = {timeout}: a run measures for {seconds} s; 0: no time-out");
            return Err(self.at(given, what));
        }
        let ready = self.seconds(
            "method.ready_timeout_s",
            table.ready_timeout_s.as_ref(),
            usual.ready_timeout.as_secs_f64(),
        )?;
        let pause = self.seconds("method.cell_pause_s", table.cell_pause_s.as_ref(), 0.0)?;
        let silence =
            self.seconds("method.silence_s", table.silence_s.as_ref(), usual.silence.as_secs_f64())?;
        if let Some(given) = table.silence_s.as_ref().filter(|_| silence < SILENCE_LEAST.as_secs_f64()) {
            let what = format!(
                "method.silence_s = {silence}: at least {} s: agents send a heartbeat each second",
                SILENCE_LEAST.as_secs_f64()
            );
            return Err(self.at(given, what));
        }
        Ok(MethodPlan {
            runs,
            warmup_s,
            seconds,
            timeout: (timeout > 0.0).then(|| Duration::from_secs_f64(timeout)),
            endless: false,
            ready_timeout: Duration::from_secs_f64(ready),
            interleave: table.interleave.unwrap_or(usual.interleave),
            pause: Duration::from_secs_f64(pause),
            silence: Duration::from_secs_f64(silence),
        })
    }

    /// Every point of the sweep: each axis with each other, in the file's order, the last one fastest; and which axes are
    /// [`Plan::systems`].
    fn points(&self, file: &File) -> Result<(Vec<Point>, BTreeSet<String>), FileError> {
        let mut axes: Vec<(&String, &Spanned<Value>)> = file.sweep.iter().collect();
        axes.sort_by_key(|(_, value)| value.span().start);
        let mut points: Vec<Point> = vec![Vec::new()];
        let mut systems = BTreeSet::new();
        for (key, given) in axes {
            let what = format!("sweep.{key}");
            let Value::Array(values) = given.get_ref() else {
                return Err(self.at(given, format!("{what}: expected a list of values")));
            };
            if values.is_empty() {
                return Err(self.at(given, format!("{what}: the list is empty")));
            }
            let steps: Vec<Point> = if key == ZIP || key == SYSTEMS {
                let steps = self.together(given, key, values, &points)?;
                if key == SYSTEMS {
                    systems.extend(steps.iter().flatten().map(|(axis, _)| axis.clone()));
                }
                steps
            } else {
                self.check_axis(given, key)?;
                let all = values.iter().map(|value| Some(vec![(key.clone(), axis_value(value)?)]));
                let all: Option<Vec<Point>> = all.collect();
                all.ok_or_else(|| {
                    self.at(given, format!("{what}: values are texts, numbers, true and false"))
                })?
            };
            let twice = steps.iter().enumerate().find(|(i, step)| steps[..*i].contains(step));
            if let Some((_, step)) = twice {
                return Err(self.at(given, format!("{what}: {} stands there twice", point_text(step))));
            }
            if points.len().saturating_mul(steps.len()) > CELLS_MAX {
                return Err(self.at(given, format!("{what}: makes more than {CELLS_MAX} cells")));
            }
            points = points
                .iter()
                .flat_map(|point| steps.iter().map(|step| point.iter().chain(step).cloned().collect()))
                .collect();
        }
        Ok((points, systems))
    }

    fn together(
        &self,
        given: &Spanned<Value>,
        name: &str,
        values: &[Value],
        points: &[Point],
    ) -> Result<Vec<Point>, FileError> {
        let mut steps: Vec<Point> = Vec::new();
        for value in values {
            let step = value.as_table().and_then(|table| {
                table
                    .iter()
                    .map(|(key, value)| Some((key.clone(), axis_value(value)?)))
                    .collect::<Option<Point>>()
            });
            let Some(step) = step else {
                let what =
                    format!("sweep.{name}: expected a list of tables: [{{ size = 64, window = 1 }}, …]");
                return Err(self.at(given, what));
            };
            for (key, _) in &step {
                self.check_axis(given, key)?;
                if points.first().is_some_and(|point| point.iter().any(|(axis, _)| axis == key)) {
                    return Err(self.at(given, format!("sweep.{name}: `{key}` is an axis of its own, too")));
                }
            }
            let keys = |point: &Point| point.iter().map(|(key, _)| key.clone()).collect::<BTreeSet<_>>();
            if steps.first().is_some_and(|first| keys(first) != keys(&step)) {
                return Err(self.at(given, format!("sweep.{name}: every table needs the same keys")));
            }
            steps.push(step);
        }
        Ok(steps)
    }

    fn check_axis(&self, given: &Spanned<Value>, key: &str) -> Result<(), FileError> {
        let good = key.starts_with(|c: char| c.is_ascii_lowercase())
            && key.len() <= NAME_LEN_MAX
            && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !good {
            return Err(self.at(given, format!("sweep.{key}: an axis is named with a to z, 0 to 9 and `_`")));
        }
        if BUILT_IN.contains(&key) || key == "host" {
            let what = format!("sweep.{key}: `{{{key}}}` already has a meaning; name the axis otherwise");
            return Err(self.at(given, what));
        }
        Ok(())
    }

    fn merge(&self, file: &File) -> Result<MergePlan, FileError> {
        let table = &file.merge;
        let mut seen = BTreeSet::new();
        let mut list = |key: &str, given: &[Spanned<String>]| {
            let mut keys = BTreeSet::new();
            for one in given {
                if !seen.insert(one.get_ref().clone()) {
                    let what = format!("merge.{key}: `{}` stands there already", one.get_ref());
                    return Err(self.at(one, what));
                }
                keys.insert(one.get_ref().clone());
            }
            Ok(keys)
        };
        let (sum, max) = (list("sum", &table.sum)?, list("max", &table.max)?);
        let (min, mean) = (list("min", &table.min)?, list("mean", &table.mean)?);
        if let Some(given) = &table.histogram {
            self.one_of("merge.histogram", given, &[("merge", ())])?;
        }
        let words = [("together", false), ("apart", true)];
        let apart = table.rows.as_ref().map(|given| self.one_of("merge.rows", given, &words)).transpose()?;
        Ok(MergePlan { sum, max, min, mean, apart: apart.unwrap_or(false) })
    }

    fn environment(
        &self,
        given: &BTreeMap<String, Spanned<Value>>,
    ) -> Result<BTreeMap<String, String>, FileError> {
        let mut environment = BTreeMap::new();
        for (name, value) in given {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(self.at(value, format!("environment: `{name}` is not a name of a variable")));
            }
            let text = self.scalar(&format!("environment.{name}"), value)?;
            if text.contains('\0') {
                return Err(self.at(value, format!("environment.{name}: a byte 0 cannot be in a variable")));
            }
            environment.insert(name.clone(), text);
        }
        Ok(environment)
    }

    fn sync(&self, file: &File, known: &Known) -> Result<Vec<SyncPlan>, FileError> {
        let mut all = Vec::new();
        for table in &file.sync {
            let source = self.folder.join(table.source.get_ref());
            if !source.is_file() {
                return Err(
                    self.at(&table.source, format!("sync.source: no such file: {}", source.display()))
                );
            }
            let name = source.file_name().map(PathBuf::from).unwrap_or_default();
            all.push(SyncPlan {
                source,
                to: table.to.clone().unwrap_or(name),
                targets: self.host_names("sync.targets", &table.targets, known)?.into_iter().collect(),
            });
        }
        Ok(all)
    }

    fn host_names(
        &self,
        key: &str,
        given: &[Spanned<String>],
        known: &Known,
    ) -> Result<BTreeSet<String>, FileError> {
        let mut names = BTreeSet::new();
        for name in given {
            self.check_host(key, name.span().start, name.get_ref(), known)?;
            names.insert(name.get_ref().clone());
        }
        Ok(names)
    }

    fn check_host(&self, key: &str, at: usize, name: &str, known: &Known) -> Result<(), FileError> {
        if known.hosts.contains(name) {
            return Ok(());
        }
        let hosts: Vec<&str> = known.hosts.iter().map(String::as_str).collect();
        let hint = match hosts.is_empty() {
            true => "; [[host]] or a lab's topology declares hosts".to_owned(),
            false => near(name, &hosts),
        };
        Err(self.at_byte(at, format!("{key}: no host `{name}`{hint}")))
    }
}

/// A value of a sweep; `None`: it cannot be one.
fn axis_value(value: &Value) -> Option<AxisValue> {
    match value {
        Value::Integer(n) => Some(AxisValue::Number(*n as f64)),
        Value::Float(n) if n.is_finite() => Some(AxisValue::Number(*n)),
        Value::String(text) => Some(AxisValue::Text(text.clone())),
        Value::Boolean(yes) => Some(AxisValue::Text(yes.to_string())),
        _ => None,
    }
}

/// `threads 2, size 64`, as it may be shown.
pub(crate) fn point_text(point: &[(String, AxisValue)]) -> String {
    let shown = |(key, value): &(String, AxisValue)| format!("{key} {}", shown(key, &value.to_string()));
    point.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// `; did you mean X?`, else what there is, if that is little.
pub(crate) fn near(word: &str, known: &[&str]) -> String {
    const SHOWN_MAX: usize = 12;
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("; {}", did_you_mean(near, Quote::Back)),
        None if known.len() <= SHOWN_MAX => format!(" (known: {})", known.join(", ")),
        None => format!(" (known: {}, …)", known[..SHOWN_MAX].join(", ")),
    }
}

/// What the parser says in our own words where it is about a key, with the nearest right one.
fn with_nearest_word(message: &str) -> String {
    match key_error(message) {
        Some(KeyError::Unknown { key, known }) => match nearest(key, known.iter().copied()) {
            Some(near) => format!("unknown key `{key}`; {}", did_you_mean(near, Quote::Back)),
            None => format!("unknown key `{key}` (known: {})", known.join(", ")),
        },
        Some(KeyError::Missing { key }) => format!("key `{key}` is missing"),
        None => message.trim_end().replace('\n', "; "),
    }
}
